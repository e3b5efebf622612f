from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kcr.api.codec import WatchEvent
from kcr.api.core import PodSpec
from kcr.api.meta import Key, ObjectMeta, Resource
from kcr.client.wire.decoding import Undecodable
from kcr.informer import Selection
from kcr.informer.accumulator import ListAccumulator
from tests.kit.informer_pods import Pod, pod, replaced


class Writer:
    """A store writer that records its calls."""

    def __init__(self) -> None:
        self.given: list[object] = []
        self.stored: set[Key] = set()

    def share(self, obj: Pod) -> Pod:
        return obj

    def has(self, key: Key) -> bool:
        return key in self.stored

    def replace(self, objects: Iterable[Pod], undecodable: Mapping[Key, str], version: str) -> Iterator[None]:
        self.given.append((tuple(objects), dict(undecodable), version))
        yield

    def apply(self, event: WatchEvent[Pod]) -> None:
        self.given.append((event.type, event.object))

    def advance(self, version: str) -> None:
        self.given.append(version)

    def on_decode_error(self, key: Key, error: str, version: str) -> None:
        self.given.append((key, error, version))


def made(transform: Callable[[Pod], Pod] | None = None) -> tuple[ListAccumulator[Pod], Writer, Counter[str]]:
    writer, counts = Writer(), Counter[str]()
    return ListAccumulator(Selection(Pod, transform=transform), writer, counts), writer, counts


def bad(name: str) -> Undecodable:
    return Undecodable("", pod(name, 7).metadata, "no phase")


# ST-6
def test_object_that_does_not_fit_stops_no_other() -> None:
    accumulator, writer, counts = made()
    for found in (pod("a", 1), pod("b", 2), bad("b"), bad("c")):
        accumulator.add(found)
    replaced(accumulator.replace("9"))
    assert writer.given == [((pod("a", 1),), {Key("d", "b"): "no phase", Key("d", "c"): "no phase"}, "9")]
    assert counts["undecodable"] == 2


# ST-6
@pytest.mark.parametrize(
    ("stored", "said"), [({Key("d", "b")}, "its last good version is kept"), (set(), "the store has no version of it")]
)
def test_object_that_does_not_fit_is_logged_with_what_the_store_has(stored: set[Key], said: str) -> None:
    accumulator, writer, _ = made()
    writer.stored = stored
    with capture_logs() as logs:
        accumulator.add(bad("b"))
    assert [line["event"] for line in logs] == [f"object cannot be decoded, {said}"]


# RF-23
def test_object_removed_from_a_list_is_not_stored() -> None:
    accumulator, writer, _ = made()
    accumulator.add(pod("a"))
    accumulator.add(bad("b"))
    accumulator.remove(Key("d", "a"))
    accumulator.remove(Key("d", "b"))
    replaced(accumulator.replace("9"))
    assert writer.given == [((), {}, "9")]


# RF-14
def test_events_bookmarks_and_refusals_reach_the_sink_apart() -> None:
    accumulator, writer, _ = made()
    found: tuple[WatchEvent[Pod] | Undecodable, ...] = (
        WatchEvent(type="ADDED", object=pod("a", 5)),
        WatchEvent(type="BOOKMARK", object=pod("", 6)),
        bad("a"),
        WatchEvent(type="RENAMED", object=pod("a", 8)),
    )
    versions = [accumulator.apply(event).resource_version for event in found]
    assert versions == ["5", "6", "7", "8"]
    assert writer.given == [("ADDED", pod("a", 5)), "6", (Key("d", "a"), "no phase", "7")]


def without_spec(found: Pod) -> Pod:
    return replace(found, spec=PodSpec())


# RF-33, ST-17
def test_transform_sees_each_object_once_on_its_way_in() -> None:
    seen: list[str] = []

    def transform(found: Pod) -> Pod:
        seen.append(found.metadata.name)
        return without_spec(found)

    accumulator, writer, _ = made(transform)
    full = replace(pod("a"), spec=PodSpec(node_name="n"))
    accumulator.add(full)
    replaced(accumulator.replace("1"))
    accumulator.apply(WatchEvent(type="MODIFIED", object=full))
    assert seen == ["a", "a"]
    assert writer.given == [((pod("a"),), {}, "1"), ("MODIFIED", pod("a"))]


def broken(found: Pod) -> Pod:
    raise RuntimeError("oops")


# RF-33
@pytest.mark.parametrize(
    ("transform", "why"),
    [
        pytest.param(broken, "transform failed: RuntimeError('oops')", id="raises"),
        pytest.param(
            lambda found: pod("other"),
            "the transform changed its name, namespace, uid or resourceVersion",
            id="changes-the-name",
        ),
    ],
)
def test_object_that_the_transform_spoils_keeps_its_last_good_version(
    transform: Callable[[Pod], Pod], why: str
) -> None:
    accumulator, writer, counts = made(transform)
    accumulator.add(pod("a"))
    replaced(accumulator.replace("1"))
    accumulator.apply(WatchEvent(type="MODIFIED", object=pod("a", 2)))
    assert writer.given == [((), {Key("d", "a"): why}, "1"), (Key("d", "a"), why, "2")]
    assert counts["undecodable"] == 2


# ST-6, RF-33
@pytest.mark.parametrize(
    "deleted",
    [
        pytest.param(pod("a", 2), id="transform-fails"),
        # As `read_event` returns what does not fit.
        pytest.param(Resource(metadata=pod("a", 2).metadata), id="metadata-alone"),
    ],
)
def test_deletion_is_applied_whatever_the_transform_makes_of_it(deleted: Any) -> None:
    accumulator, writer, _ = made(broken)
    accumulator.apply(WatchEvent(type="DELETED", object=deleted))
    assert writer.given == [("DELETED", Resource(metadata=deleted.metadata))]


# ST-6
def test_item_without_a_readable_name_stops_no_other() -> None:
    accumulator, writer, counts = made()
    for found in (pod("a", 1), Undecodable("", ObjectMeta(), "metadata: expected an object")):
        accumulator.add(found)
    replaced(accumulator.replace("9"))
    assert writer.given == [((pod("a", 1),), {Key("", ""): "metadata: expected an object"}, "9")]
    assert counts["undecodable"] == 1
