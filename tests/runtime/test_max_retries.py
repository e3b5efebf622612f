"""Keys that have failed too often: parked until their object changes or a user asks for them."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

import kcr
from kcr.api.core import ConfigMap, Event
from kcr.api.meta import Key, ObjectMeta
from kcr.controller import StaleStoreError, labels_changed
from kcr.errors import LeadershipLostError, ServerError, TooManyRequestsError
from kcr.testing import VirtualClock
from kcr.workqueue import ItemExponential
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

KEY = Key("default", "colors")
PARKED_AT = [0, 1, 3]


class Fails:
    """Fails for one key as long as there is an error; notes when it was called."""

    def __init__(self) -> None:
        self.error: Exception | None = kcr.KcrError("no")
        self.during: Callable[[], Any] | None = None
        self.times: list[float] = []
        self.began = 0.0

    async def reconcile(self, key: Key) -> kcr.Result:
        if key != KEY:
            return kcr.Result()
        self.times.append(round(asyncio.get_running_loop().time() - self.began, 2))
        if self.during is not None:
            await self.during()
        if self.error is not None:
            raise self.error
        return kcr.Result()


class Running:
    """A controller with two retries, whose object was just created."""

    def __init__(self, manager: kcr.Manager, reconciler: Fails, cluster: EmbeddedCluster, clock: VirtualClock) -> None:
        self.manager, self.reconciler, self.cluster, self._clock = manager, reconciler, cluster, clock
        self.controller = manager.controllers["colors"]

    @property
    def gauge(self) -> float | None:
        return self.manager.metrics.registry.get_sample_value("kcr_parked_keys", {"controller": "colors"})

    async def times_after(self, change: dict[str, Any] | None = None, seconds: float = 60) -> list[float]:
        """When the key is reconciled after a change of its object, counted from the change."""
        self.reconciler.times.clear()
        self.reconciler.began = asyncio.get_running_loop().time()
        if change is not None:
            await self.cluster.client.merge_patch(ConfigMap, KEY, change)
        await self._clock.advance(seconds)
        return [*self.reconciler.times]


@asynccontextmanager
async def running(
    cluster: EmbeddedCluster, clock: VirtualClock, *, max_retries: int | None = 2, **watch: Any
) -> AsyncIterator[Running]:
    manager, reconciler = kcr.Manager(cluster.client, clock=clock, random=random.Random(0)), Fails()
    manager.add_controller(
        "colors", reconciler, watches=[kcr.watch(ConfigMap, **watch)], max_retries=max_retries,
        limiter=ItemExponential(1, 60),
    )  # fmt: skip
    async with manager.running():
        reconciler.began = asyncio.get_running_loop().time()
        await cluster.client.create(ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace)))
        await clock.settle()
        yield Running(manager, reconciler, cluster, clock)


async def test_key_is_parked_after_its_retries(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    with capture_logs() as logs:
        async with running(kcr_cluster, kcr_clock) as run:
            await kcr_clock.advance(3600)
            assert run.reconciler.times == PARKED_AT
            assert run.controller.parked[KEY] == (3, "KcrError: no")
            assert run.gauge == 1
            assert run.controller.journal.failing[KEY].text == "KcrError: no"
            # A change of another field, or of a dependent, enqueues the key in vain.
            run.controller.queue.add(KEY)
            assert await run.times_after({"metadata": {"labels": {"a": "b"}}}) == []
    assert [line["failures"] for line in logs if line["event"] == "parked, not retried"] == [3]


async def test_parked_key_is_a_warning_event(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with running(kcr_cluster, kcr_clock):
        await kcr_clock.advance(60)
        events = [one for one in await kcr_cluster.client.list(Event) if one.reason == "ReconcileParked"]
    (event,) = events
    assert (event.type, event.involved_object.name, event.source.component) == ("Warning", "colors", "colors")
    assert event.message.startswith("no longer reconciled after 3 failures in a row: KcrError: no; change its spec")


@pytest.mark.parametrize(
    "change",
    [{"data": {"a": "b"}}, {"metadata": {"annotations": {"kcr.dev/reconcile-at": "now"}}}],
    ids=["spec", "asked"],
)
async def test_change_or_request_gives_a_parked_key_new_retries(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, change: dict[str, Any]
) -> None:
    async with running(kcr_cluster, kcr_clock) as run:
        await kcr_clock.advance(60)
        assert await run.times_after(change) == PARKED_AT
        assert (run.gauge, run.controller.parked[KEY].failures) == (1, 3)
        run.reconciler.error = None
        assert await run.times_after({"metadata": {"annotations": {"kcr.dev/reconcile-at": "later"}}}) == [0]
        assert (run.gauge, run.controller.parked, run.controller.journal.failing) == (0, {}, {})


async def test_request_enqueues_a_key_whatever_the_predicate_says(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with running(kcr_cluster, kcr_clock, max_retries=None, predicate=labels_changed) as run:
        run.reconciler.error = None
        await kcr_clock.advance(60)
        assert await run.times_after({"data": {"a": "b"}}) == []
        assert await run.times_after({"metadata": {"annotations": {"kcr.dev/reconcile-at": "now"}}}) == [0]
        assert await run.times_after({"metadata": {"annotations": {"other": "x"}}}) == []
        assert await run.times_after({"metadata": {"annotations": {"kcr.dev/reconcile-at": None}}}) == []


async def test_deletion_of_a_parked_object_is_reconciled(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with running(kcr_cluster, kcr_clock) as run:
        await kcr_clock.advance(60)
        run.reconciler.error = None
        await kcr_cluster.client.delete(ConfigMap, KEY)
        assert await run.times_after() == [0]
        assert (run.gauge, run.controller.parked) == (0, {})


async def test_object_with_a_finalizer_is_reconciled_when_it_is_deleted(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with running(kcr_cluster, kcr_clock) as run:
        await run.times_after({"metadata": {"finalizers": ["example.dev/keep"]}})
        await kcr_clock.advance(60)
        await kcr_cluster.client.delete(ConfigMap, KEY)
        assert await run.times_after() == PARKED_AT


async def test_change_during_the_last_reconcile_is_not_lost(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with running(kcr_cluster, kcr_clock) as run:

        async def change() -> None:
            if len(run.reconciler.times) == 3:
                await kcr_cluster.client.merge_patch(ConfigMap, KEY, {"data": {"a": "b"}})

        run.reconciler.during = change
        await kcr_clock.advance(60)
        assert run.reconciler.times == [0, 1, 3, 3, 4, 6]


async def test_success_ends_the_row_of_failures(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with running(kcr_cluster, kcr_clock) as run:
        await kcr_clock.advance(1.5)
        run.reconciler.error = None
        await kcr_clock.advance(60)
        run.reconciler.error = kcr.KcrError("again")
        assert await run.times_after({"data": {"a": "b"}}) == PARKED_AT


async def test_end_of_a_pause_gives_a_parked_key_new_retries(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with running(kcr_cluster, kcr_clock) as run:
        await kcr_clock.advance(60)
        assert await run.times_after({"metadata": {"annotations": {"kcr.dev/paused": "true"}}}) == []
        assert await run.times_after({"metadata": {"annotations": {"kcr.dev/paused": None}}}) == PARKED_AT


@pytest.mark.parametrize(
    "error",
    [
        kcr.RetryLater("no address yet"),
        kcr.TransportError("refused"),
        ServerError(503, "", "away"),
        TooManyRequestsError(429, "", "slow down"),
        LeadershipLostError("lost"),
        StaleStoreError("late"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_failure_that_says_nothing_about_the_object_does_not_count(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, error: Exception
) -> None:
    async with running(kcr_cluster, kcr_clock, max_retries=0) as run:
        await kcr_clock.advance(60)
        run.reconciler.error = error
        assert len(await run.times_after({"data": {"a": "b"}})) > 3
        assert run.controller.parked == {}


async def test_next_process_begins_without_parked_keys(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with running(kcr_cluster, kcr_clock) as run:
        await kcr_clock.advance(60)
        assert run.gauge == 1
    await kcr_cluster.client.delete(ConfigMap, KEY)
    async with running(kcr_cluster, kcr_clock) as run:
        await kcr_clock.advance(60)
        assert run.reconciler.times == PARKED_AT


async def test_negative_number_of_retries_is_refused(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock)
    with pytest.raises(
        ValueError, match="controller colors: max_retries is -1: give it a whole number of at least 0 or None"
    ):
        manager.add_controller("colors", Fails(), max_retries=-1)
