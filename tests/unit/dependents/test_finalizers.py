from kcr.dependents import add_finalizer, has_finalizer, remove_finalizer
from tests.kit.owners import config_map


def test_added_finalizer_comes_after_the_others() -> None:  # EX-36
    held = add_finalizer(config_map(finalizers=("z", "a")), "kcr.dev/x")
    assert held.metadata.finalizers == ("z", "a", "kcr.dev/x")
    assert has_finalizer(held, "kcr.dev/x")


def test_finalizer_that_is_there_is_not_added_again() -> None:  # EX-36
    held = config_map(finalizers=("kcr.dev/x", "a"))
    assert add_finalizer(held, "kcr.dev/x") is held


def test_removed_finalizer_leaves_the_order_of_the_others() -> None:  # EX-36
    held = config_map(finalizers=("z", "kcr.dev/x", "a"))
    assert remove_finalizer(held, "kcr.dev/x").metadata.finalizers == ("z", "a")


def test_removing_a_finalizer_that_is_not_there_changes_nothing() -> None:  # EX-36
    free = config_map(finalizers=("z",))
    assert not has_finalizer(free, "kcr.dev/x")
    assert remove_finalizer(free, "kcr.dev/x") is free
