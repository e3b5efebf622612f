import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client.context import writing
from kcr.controller import Controller, ControllerOptions, OwnWrites, Result
from kcr.informer import Store, Trigger
from kcr.testing import FakeInformer, VirtualClock, build
from kcr.workqueue import ItemExponential, WorkQueue

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "a")
OWNER = build.config_map("a", uid="1")


def pod_at(version: str) -> Pod:
    return build.pod("p", resource_version=version)


class Writer:
    """Writes version 10 in its first run, and notes when it runs."""

    def __init__(self, pods: Store[Pod], again: Result | None = None) -> None:
        self.own_writes = OwnWrites()
        self._pods = pods
        self._result = again or Result()
        self.runs: list[float] = []

    async def reconcile(self, key: Key) -> Result:
        self.runs.append(asyncio.get_running_loop().time())
        if len(self.runs) == 1:
            self.own_writes.wrote(key, self._pods, pod_at("10"))
            return self._result
        return Result()


@asynccontextmanager
async def running(writer: Writer) -> AsyncIterator[Controller]:
    controller = Controller(
        "test",
        writer,
        ControllerOptions(limiter=ItemExponential(1, 60), own_writes=writer.own_writes),
        random=random.Random(0),
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        controller.queue.add(KEY)
        await asyncio.sleep(0.1)
        yield controller
        task.cancel()


async def test_key_is_enqueued_when_an_object_came_and_went_unseen(kcr_clock: VirtualClock) -> None:
    informer = FakeInformer(Pod)
    writer = Writer(informer.store)
    async with running(writer):
        await kcr_clock.settle()
        assert len(writer.runs) == 1
        informer.store.advance("2000")
        await kcr_clock.settle()
    assert len(writer.runs) == 2


async def test_key_is_not_enqueued_when_the_store_shows_what_was_written(kcr_clock: VirtualClock) -> None:
    informer = FakeInformer(Pod)
    writer = Writer(informer.store)
    async with running(writer):
        informer.add(pod_at("2000"))
        await kcr_clock.settle()
    assert len(writer.runs) == 1


# CL-21, as design changes it: no worker waits, the key does.
async def test_key_rests_until_the_store_shows_our_write(kcr_clock: VirtualClock) -> None:  # EX-13, EX-17
    pods = Store[Pod]()
    writer = Writer(pods)
    async with running(writer) as controller:
        controller.queue.add(KEY)
        await kcr_clock.advance(0.2)
        assert writer.runs == [0]
        assert controller.queue.processing == frozenset()
        pods.advance("9")
        await kcr_clock.settle()
        assert writer.runs == [0]
        pods.advance("10")
        await kcr_clock.advance(60)
    assert writer.runs == [0, pytest.approx(0.3)]


async def test_parked_key_says_which_store_lags(kcr_clock: VirtualClock) -> None:
    pods = Store[Pod]()
    writer = Writer(pods)
    async with running(writer) as controller:
        assert writer.own_writes.deferred == {}
        controller.queue.add(KEY)
        await kcr_clock.settle()
        assert writer.own_writes.deferred == {KEY: ((pods, pods.progress, 10),)}
        pods.advance("10")
        assert writer.own_writes.deferred == {}


def test_unconfirmed_writes_are_named() -> None:
    own_writes = OwnWrites()
    pending = own_writes.of(OWNER)
    pending.creates[Key("default", "p")] = build.pod("p")
    pending.unconfirmed_status = True
    assert own_writes.unconfirmed(KEY) == ("create pods default/p", "patch the status of default/a")
    assert own_writes.unconfirmed(Key("default", "other")) == ()


async def test_store_that_is_up_to_date_holds_nobody_up(kcr_clock: VirtualClock) -> None:
    pods = Store[Pod]()
    writer = Writer(pods)
    async with running(writer) as controller:
        pods.advance("11")
        controller.queue.add(KEY)
        await kcr_clock.settle()
    assert writer.runs == [0, pytest.approx(0.1)]


async def test_late_watch_becomes_an_error_and_is_waited_for(kcr_clock: VirtualClock) -> None:
    pods = Store[Pod]()
    writer = Writer(pods)
    with capture_logs() as lines:
        async with running(writer) as controller:
            controller.queue.add(KEY)
            await kcr_clock.advance(5)
            assert writer.runs == [0]
            failures = [line["error"] for line in lines if line["event"] == "reconcile failed"]
            assert "default/a: the store does not show our own write yet" in failures[0]
            # At 0.6, then after 1 and 2 seconds more.
            assert len(failures) == 3
            pods.advance("10")
            await kcr_clock.settle()
            assert len(writer.runs) == 2
            assert controller.queue.retries(KEY) == 0


async def test_key_whose_object_went_rests_no_more(kcr_clock: VirtualClock) -> None:
    writer = Writer(Store[Pod]())
    async with running(writer) as controller:
        controller.queue.add(KEY)
        await kcr_clock.settle()
        writer.own_writes.forget(KEY)
        controller.queue.add(KEY)
        await kcr_clock.settle()
    assert len(writer.runs) == 2


async def test_other_keys_are_not_held_back(kcr_clock: VirtualClock) -> None:
    writer = Writer(Store[Pod]())
    async with running(writer) as controller:
        controller.queue.add(KEY)
        controller.queue.add(Key("default", "b"))
        await kcr_clock.settle()
    assert len(writer.runs) == 2


@pytest.mark.parametrize("seconds", [pytest.param(0.2, id="while-it-rests"), pytest.param(30, id="long-after")])
async def test_turn_asked_for_stays_what_it_is(kcr_clock: VirtualClock, seconds: float) -> None:  # WQ-14
    pods = Store[Pod]()
    writer = Writer(pods, Result(timedelta(seconds=seconds)))
    async with running(writer) as controller:
        controller.queue.add(KEY)
        await kcr_clock.advance(0.3)
        pods.advance("10")
        await kcr_clock.advance(60)
    assert writer.runs == [0, pytest.approx(0.4), *([seconds] if seconds > 1 else [])]


async def test_highest_of_several_versions_counts() -> None:
    pods, own_writes = Store[Pod](), OwnWrites()
    for version in ("10", "30", "20", "abc"):
        own_writes.wrote(KEY, pods, pod_at(version))
    pods.advance("29")
    assert own_writes.defer_if_stale(KEY, lambda: None)
    pods.advance("30")
    assert not own_writes.defer_if_stale(KEY, lambda: None)


async def test_version_that_is_no_number_is_not_waited_for() -> None:  # EX-15
    own_writes = OwnWrites()
    own_writes.wrote(KEY, Store[Pod](), pod_at("abc"))
    assert not own_writes.defer_if_stale(KEY, lambda: None)


async def test_late_stores_are_told_of_every_time(kcr_clock: VirtualClock) -> None:
    pods, jobs, late = Store[Pod](), Store[Job](), list[Store[Any]]()
    own_writes = OwnWrites(late.append)
    own_writes.wrote(KEY, pods, pod_at("10"))
    own_writes.wrote(KEY, jobs, pod_at("11"))
    pods.advance("10")
    assert own_writes.defer_if_stale(KEY, lambda: None)
    assert own_writes.defer_if_stale(KEY, lambda: None)
    assert late == [jobs, jobs]
    jobs.advance("11")
    assert not own_writes.defer_if_stale(KEY, lambda: None)
    assert late == [jobs, jobs]


# Row 17
async def test_own_write_is_an_echo_exactly_once() -> None:
    own_writes, pods = OwnWrites(), Store[Pod]()
    own_writes.wrote(KEY, pods, pod_at("17"))
    own_writes.require_version(KEY, pods, pod_at("9"))
    assert own_writes.is_echo(KEY, "17")
    assert not own_writes.is_echo(KEY, "17")
    assert not own_writes.is_echo(KEY, "9")
    assert not own_writes.is_echo(Key("default", "b"), "17")


async def test_echo_before_the_answer_is_judged_when_the_reconcile_ends() -> None:
    own_writes, pods, enqueued = OwnWrites(), Store[Pod](), list[str]()

    def shown(key: Key, version: str) -> None:
        own_writes.enqueue_unless_echo(key, version, partial(enqueued.append, version))

    own_writes.begin(KEY)
    shown(KEY, "17")
    shown(KEY, "16")
    assert enqueued == []
    shown(Key("default", "b"), "15")
    # Surely no echo: an event of another object.
    shown(KEY, "")
    assert enqueued == ["15", ""]
    own_writes.wrote(KEY, pods, pod_at("17"))
    own_writes.end(KEY, lambda: None)
    assert enqueued == ["15", "", "16"]
    shown(KEY, "18")
    assert enqueued[-1] == "18"


async def test_event_that_waited_keeps_its_reason_and_priority() -> None:
    own_writes, queue, old = OwnWrites(), WorkQueue[Key](), pod_at("1")
    own_writes.begin(KEY)
    own_writes.enqueue_unless_echo(KEY, "2", partial(queue.add, KEY, *Trigger.updated(old, pod_at("2"))))
    own_writes.enqueue_unless_echo(KEY, "3", partial(queue.add, KEY, *Trigger.added(old, initial=True)))
    own_writes.end(KEY, lambda: None)
    state = queue.state(KEY)
    assert (state.queued, list(map(str, state.reasons))) == (0, ["Pod update default/p 1→2", "Pod initial list"])


# EX-8, EX-9
async def test_deleted_object_is_pending_until_it_is_shown_terminating_or_gone() -> None:
    informer = FakeInformer(Pod)
    own = OwnWrites().of(OWNER)
    for name in ("p", "q", "r"):
        informer.add(build.pod(name))
        own.expect_deletion(informer.store, build.pod(name))
    assert own.deleted == {"uid-p", "uid-q", "uid-r"}
    informer.modify(build.pod("p", resource_version="2", deletion_timestamp=build.CREATED))
    informer.delete(build.pod("q"))
    assert own.deleted == {"uid-r"}
    # Another object of the same name, which was missed by a relist.
    informer.delete(build.pod("r"))
    informer.add(build.pod("r", uid="another"))
    assert own.deleted == frozenset()


async def test_shown_deletions_leave_no_memory_though_their_keys_never_run_again() -> None:
    informer, own_writes = FakeInformer(Pod), OwnWrites()
    for number in range(1000):
        informer.add(pod := build.pod(f"pod-{number}"))
        own_writes.await_deletion(pod.key, informer.store, pod)
        assert own_writes.is_stale(pod.key)
        informer.delete(pod)
    assert len(own_writes.pending) <= 128


async def test_deletion_of_a_reconcile_in_a_member_defers_the_key_of_that_member() -> None:
    informer, own_writes = FakeInformer(Pod), OwnWrites()
    informer.add(pod := build.pod("p"))
    with writing(owner=KEY.in_cluster("east")):
        own_writes.await_deletion(KEY, informer.store, pod)
    assert own_writes.is_stale(KEY.in_cluster("east"))
    assert not own_writes.is_stale(KEY)


async def test_deleted_object_is_left_out_for_as_long_as_its_owner_says() -> None:
    own, listed = OwnWrites().of(OWNER), ["uid-p"]
    own.expect_absence("uid-p", lambda: "uid-p" in listed)
    assert own.deleted == {"uid-p"}
    listed.clear()
    assert own.deleted == frozenset()


async def test_finalizer_that_was_removed_is_pending_until_it_is_not_shown() -> None:
    informer = FakeInformer(Pod)
    own = OwnWrites().of(OWNER)
    for name in ("p", "q"):
        informer.add(build.pod(name, finalizers=("x/y",)))
        own.expect_release(informer.store, informer.store.list()[-1], "x/y")
    informer.modify(build.pod("p", finalizers=("x/z",), resource_version="2"))
    assert own.released == {"uid-q"}
    informer.delete(build.pod("q"))
    assert own.released == frozenset()


async def test_finalizer_that_is_back_in_a_newer_object_is_not_pending() -> None:
    informer = FakeInformer(Pod)
    own = OwnWrites().of(OWNER)
    informer.add(build.pod("p", finalizers=("x/y",), resource_version="5"))
    own.expect_release(informer.store, build.pod("p", resource_version="7"), "x/y")
    # A watch that loses the event of the removal shows later versions of other objects.
    informer.store.advance("9")
    assert own.released == {"uid-p"}
    informer.modify(build.pod("p", finalizers=("x/y",), resource_version="10"))
    assert own.released == frozenset()


async def test_removal_that_was_shown_is_forgotten_before_it_is_asked_for() -> None:
    # The API server is restored from a backup, in which the pod is older and has its finalizer.
    informer, own_writes = FakeInformer(Pod), OwnWrites()
    informer.add(build.pod("p", finalizers=("x/y",), resource_version="5"))
    freed = build.pod("p", resource_version="7")
    own_writes.of(OWNER).expect_release(informer.store, freed, "x/y")
    own_writes.wrote(OWNER.key, informer.store, freed)
    own_writes.begin(OWNER.key)
    own_writes.end(OWNER.key, lambda: None)
    informer.modify(freed)
    informer.store.put(build.pod("p", finalizers=("x/y",), resource_version="5"))
    assert own_writes.of(OWNER).released == frozenset()


# EX-7, EX-11
async def test_namesake_with_another_uid_inherits_nothing() -> None:
    own_writes = OwnWrites()
    own_writes.of(OWNER).unconfirmed_status = True
    assert own_writes.of(OWNER).unconfirmed_status
    assert not own_writes.of(build.config_map("a", uid="2")).unconfirmed_status
    assert not own_writes.of(OWNER).unconfirmed_status
    own_writes.of(OWNER).creates[KEY] = OWNER
    own_writes.forget(KEY)
    assert not own_writes.of(OWNER).creates


async def test_closed_store_holds_no_key_back(kcr_clock: VirtualClock) -> None:
    informer = FakeInformer(Pod)
    writer = Writer(informer.store)
    async with running(writer) as controller:
        controller.queue.add(KEY)
        await asyncio.sleep(0.1)
        assert writer.runs == [0]
        informer.close()
        await asyncio.sleep(0)
        assert writer.runs == [0, 0.2]
        writer.own_writes.of(OWNER).expect_deletion(informer.store, pod_at("10"))
        assert writer.own_writes.of(OWNER).deleted == frozenset()


def test_events_beyond_a_bound_enqueue_at_once() -> None:
    own_writes, enqueued = OwnWrites(), list[int]()
    own_writes.begin(KEY)
    for number in range(1_000):
        own_writes.enqueue_unless_echo(KEY, str(number + 1), partial(enqueued.append, number))
    assert len(enqueued) == 1_000 - 256
    own_writes.end(KEY, lambda: None)
    assert len(enqueued) == 1_000
