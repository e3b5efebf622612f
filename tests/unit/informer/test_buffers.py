from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.informer.buffers import (
    Added,
    Block,
    Buffer,
    Change,
    Coalesce,
    Gone,
    Notice,
    Resnapshot,
    Synced,
    Updated,
    merged,
)
from tests.unit.informer.pods import Pod, Told, pod

A1, A2, A3 = pod("a", 1), pod("a", 2), pod("a", 3)


def drained(buffer: Buffer[Pod]) -> list[Notice[Pod]]:
    found = []
    while (notice := buffer.take()) is not None:
        found.append(notice)
    return found


# IN-12
def test_blocking_buffer_keeps_everything_and_says_when_it_is_full() -> None:
    buffer = Block[Pod](2)
    notices: list[Notice[Pod]] = [Added(A1, True), Updated(A1, A2), Gone(A2, True)]
    for notice, full in zip(notices, (False, True, True), strict=True):
        buffer.put(notice)
        assert buffer.is_full == full
    assert drained(buffer) == notices
    assert not buffer.is_full


# IN-12
@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        pytest.param(Added(A1, True), Updated(A1, A2), (Added(A2, True),), id="add-update"),
        pytest.param(Updated(A1, A2), Updated(A2, A3), (Updated(A1, A3),), id="update-update"),
        pytest.param(Updated(A1, A2), Gone(A3, True), (Gone(A3, True),), id="update-delete"),
        pytest.param(Added(A1, False), Gone(A2, True), (Added(A1, False), Gone(A2, True)), id="add-delete"),
        pytest.param(Gone(A1, False), Added(A2, False), (Gone(A1, False), Added(A2, False)), id="delete-add"),
    ],
)
def test_notices_about_one_object_merge(before: Change[Pod], after: Change[Pod], left: tuple[Change[Pod], ...]) -> None:
    assert merged(before, after) == left


# IN-12
def test_coalescing_buffer_tells_objects_in_the_order_they_changed_first() -> None:
    buffer = Coalesce[Pod]()
    b1 = pod("b", 5)
    for notice in (Added(A1, True), Added(b1, True), Synced(), Updated(A1, A2), Gone(b1, True), Updated(A2, A3)):
        buffer.put(notice)
    assert drained(buffer) == [Added(A3, True), Added(b1, True), Gone(b1, True), Synced()]


# IN-12
def test_overflow_of_a_resnapshot_buffer_leaves_the_difference() -> None:
    world = {"kept": pod("kept"), "changed": pod("changed", 1), "gone": pod("gone")}
    buffer = Resnapshot[Pod](3, world.values)
    for found in world.values():
        buffer.put(Added(found, True))
    drained(buffer)
    old = dict(world)
    world |= {"changed": pod("changed", 8), "new": pod("new", 9)}
    del world["gone"]
    for number in range(9):
        buffer.put(Updated(pod("changed", number), pod("changed", number + 1)))
    assert drained(buffer) == [
        Gone(old["gone"], seen=False), Updated(old["changed"], world["changed"]), Added(world["new"], initial=False),
    ]  # fmt: skip


# IN-12
def test_first_objects_stay_initial_through_an_overflow() -> None:
    world = [pod(name) for name in "abc"]
    buffer = Resnapshot[Pod](2, lambda: world)
    for found in world:
        buffer.put(Added(found, True))
    buffer.put(Synced())
    assert drained(buffer) == [*(Added(found, True) for found in world), Synced()]


Policies = [
    pytest.param(lambda world: Block[Pod](3), id="block"),
    pytest.param(lambda world: Coalesce[Pod](), id="coalesce"),
    pytest.param(lambda world: Resnapshot[Pod](3, world.values), id="resnapshot"),
]


def tell(told: Told, notice: Notice[Pod] | None) -> None:
    match notice:
        case Added(obj, initial):
            told.on_add(obj, initial)
        case Updated(old, new):
            # Of an object's states none is heard after a later one.
            assert int(old.metadata.resource_version) < int(new.metadata.resource_version)
            told.on_update(old, new)
        case Gone(obj, seen):
            (told.on_delete if seen else told.on_vanish)(obj)


# IN-1, IN-12
@pytest.mark.parametrize("make", Policies)
@given(steps=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["change", "remove", "replace", "take"]))))
def test_whoever_falls_behind_knows_the_world_in_the_end(
    make: Callable[[dict[str, Pod]], Buffer[Pod]], steps: list[tuple[str, str]]
) -> None:
    world: dict[str, Pod] = {}
    buffer, told = make(world), Told()

    for version, (name, step) in enumerate(steps, 1):
        old = world.get(name)
        if step == "take":
            tell(told, buffer.take())
        elif step == "remove" and old is not None:
            del world[name]
            buffer.put(Gone(old, seen=True))
        elif step == "change" and old is not None:
            world[name] = pod(name, version, uid=old.metadata.uid)
            buffer.put(Updated(old, world[name]))
        elif step in ("change", "replace"):
            if old is not None:
                buffer.put(Gone(old, seen=False))
            world[name] = pod(name, version, uid=f"{name}-{version}")
            buffer.put(Added(world[name], initial=False))
    for notice in drained(buffer):
        tell(told, notice)
    assert told.world == world
