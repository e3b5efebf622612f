from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

import pytest
from msgspec.structs import replace

from kcr.api.codec import WatchEvent
from kcr.api.core import PodSpec
from kcr.api.meta import Key
from kcr.client.decoding import Refused
from kcr.informer import Selection
from kcr.informer.intake import Intake
from tests.unit.informer.pods import Pod, pod, replaced


class Taken:
    """A sink that writes down what it is given."""

    is_full = False

    def __init__(self) -> None:
        self.given: list[object] = []

    def share(self, obj: Pod) -> Pod:
        return obj

    def replace(self, objects: Iterable[Pod], stale: Mapping[Key, str], version: str) -> Iterator[None]:
        self.given.append((tuple(objects), dict(stale), version))
        yield

    def apply(self, event: WatchEvent[Pod]) -> None:
        self.given.append((event.type, event.object))

    def advance(self, version: str) -> None:
        self.given.append(version)

    def refuse(self, key: Key, why: str, version: str) -> None:
        self.given.append((key, why, version))

    async def room(self) -> None: ...


def made(transform: Callable[[Pod], Pod] | None = None) -> tuple[Intake[Pod], Taken, Counter[str]]:
    taken, counts = Taken(), Counter[str]()
    return Intake(Selection(Pod, transform=transform), taken, counts), taken, counts


def bad(name: str) -> Refused:
    return Refused("", pod(name, 7).metadata, "no phase")


# ST-6
def test_object_that_does_not_fit_stops_no_other() -> None:
    intake, taken, counts = made()
    for found in (pod("a", 1), pod("b", 2), bad("b"), bad("c")):
        intake.keep(found)
    replaced(intake.hand_over("9"))
    assert taken.given == [((pod("a", 1),), {Key("d", "b"): "no phase", Key("d", "c"): "no phase"}, "9")]
    assert counts["undecodable"] == 2


# RF-23
def test_dropped_object_is_not_handed_over() -> None:
    intake, taken, _ = made()
    intake.keep(pod("a"))
    intake.keep(bad("b"))
    intake.drop(Key("d", "a"))
    intake.drop(Key("d", "b"))
    replaced(intake.hand_over("9"))
    assert taken.given == [((), {}, "9")]


# RF-14
def test_events_bookmarks_and_refusals_reach_the_sink_apart() -> None:
    intake, taken, _ = made()
    found: tuple[WatchEvent[Pod] | Refused, ...] = (
        WatchEvent(type="ADDED", object=pod("a", 5)),
        WatchEvent(type="BOOKMARK", object=pod("", 6)),
        bad("a"),
        WatchEvent(type="RENAMED", object=pod("a", 8)),
    )
    versions = [intake.apply(event).resource_version for event in found]
    assert versions == ["5", "6", "7", "8"]
    assert taken.given == [("ADDED", pod("a", 5)), "6", (Key("d", "a"), "no phase", "7")]


def without_spec(found: Pod) -> Pod:
    return replace(found, spec=PodSpec())


# RF-33, ST-17
def test_transform_sees_each_object_once_on_its_way_in() -> None:
    seen: list[str] = []

    def transform(found: Pod) -> Pod:
        seen.append(found.metadata.name)
        return without_spec(found)

    intake, taken, _ = made(transform)
    full = replace(pod("a"), spec=PodSpec(node_name="n"))
    intake.keep(full)
    replaced(intake.hand_over("1"))
    intake.apply(WatchEvent(type="MODIFIED", object=full))
    assert seen == ["a", "a"]
    assert taken.given == [((pod("a"),), {}, "1"), ("MODIFIED", pod("a"))]


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
    intake, taken, counts = made(transform)
    intake.keep(pod("a"))
    replaced(intake.hand_over("1"))
    intake.apply(WatchEvent(type="MODIFIED", object=pod("a", 2)))
    assert taken.given == [((), {Key("d", "a"): why}, "1"), (Key("d", "a"), why, "2")]
    assert counts["undecodable"] == 2
