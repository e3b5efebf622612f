import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random

import pytest
from structlog.testing import capture_logs

from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.errors import TransportError
from kcr.informer import Handler, Informer, Selection
from kcr.testing import VirtualClock
from tests.kit.scripted_transport import Say, Script, events, failure

pytestmark = pytest.mark.kcr_virtual

END = {"metadata": {"resourceVersion": "10", "annotations": {"k8s.io/initial-events-end": "true"}}}
STREAM = "sendInitialEvents=true"


def pod(name: str, version: int, uid: str = "") -> Mapping[str, object]:
    return {"metadata": {"name": name, "namespace": "d", "uid": uid or name, "resourceVersion": str(version)}}


def page(version: int, *pods: Mapping[str, object], continue_: str = "") -> Say:
    return Say({"metadata": {"resourceVersion": str(version), "continue": continue_}, "items": pods})


@asynccontextmanager
async def following(*answers: Say | Exception, seconds: float = 0) -> AsyncIterator[tuple[Informer[Pod], Script]]:
    """Run an informer on a script, for some seconds of virtual time."""
    script = Script(*answers)
    informer = Informer(Client(script), Selection(Pod, "d"), random=Random(1))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await VirtualClock().advance(seconds)
        yield informer, script
        task.cancel()


def seen(informer: Informer[Pod]) -> dict[str, str]:
    return {found.metadata.name: found.metadata.resource_version for found in informer.store.list()}


# RF-1, RF-2, RF-15, RF-21, RF-22, RF-23, RF-28
async def test_initial_events_fill_the_store_and_the_stream_goes_on() -> None:
    lines = events(
        ("ADDED", pod("a", 3)), ("ADDED", pod("b", 2)), ("DELETED", pod("b", 9)), ("BOOKMARK", END),
        ("MODIFIED", pod("a", 11)), ("ADDED", pod("c", 12)), ("DELETED", pod("a", 13)),
    )  # fmt: skip
    async with following(Say(lines, then="stay")) as (informer, script):
        assert informer.store.synced
        assert seen(informer) == {"c": "12"}
        assert informer.store.resource_version == 13
        assert len(script.requests) == 1
        assert STREAM in script.targets[0]
        assert "resourceVersion=" not in script.targets[0]
        assert "/namespaces/d/pods" in script.targets[0]


# RF-22, IN-8
async def test_nothing_is_stored_before_the_end_of_the_initial_events() -> None:
    async with following(Say(events(("ADDED", pod("a", 3))), then="stay")) as (informer, _):
        assert not informer.store.synced
        assert len(informer.store) == 0
        assert informer.not_synced_reason == "pods in d: 1 initial events so far"


# RF-4, RF-6, RF-24, ST-9
async def test_server_without_streaming_is_listed_page_by_page() -> None:
    answers = (failure(422, "Invalid"), page(5, pod("a", 1), continue_="t"), page(5, pod("b", 2)), Say(then="stay"))
    async with following(*answers) as (informer, script):
        assert seen(informer) == {"a": "1", "b": "2"}
        root = "/api/v1/namespaces/d/pods?"
        assert script.targets[1:3] == [f"{root}limit=500", f"{root}limit=500&continue=t"]
        assert "resourceVersion=5&" in script.targets[3]
        assert STREAM not in script.targets[3]


# RF-24
async def test_server_without_streaming_is_not_asked_for_it_twice() -> None:
    answers = (failure(422), page(5), failure(410), page(9), Say(then="stay"))
    async with following(*answers, seconds=10) as (informer, script):
        assert [STREAM in target for target in script.targets] == [True, False, False, False, False]
        assert informer.counts["relists"] == 1


# RF-24
async def test_stream_that_fails_otherwise_is_tried_again_next_time() -> None:
    answers = (failure(500), page(5), failure(410), Say(events(("BOOKMARK", END)), then="stay"))
    async with following(*answers, seconds=10) as (_, script):
        assert [STREAM in target for target in script.targets] == [True, False, False, True]


# RF-8
async def test_expired_page_is_followed_by_a_whole_list() -> None:
    answers = (failure(422), page(5, pod("a", 1), continue_="t"), failure(410), page(6, pod("b", 2)), Say(then="stay"))
    async with following(*answers) as (informer, script):
        assert script.targets[3] == "/api/v1/namespaces/d/pods"
        assert seen(informer) == {"b": "2"}


# RF-14, RF-15, RF-17
async def test_watch_that_ends_goes_on_from_the_last_event() -> None:
    first = events(("BOOKMARK", END), ("ADDED", pod("a", 11)), ("BOOKMARK", {"metadata": {"resourceVersion": "20"}}))
    async with following(Say(first), Say(events(("ADDED", pod("b", 21))), then="stay")) as (informer, script):
        assert "resourceVersion=20&" in script.targets[1]
        assert seen(informer) == {"a": "11", "b": "21"}
        assert script.times == [0, 0]


# RF-16, RF-17
async def test_watch_that_breaks_off_goes_on_from_the_last_event() -> None:
    first = events(("BOOKMARK", END), ("ADDED", pod("a", 11)))
    async with following(Say(first, then=TransportError("cut")), Say(then="stay")) as (informer, script):
        assert "resourceVersion=11&" in script.targets[1]
        assert informer.counts["relists"] == 0


GONE = ("ERROR", {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"})


# RF-17; upstream pauses here too.
async def test_expired_watch_is_followed_by_a_relist_at_once() -> None:
    again = events(("ADDED", pod("b", 30)), ("BOOKMARK", END))
    lines = events(("ADDED", pod("a", 9)), ("BOOKMARK", END), GONE)
    async with following(Say(lines), Say(again, then="stay")) as (informer, script):
        assert STREAM in script.targets[1]
        assert script.times[1] == 0
        assert seen(informer) == {"b": "30"}


# RF-17
async def test_watches_that_expire_again_and_again_make_no_hot_loop() -> None:
    lines = events(("BOOKMARK", END), GONE)
    async with following(*(Say(lines) for _ in range(1000)), seconds=60) as (_, script):
        assert script.times[:2] == [0, 0]
        assert 4 < len(script.requests) < 12


# RF-3, RF-17
async def test_server_that_flaps_is_relisted_as_soon_as_it_is_back() -> None:
    def crash(number: int) -> list[Say | Exception]:
        stream = events(("BOOKMARK", END), ("ADDED", pod(f"p{number}", 11 + number)))
        down = [TransportError("refused") for _ in range(3)]
        return [Say(stream, then=TransportError("cut")), *down, failure(410, "Expired")]

    answers = [answer for number in range(5) for answer in crash(number)]
    async with following(*answers, Say(then="stay"), seconds=120) as (_, script):
        down = [script.times[first + 4] - script.times[first] for first in range(0, 25, 5)]
        # Three pauses each, none longer than those of the first crash; and none before the relist.
        assert all(0.8 * 7 <= seconds < 2 * 0.8 * 7 for seconds in down)
        assert all(script.times[first + 4] == script.times[first + 5] for first in range(0, 25, 5))


# RF-24
async def test_streams_cut_before_their_end_are_given_up_for_pages() -> None:
    cut = Say(events(("ADDED", pod("a", 3))), then=TransportError("cut"))
    answers = (cut, cut, page(5, pod("a", 3)), Say(then="stay"))
    with capture_logs() as logs:
        async with following(*answers, seconds=10) as (informer, script):
            assert [STREAM in target for target in script.targets] == [True, True, False, False]
            assert informer.store.synced
    assert [line["events"] for line in logs if line["event"].startswith("WatchList was cut")] == [1]


# RF-24
async def test_stream_cut_after_a_long_time_is_given_up_at_once() -> None:
    cut = Say(events(("ADDED", pod("a", 3))), seconds=25, then=TransportError("cut"))
    async with following(cut, page(5), Say(then="stay"), seconds=40) as (informer, script):
        assert [STREAM in target for target in script.targets] == [True, False, False]
        assert informer.store.synced


# RF-24
async def test_stream_is_tried_again_ten_minutes_later() -> None:
    cut = Say(events(("ADDED", pod("a", 3))), then=TransportError("cut"))
    watches = [Say(events(("ADDED", pod("a", version))), seconds=80) for version in range(20, 30)]
    expired = failure(410, "Expired")
    answers = (cut, cut, page(5), *watches[:2], expired, page(6), *watches[2:], expired)
    async with following(*answers, Say(events(("BOOKMARK", END)), then="stay"), seconds=900) as (_, script):
        streamed = [number for number, target in enumerate(script.targets) if STREAM in target]
        assert streamed == [0, 1, len(answers)]


# RF-24
async def test_connection_that_is_refused_gives_up_no_streams() -> None:
    refused = [TransportError("refused") for _ in range(4)]
    async with following(*refused, Say(events(("BOOKMARK", END)), then="stay"), seconds=60) as (_, script):
        assert [STREAM in target for target in script.targets] == [True] * 5


# IN-8: aggregated API servers keep objects in memory, without versions
@pytest.mark.parametrize("relists", [False, True], ids=["watched", "relisted"])
async def test_change_of_an_object_without_a_version_is_told_once(relists: bool) -> None:
    def named(phase: str) -> Mapping[str, object]:
        return {"metadata": {"name": "a", "namespace": "d", "uid": "a"}, "status": {"phase": phase}}

    def listed(phase: str) -> Say:
        return Say({"metadata": {}, "items": [named(phase)]})

    class Told(Handler[Pod]):
        def on_update(self, old: Pod, new: Pod) -> None:
            told.append(f"{old.status.phase} {new.status.phase}")

    told: list[str] = []
    changes = events(*(("MODIFIED", named(phase)) for phase in ("Pending", "Running", "Running")))
    watched = (Say(changes, every=1, then="stay"),)
    relisted = (Say(seconds=1), failure(410), listed("Running"), Say(seconds=1), failure(410), listed("Running"))
    async with following(failure(422), listed("Pending"), *(relisted if relists else watched)) as (informer, _):
        informer.add_handler(Told())
        await VirtualClock().advance(20)
        assert [found.status.phase for found in informer.store.list()] == ["Running"]
        assert told == ["Pending Running"]


# RF-18, ST-30
async def test_watches_that_end_at_once_make_no_hot_loop() -> None:
    answers = [Say(events(("BOOKMARK", END)))] + [Say() for _ in range(100)]
    async with following(*answers, seconds=60) as (informer, script):
        assert len(script.requests) < 10
        assert informer.counts["short"] == len(script.requests) - 1


# RF-3, RF-16
async def test_server_that_is_away_is_asked_ever_more_rarely() -> None:
    async with following(*(TransportError("refused") for _ in range(1000)), seconds=600) as (informer, script):
        assert len(script.requests) < 25
        assert max(b - a for a, b in zip(script.times, script.times[1:], strict=False)) <= 60
        assert informer.not_synced_reason == "pods in d: unreachable: refused"


# IN-8
async def test_missing_permission_is_the_cause_that_is_named() -> None:
    refusals = [failure(403, "Forbidden", 'pods is forbidden: User "x" cannot list') for _ in range(9)]
    async with following(*refusals, seconds=5) as (informer, _):
        words = 'pods is forbidden: User "x" cannot list'
        assert informer.not_synced_reason == f"pods in d: forbidden, list and watch are needed: {words}"


async def test_cause_is_forgotten_once_it_works() -> None:
    async with following(TransportError("refused"), Say(events(("BOOKMARK", END)), then="stay"), seconds=5) as (i, _):
        assert i.not_synced_reason == ""
        # The first list is no relist, however often it was tried.
        assert i.counts["relists"] == 0


# RF-19, ST-29
async def test_silent_watch_is_cut_when_the_server_knows_more() -> None:
    silent = Say(events(("BOOKMARK", END)), then="stay")
    async with following(silent, page(11), Say(then="stay"), seconds=91) as (informer, script):
        assert informer.counts["idle"] == 1
        assert script.times == [0, 90, 90]
        assert "limit=1&resourceVersion=0" in script.targets[1]
        assert "resourceVersion=10&" in script.targets[2]


# RF-19
async def test_silent_watch_goes_on_when_there_is_no_news() -> None:
    silent = Say(events(("BOOKMARK", END)), then="stay")
    async with following(silent, page(10), page(10), failure(500), seconds=300) as (informer, script):
        assert script.times == [0, 90, 180, 270]
        assert informer.counts["idle"] == 0


# RF-19
async def test_watch_of_a_server_that_was_restored_from_a_backup_is_relisted() -> None:
    """Such a server accepts the watch, and is silent until it has caught up. Source: kubernetes/kubernetes#107457."""
    silent = Say(events(("ADDED", pod("a", 9)), ("ADDED", pod("b", 8)), ("BOOKMARK", END)), then="stay")
    end = {"metadata": {**END["metadata"], "resourceVersion": "5"}}
    restored = Say(events(("ADDED", pod("a", 4)), ("BOOKMARK", end)), then="stay")
    async with following(silent, page(5), page(5), restored, seconds=92) as (informer, script):
        assert "limit=1&resourceVersion=0" in script.targets[1]
        assert "limit=1" in script.targets[2] and "resourceVersion" not in script.targets[2]
        assert (informer.counts["idle"], informer.counts["lost"]) == (0, 1)
        assert [(one.metadata.name, one.metadata.resource_version) for one in informer.store.list()] == [("a", "4")]
        # Otherwise reads would not wait for the writes of this process.
        assert informer.store.resource_version == 5


# RF-19
async def test_silent_watch_goes_on_when_a_cache_of_the_server_lags() -> None:
    silent = Say(events(("BOOKMARK", END)), then="stay")
    async with following(silent, page(5), page(10), page(5), failure(500), seconds=200) as (informer, script):
        assert script.times == [0, 90, 90, 180, 180]
        assert (informer.counts["idle"], informer.counts["lost"]) == (0, 0)


# RF-19
async def test_silent_watch_is_cut_when_the_server_does_not_answer() -> None:
    silent = Say(events(("BOOKMARK", END)), then="stay")
    refused = [TransportError("refused")] * 3
    async with following(silent, *refused, Say(then="stay"), seconds=92) as (informer, script):
        assert informer.counts["idle"] == 1
        assert len(script.requests) == 5


async def test_watch_that_cannot_be_opened_is_not_called_silent() -> None:
    # Its error says more.
    refused = [TransportError("refused")] * 30
    async with following(Say(events(("BOOKMARK", END))), *refused, seconds=200) as (informer, _):
        assert informer.silence == ""
        assert "refused" in informer.last_error


async def test_watch_of_a_frozen_server_is_told_before_it_is_cut() -> None:
    silent, clock = Say(events(("BOOKMARK", END)), then="stay"), VirtualClock()
    refused = [TransportError("refused")] * 3
    async with following(silent, *refused, seconds=65) as (informer, _):
        assert informer.silence == ""
        await clock.advance(5)
        assert informer.silence == "pods in d: nothing has come for 70 s, perhaps the server or a proxy is frozen"
        # The watchdog asks at 90 s.
        await clock.advance(22)
        assert (informer.silence, informer.counts["idle"]) == ("", 1)
        assert "nothing came for" in informer.last_error


async def test_silence_of_a_server_without_news_is_usual() -> None:
    silent, clock = Say(events(("BOOKMARK", END)), then="stay"), VirtualClock()
    async with following(silent, page(10), seconds=91) as (informer, _):
        assert informer.silence == ""
        await clock.advance(64)
        assert informer.silence == ""


# RF-19
async def test_bookmarks_that_come_rarely_are_waited_for() -> None:
    class Slow(Say):
        async def lines(self) -> AsyncIterator[bytes]:
            yield events(("BOOKMARK", END))
            for version in (10, 10, 10):
                await asyncio.sleep(85)
                yield events(("BOOKMARK", {"metadata": {"resourceVersion": str(version)}}))
            await asyncio.get_running_loop().create_future()

    async with following(Slow(), page(11), Say(then="stay"), seconds=600) as (_, script):
        assert script.times[1] == 255 + 1.5 * 85


# RF-19
async def test_initial_events_that_do_not_end_are_given_up_for_pages() -> None:
    silent = Say(events(("ADDED", pod("a", 3))), then="stay")
    async with following(silent, page(10, pod("a", 3)), Say(then="stay"), seconds=31) as (informer, script):
        assert informer.store.synced
        assert [STREAM in target for target in script.targets] == [True, False, False]


# RF-24
async def test_changes_are_no_initial_events_however_long_they_come() -> None:
    changes = Say(events(*(("MODIFIED", pod("a", version)) for version in range(3, 99))), every=4)
    async with following(changes, page(10, pod("a", 3)), Say(then="stay"), seconds=31) as (informer, _):
        assert informer.store.synced


# RF-24
async def test_initial_events_that_come_for_minutes_are_waited_for() -> None:
    many = [("ADDED", pod(f"p{number}", number)) for number in range(1, 300)]
    rush = Say(events(*many, ("BOOKMARK", END)), every=0.5, then="stay")
    async with following(rush, seconds=151) as (informer, script):
        assert len(informer.store) == 299
        assert len(script.requests) == 1


# RF-24
async def test_bookmark_before_the_end_of_the_initial_events_means_pages() -> None:
    bookmark = ("BOOKMARK", {"metadata": {"resourceVersion": "10"}})
    ignorant = Say(events(("ADDED", pod("a", 3)), bookmark), then="stay")
    answers = (ignorant, page(10, pod("a", 3)), failure(410), page(11, pod("a", 3)), Say(then="stay"))
    async with following(*answers, seconds=10) as (informer, script):
        assert informer.store.synced
        assert [STREAM in target for target in script.targets] == [True, False, False, False, False]


# RF-13
async def test_watch_is_asked_to_last_five_to_ten_minutes() -> None:
    answers = [Say(events(("BOOKMARK", END)))] + [Say(events(("ADDED", pod("a", 11)))) for _ in range(50)]
    async with following(*answers) as (_, script):
        seconds = [int(target.split("timeoutSeconds=")[1].split("&")[0]) for target in script.targets]
    assert len(set(seconds)) > 10
    assert all(300 <= value < 600 for value in seconds)


# ST-6
async def test_undecodable_object_keeps_its_last_good_version() -> None:
    bad = {**pod("a", 11), "status": {"phase": 5}}
    lines = events(("ADDED", pod("a", 3)), ("BOOKMARK", END), ("MODIFIED", bad), ("ADDED", pod("b", 12)))
    async with following(Say(lines, then="stay")) as (informer, _):
        assert seen(informer) == {"a": "3", "b": "12"}
        assert list(informer.store.undecodable) == [Key("d", "a")]
        assert informer.counts["undecodable"] == 1
        assert informer.store.resource_version == 12


# RF-14
async def test_unknown_event_is_passed_over() -> None:
    lines = events(("BOOKMARK", END), ("RENAMED", pod("a", 11)), ("ADDED", pod("b", 12)))
    async with following(Say(lines, then="stay")) as (informer, _):
        assert seen(informer) == {"b": "12"}


# IN-8
@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param({"metadata": {"resourceVersion": "12"}}, id="no-name"),
        pytest.param({"metadata": {"name": "a", "resourceVersion": "12"}}, id="no-namespace"),
        pytest.param({"metadata": {"name": 7, "namespace": "d", "resourceVersion": "12"}}, id="name-is-no-text"),
        pytest.param({}, id="nothing"),
    ],
)
@pytest.mark.parametrize("kind", ["MODIFIED", "DELETED"])
async def test_event_that_names_no_object_is_followed_by_a_relist(kind: str, damaged: Mapping[str, object]) -> None:
    stream = Say(events(("ADDED", pod("a", 3)), ("BOOKMARK", END), (kind, damaged)), then="stay")
    again = Say(events(("ADDED", pod("a", 12)), ("BOOKMARK", END)), then="stay")
    with capture_logs() as logs:
        async with following(stream, again, seconds=2) as (informer, script):
            assert seen(informer) == {"a": "12"}
            assert [STREAM in target for target in script.targets] == [True, True]
            # Each relist after a pause, so that a stream that is always damaged makes no hot loop.
            assert script.times[1] >= 0.8
            assert (informer.counts["lost"], informer.counts["relists"]) == (1, 1)
    (told,) = (line for line in logs if line["log_level"] == "warning")
    assert told["event"] == "watch lost an event, relisting"
    assert told["error"].startswith(f"event {kind} names no object: namespace ")


async def test_class_that_is_wrong_about_namespaces_is_named() -> None:
    cluster_scoped = {"metadata": {"name": "a", "resourceVersion": "4"}}
    refusal = failure(400, "Invalid", "sendInitialEvents: Forbidden")
    async with following(refusal, page(10, cluster_scoped), seconds=0.5) as (informer, _):
        assert informer.not_synced_reason == (
            "pods in d: item of the list names no object: namespace '', name 'a', and the class says namespaced=True"
        )


async def test_damaged_initial_event_is_followed_by_a_list_in_pages() -> None:
    stream = Say(events(("ADDED", pod("a", 3)), ("ADDED", {"metadata": {}}), ("BOOKMARK", END)), then="stay")
    async with following(stream, page(10, pod("a", 3), pod("b", 4)), Say(then="stay"), seconds=1) as (informer, _):
        assert seen(informer) == {"a": "3", "b": "4"}


async def test_list_with_an_item_without_a_name_is_read_again() -> None:
    # Taken for complete, it would delete the object from the store.
    refusal = failure(400, "Invalid", "sendInitialEvents: Forbidden")
    damaged = {"metadata": {"namespace": "d", "resourceVersion": "4"}}
    answers = (refusal, page(10, pod("a", 3), damaged), page(10, pod("a", 3), pod("b", 4)), Say(then="stay"))
    with capture_logs() as logs:
        async with following(*answers, seconds=3) as (informer, _):
            assert seen(informer) == {"a": "3", "b": "4"}
            # There was no watch yet, so none has lost an event.
            assert (informer.counts["lost"], informer.counts["error"]) == (0, 1)
    (told,) = (line for line in logs if line["log_level"] in ("warning", "error"))
    assert (told["event"], told["then"]) == ("watch failed", "empty")
    assert told["error"] == "item of the list names no object: namespace 'd', name ''"


async def test_relist_that_is_asked_for_gives_up_the_watch() -> None:
    stream = Say(events(("ADDED", pod("a", 3)), ("BOOKMARK", END)), then="stay")
    again = Say(events(("ADDED", pod("a", 5)), ("BOOKMARK", END)), then="stay")
    async with following(stream, again) as (informer, script):
        informer.note_lost_event("pod d/a is at version 5")
        # While a list is under way, another one would tell nothing more.
        await VirtualClock().advance(0.1)
        informer.note_lost_event("pod d/a is at version 5")
        await VirtualClock().advance(2)
        assert seen(informer) == {"a": "5"}
        assert len(script.requests) == 2
        assert informer.last_error == ""


async def test_kind_the_server_does_not_have_is_looked_for_every_five_seconds() -> None:
    absent = [failure(404, "NotFound") for _ in range(20)]
    async with following(*absent, seconds=17) as (informer, script):
        assert sorted({round(time) for time in script.times}) == [0, 5, 10, 15]
        assert informer.not_synced_reason.startswith("pods in d: absent: HTTP 404: the server does not know")


# IN-8
async def test_pages_read_so_far_are_told() -> None:
    answers = (failure(422), page(5, pod("a", 1), continue_="t"))
    async with following(*answers) as (informer, _):
        assert informer.not_synced_reason == "pods in d: 1 pages so far"


# RF-16
async def test_busy_server_is_left_alone_for_as_long_as_it_asks() -> None:
    busy = Say({"kind": "Status", "code": 429}, status=429, headers={"retry-after": "20"})
    first = events(("BOOKMARK", END), ("ADDED", pod("a", 11)))
    with capture_logs() as logs:
        async with following(Say(first), busy, Say(then="stay"), seconds=30) as (informer, script):
            assert script.times == [0, 0, 20]
            assert "resourceVersion=11&" in script.targets[2]
            assert informer.counts["relists"] == 0
    # A change of a definition closes its watches, and then the storage is initialized: no error.
    assert [line["log_level"] for line in logs if line["event"] == "watch refused (429), retrying"] == ["info"]


# RF-10
async def test_list_that_takes_long_says_where_the_time_went() -> None:
    class Slow(Say):
        async def read(self) -> bytes:
            await asyncio.sleep(11)
            return await super().read()

    slow = Slow({"metadata": {"resourceVersion": "5"}, "items": [pod("a", 1)]})
    with capture_logs() as logs:
        async with following(failure(422), slow, Say(then="stay"), seconds=12) as (informer, _):
            assert informer.list_duration_seconds == 11
    (line,) = [line for line in logs if line["event"] == "slow list"]
    assert (line["seconds"], line["request"], line["decode"]) == (11.0, 11.0, 0.0)


# RF-25
async def test_initial_events_that_do_not_end_are_told_of_every_ten_seconds() -> None:
    with capture_logs() as logs:
        async with following(Say(events(("ADDED", pod("a", 3))), then="stay"), seconds=35):
            pass
    lines = [(line["seconds"], line["events"]) for line in logs if line["event"] == "slow initial events"]
    assert lines == [(10, 1), (20, 1), (30, 1)]


# RF-11
async def test_items_without_apiversion_and_kind_are_of_the_kind_of_the_list() -> None:
    async with following(failure(422), page(5, pod("a", 1)), Say(then="stay")) as (informer, _):
        (found,) = informer.store.list()
        assert (type(found), found.resource.kind) == (Pod, "Pod")


# RF-37
async def test_ends_of_watches_are_counted_apart() -> None:
    def watch(*found: tuple[str, Mapping[str, object]], then: Exception | str = "end") -> Say:
        return Say(events(("ADDED", pod("a", 11)), *found), then=then)

    gone = ("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
    answers = (
        Say(events(("BOOKMARK", END))), watch(), watch(then=TransportError("cut")), Say(), watch(gone),
        Say(events(("BOOKMARK", END)), then="stay"),
    )  # fmt: skip
    async with following(*answers, seconds=30) as (informer, _):
        assert informer.counts == {
            "streams": 2, "watches": 4, "timeout": 2, "error": 1, "short": 1, "gone": 1, "relists": 1,
        }  # fmt: skip
        assert informer.last_event_time > 0


# IN-15
async def test_error_that_repeats_is_logged_twice_a_minute() -> None:
    with capture_logs() as logs:
        async with following(*(TransportError("refused") for _ in range(1000)), seconds=600):
            pass
    lines = [line for line in logs if line["event"] == "watch failed"]
    assert len(lines) <= 20
    assert all(line["log_level"] == "error" for line in lines)


# RF-12, ST-26
async def test_others_get_their_turn_while_a_burst_is_read() -> None:
    turns: list[int] = []

    async def other() -> None:
        while len(informer.store) < 1000:
            turns.append(len(informer.store))
            await asyncio.sleep(0)

    burst = [("ADDED", pod(f"p{number}", number)) for number in range(11, 1011)]
    script = Script(Say(events(("BOOKMARK", END), *burst), then="stay"))
    informer = Informer(Client(script), Selection(Pod, "d"), random=Random(1))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        await other()
        task.cancel()
    assert max(after - before for before, after in pairwise(turns)) <= 100
