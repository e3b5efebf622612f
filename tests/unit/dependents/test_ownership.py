import pytest
from msgspec.structs import replace

from kcr.api.core import Namespace
from kcr.api.meta import OwnerReference
from kcr.dependents import AlreadyOwnedError, has_owner, remove_owner, set_controller, set_owner
from tests.kit.owners import config_map, namespace, reference, website


def test_controller_blocks_the_deletion_of_its_owner() -> None:  # EX-29
    assert set_controller(config_map(), website()).metadata.owner_references == (reference(),)


def test_second_controller_is_refused_by_the_name_of_the_first() -> None:  # EX-29
    owned = config_map(owner_references=(reference("other", "uid-other"),))
    with pytest.raises(
        AlreadyOwnedError, match=r"configmaps default/settings: controlled by Website other already"
    ) as e:
        set_controller(owned, website())
    assert e.value.owner.uid == "uid-other"


def test_plain_owner_comes_beside_a_controller() -> None:  # EX-29
    both = set_owner(config_map(owner_references=(reference("other", "uid-other"),)), website())
    assert both.metadata.owner_references == (reference("other", "uid-other"), reference(controller=None))


@pytest.mark.parametrize(
    "stale",
    [
        pytest.param(reference(uid="uid-of-an-older-one"), id="other-uid"),
        pytest.param(replace(reference(), api_version="example.dev/v1alpha1"), id="other-version"),
        pytest.param(reference(controller=None), id="not-controller-yet"),
    ],
)
def test_reference_to_the_same_name_is_replaced_in_place(stale: OwnerReference) -> None:  # EX-29
    first = reference("first", "uid-first", controller=None)
    owned = config_map(owner_references=(stale, first))
    assert set_controller(owned, website()).metadata.owner_references == (reference(), first)


def test_reference_that_is_right_already_changes_nothing() -> None:  # EX-29
    owned = config_map(owner_references=(reference(),))
    assert set_controller(owned, website()) is owned


def test_owner_in_another_namespace_is_refused() -> None:  # EX-29
    with pytest.raises(ValueError, match=r"is in namespace elsewhere: .* what it owns has namespace='default'$"):
        set_owner(config_map(namespace="elsewhere"), website())


def test_owner_with_a_namespace_cannot_own_what_has_none() -> None:  # EX-29
    with pytest.raises(ValueError, match="cannot own namespaces default, which is in no namespace"):
        set_controller(namespace(), website())


def test_owner_without_a_namespace_may_own_anything() -> None:  # EX-29
    owned = set_controller(config_map(), namespace("some"))
    assert has_owner(owned, namespace("some"))
    assert Namespace.resource.kind == owned.metadata.owner_references[0].kind


def test_removed_owner_leaves_the_others_in_their_order() -> None:  # EX-29
    others = (reference("a", "uid-a", controller=None), reference("b", "uid-b", controller=None))
    owned = config_map(owner_references=(others[0], reference(), others[1]))
    assert has_owner(owned, website())
    assert remove_owner(owned, website()).metadata.owner_references == others


def test_removing_an_owner_that_is_none_changes_nothing() -> None:  # EX-29
    owned = config_map()
    assert not has_owner(owned, website())
    assert remove_owner(owned, website()) is owned


def test_owner_that_is_not_stored_cannot_own() -> None:  # EX-29, EX-30
    with pytest.raises(ValueError, match=r"websites\.example\.dev default/shop cannot own anything yet"):
        set_owner(config_map(), website(uid=""))
