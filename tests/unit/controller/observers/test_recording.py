"""What is found in the changes of one key's objects."""

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap, Pod
from kcr.controller.observers.recording import HotLoop, HotObject, Recording
from kcr.testing import build

KEY = kcr.Key("default", "wall")
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def paint(recording: Recording, name: str, *colors: str) -> None:
    """Record the changes of one wall from each color to the next one."""
    walls = [build.config_map(name, {"color": color}) for color in colors]
    for old, new in pairwise(walls):
        recording.add(ConfigMap, old, new)


def shades(first: int, count: int) -> list[str]:
    """Return colors that never come back, for so many changes."""
    return [f"shade {number}" for number in range(first, first + count + 1)]


def test_field_that_returns_to_its_values_has_two_writers() -> None:
    recording = Recording(0.0, KEY)
    paint(recording, "a", *["red", "blue"] * 6)
    assert recording.finding is None
    paint(recording, "a", "blue", "red")
    assert recording.finding is not None
    assert (recording.finding.form, recording.finding.fields) == ("by turns", (("data", "color"),))


def test_nothing_is_looked_for_after_sixty_changes() -> None:
    recording = Recording(0.0, KEY)
    for number in range(30):
        for name in ("a", "b"):
            paint(recording, name, *shades(number, 1))
    assert recording.finding is None
    paint(recording, "a", *["red", "blue"] * 10)
    assert recording.finding is None


def test_two_writers_are_found_among_the_first_sixty_changes() -> None:
    recording = Recording(0.0, KEY)
    for number in range(20):
        for name in ("a", "b"):
            paint(recording, name, *shades(number, 1))
    paint(recording, "a", *["red", "blue"] * 4)
    assert recording.finding is not None
    assert recording.finding.form == "by turns"


def test_later_changes_do_not_alter_a_finding() -> None:
    recording = Recording(0.0, KEY)
    paint(recording, "a", *shades(0, 12))
    finding = recording.finding
    assert finding is not None
    assert finding.form == "by itself"
    paint(recording, "b", *shades(0, 3))
    assert recording.finding is finding


def test_changes_of_the_version_alone_do_not_count() -> None:
    recording = Recording(0.0, KEY)
    old = build.config_map("a", {"color": "red"})
    for number in range(60):
        new = replace(old, metadata=replace(old.metadata, resource_version=str(1000 + number)))
        recording.add(ConfigMap, old, new)
        old = new
    paint(recording, "a", *shades(0, 12))
    assert recording.finding is not None


def annotated(obj: kcr.Resource, generation: int | None, text: str) -> kcr.Resource:
    return replace(obj, metadata=replace(obj.metadata, annotations={"x": text}, generation=generation))


def recolored(obj: kcr.Resource, generation: int | None, text: str) -> kcr.Resource:
    return replace(build.config_map("a", {"color": text}), metadata=replace(obj.metadata, generation=generation))


@pytest.mark.parametrize(
    ("change", "generation", "droppable"), [(annotated, 3, True), (annotated, None, False), (recolored, 3, False)]
)
def test_predicate_is_advice_only_where_it_drops_the_changes(
    change: Callable[[kcr.Resource, int | None, str], kcr.Resource], generation: int | None, droppable: bool
) -> None:
    recording = Recording(0.0, KEY)
    for old, new in pairwise(change(build.config_map("a"), generation, text) for text in shades(0, 12)):
        recording.add(ConfigMap, old, new)
    assert recording.finding is not None
    assert recording.finding.is_droppable is droppable


def churn(recording: Recording, kind: type[kcr.Resource], *pairs: tuple[kcr.Resource, kcr.Resource]) -> None:
    """Record the creation and deletion of objects."""
    for created, deleted in pairs:
        recording.created(kind, created)
        recording.deleted(kind, deleted)


def test_object_that_is_deleted_and_created_again_is_found() -> None:
    recording, wall = Recording(0.0, KEY), build.config_map("wall")
    churn(recording, ConfigMap, *[(wall, wall)] * 5)
    assert recording.finding is None
    churn(recording, ConfigMap, (wall, wall))
    assert recording.finding == HotLoop("recreated", HotObject(ConfigMap, wall.key))
    assert not recording.follows_others


def test_objects_of_drawn_names_are_found_if_nobody_has_used_them() -> None:
    unused, used = Recording(0.0, KEY), Recording(0.0, KEY)
    for number in range(6):
        wall = build.config_map(f"wall-{number}")
        going = replace(wall, metadata=replace(wall.metadata, resource_version="9", deletion_timestamp=MOMENT))
        churn(unused, ConfigMap, (wall, going))
        churn(used, ConfigMap, (wall, replace(wall, data={"color": "red"})))
    assert unused.finding is not None
    assert used.finding is None


@pytest.mark.parametrize(("phase", "is_loop"), [("Pending", True), ("Running", True), ("Succeeded", False)])
def test_pods_that_have_ended_may_be_deleted(phase: str, is_loop: bool) -> None:
    recording = Recording(0.0, KEY)
    for number in range(8):
        churn(recording, Pod, (build.pod(f"p-{number}"), build.pod(f"p-{number}", phase=phase)))
    assert (recording.finding is not None) is is_loop


def test_old_objects_may_be_deleted_in_any_number() -> None:
    recording = Recording(0.0, KEY)
    for number in range(50):
        recording.deleted(ConfigMap, build.config_map(f"wall-{number}"))
    assert recording.finding is None


def test_status_that_counts_objects_that_come_and_go_is_not_the_cause() -> None:
    recording = Recording(0.0, KEY)
    for number in range(12):
        if number % 2:
            wall = build.config_map(f"wall-{number}")
            churn(recording, ConfigMap, (wall, wall))
        paint(recording, "owner", *shades(number, 1))
    assert recording.finding is not None
    assert recording.finding.form == "recreated"


@pytest.mark.parametrize(
    ("owner", "phase", "deleted", "is_loop"),
    [
        pytest.param("wall", "Running", False, True, id="running"),
        pytest.param("wall", "Succeeded", False, False, id="one-has-ended"),
        pytest.param("wall", "Running", True, False, id="one-is-deleted"),
        pytest.param("other", "Running", False, False, id="of-another-object"),
    ],
)
def test_objects_of_the_key_are_created_without_end(owner: str, phase: str, deleted: bool, is_loop: bool) -> None:
    recording = Recording(0.0, KEY)
    for number in range(62):
        pod = build.pod(f"p-{number}", owner=build.config_map(owner))
        recording.created(Pod, pod)
        if number < 20:
            recording.add(Pod, pod, build.pod(pod.metadata.name, phase=phase if number == 5 else "Running"))
        if deleted and number == 9:
            recording.deleted(Pod, pod)
    assert (recording.finding is not None) is is_loop
    if is_loop:
        assert recording.finding == HotLoop("created", HotObject(Pod, kcr.Key("default", "p-60")))
        assert not recording.follows_others
