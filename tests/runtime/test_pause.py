"""Objects with the annotation `kcr.dev/paused`: their controllers leave them alone, and catch up when it is removed."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

import kcr
from kcr.api.batch import CronJob, Job
from kcr.api.core import ConfigMap, Event, Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.controller import Predicate
from kcr.errors import NotFoundError, TransportError
from kcr.testing import FaultyTransport, PodScript, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import cronjob_controller, jobs_of
from tests.kit.cronjob_harness import manifest as cronjob
from tests.kit.harness import counters, create, finished, job_controller, manifest, pods_of, read, ttl_controller

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.asyncio]

KEY = Key("default", "colors")
JOB = Key("default", "pi")


async def annotate(cluster: EmbeddedCluster, kind: type[kcr.Resource], key: Key, value: str | None) -> None:
    await cluster.client.merge_patch(kind, key, {"metadata": {"annotations": {"kcr.dev/paused": value}}})


class Fails:
    """A reconciler that notes what it was asked, and fails while it is told to."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.fails = False
        self.error = kcr.KcrError("not today")

    async def reconcile(self, key: Key) -> kcr.Result:
        self.keys.append(key)
        if self.fails:
            raise self.error
        return kcr.Result()


@asynccontextmanager
async def watching(
    cluster: EmbeddedCluster, clock: VirtualClock, predicate: Predicate | None = None, *, has_recorder: bool = False
) -> AsyncIterator[tuple[Fails, kcr.Manager]]:
    manager, reconciler = kcr.Manager(cluster.client, clock=clock, random=random.Random(0)), Fails()
    recorder = manager.recorder("colors") if has_recorder else None
    watches = [kcr.watch(ConfigMap, predicate=predicate)]
    manager.add_controller("colors", reconciler, watches=watches, recorder=recorder)
    async with manager.running():
        await cluster.client.create(ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace)))
        await clock.advance(1)
        yield reconciler, manager


async def test_paused_object_is_reconciled_again_when_resumed(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with watching(kcr_cluster, kcr_clock) as (reconciler, _):
        await annotate(kcr_cluster, ConfigMap, KEY, "true")
        await kcr_clock.advance(1)
        reconciler.keys.clear()
        await kcr_cluster.client.merge_patch(ConfigMap, KEY, {"data": {"a": "b"}})
        await kcr_clock.advance(60)
        assert KEY not in reconciler.keys
        await annotate(kcr_cluster, ConfigMap, KEY, None)
        await kcr_clock.advance(0.1)
        assert reconciler.keys.count(KEY) == 1


@pytest.mark.parametrize("value", ["false", "", "True"])
async def test_only_the_value_true_pauses(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, value: str) -> None:
    async with watching(kcr_cluster, kcr_clock) as (reconciler, _):
        reconciler.keys.clear()
        await annotate(kcr_cluster, ConfigMap, KEY, value)
        await kcr_clock.advance(1)
        assert KEY in reconciler.keys


async def test_end_of_a_pause_passes_every_predicate(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with watching(kcr_cluster, kcr_clock, kcr.generation_changed) as (reconciler, _):
        await annotate(kcr_cluster, ConfigMap, KEY, "true")
        await kcr_clock.advance(1)
        reconciler.keys.clear()
        await annotate(kcr_cluster, ConfigMap, KEY, "false")
        await kcr_clock.advance(0.1)
        assert reconciler.keys == [KEY]


async def test_pause_ends_the_retries_of_a_key(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with watching(kcr_cluster, kcr_clock) as (reconciler, manager):
        await kcr_clock.advance(1)
        reconciler.fails = True
        await kcr_cluster.client.merge_patch(ConfigMap, KEY, {"data": {"a": "b"}})
        await kcr_clock.advance(10)
        await annotate(kcr_cluster, ConfigMap, KEY, "true")
        await kcr_clock.advance(1)
        reconciler.keys.clear()
        await kcr_clock.advance(3600)
        assert KEY not in reconciler.keys
        assert manager.metrics.registry.get_sample_value("kcr_paused_objects", {"controller": "colors"}) == 1


async def test_pause_and_resume_are_logged_once(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    with capture_logs() as logs:
        async with watching(kcr_cluster, kcr_clock):
            await annotate(kcr_cluster, ConfigMap, KEY, "true")
            for value in ("b", "c", "d"):
                await kcr_clock.advance(1)
                await kcr_cluster.client.merge_patch(ConfigMap, KEY, {"data": {"a": value}})
            await annotate(kcr_cluster, ConfigMap, KEY, None)
            await kcr_clock.advance(1)
    assert [line["event"] for line in logs if line["event"] in ("paused, not reconciled", "resumed")] == [
        "paused, not reconciled",
        "resumed",
    ]


async def test_paused_object_that_is_deleted_is_reconciled(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with watching(kcr_cluster, kcr_clock) as (reconciler, manager):
        await annotate(kcr_cluster, ConfigMap, KEY, "true")
        await kcr_clock.advance(1)
        reconciler.keys.clear()
        await kcr_cluster.client.delete(ConfigMap, KEY)
        await kcr_clock.advance(1)
        assert reconciler.keys == [KEY]
        assert manager.metrics.registry.get_sample_value("kcr_paused_objects", {"controller": "colors"}) == 0


async def pause_events(cluster: EmbeddedCluster, kind: type[kcr.Resource]) -> list[tuple[str, int | None]]:
    """The events about pauses of the objects of a kind, and how often each was recorded."""
    events = await cluster.client.list(Event, "default", fields=f"involvedObject.kind={kind.resource.kind}")
    return [(one.reason, one.count) for one in events if one.reason.startswith("Reconcile")]


async def test_begin_and_end_of_a_pause_are_events_of_a_job(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(suspend=True))
        await kcr_clock.advance(5)
        assert await pause_events(kcr_cluster, Job) == []
        await annotate(kcr_cluster, Job, JOB, "true")
        await kcr_clock.advance(5)
        await kcr_cluster.client.merge_patch(Job, JOB, {"metadata": {"labels": {"a": "b"}}})
        await kcr_clock.advance(5)
        assert await pause_events(kcr_cluster, Job) == [("ReconcilePaused", 1)]
        await annotate(kcr_cluster, Job, JOB, None)
        await kcr_clock.advance(5)
    assert await pause_events(kcr_cluster, Job) == [("ReconcilePaused", 1), ("ReconcileResumed", 1)]


async def test_begin_and_end_of_a_pause_are_events_of_a_cronjob(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with cronjob_controller(kcr_cluster, kcr_clock):
        created = await kcr_cluster.client.create_manifest(CronJob, cronjob(), "default")
        await kcr_clock.advance(5)
        await annotate(kcr_cluster, CronJob, created.key, "true")
        await kcr_clock.advance(120)
        await annotate(kcr_cluster, CronJob, created.key, None)
        await kcr_clock.advance(5)
    assert await pause_events(kcr_cluster, CronJob) == [("ReconcilePaused", 1), ("ReconcileResumed", 1)]


async def test_pause_is_recorded_again_by_a_controller_that_starts(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    paused = manifest(suspend=True)
    paused["metadata"]["annotations"] = {"kcr.dev/paused": "true"}
    await create(kcr_cluster.client, paused)
    for _ in range(2):
        async with job_controller(kcr_cluster, kcr_clock):
            await kcr_clock.advance(5)
    assert {reason for reason, _ in await pause_events(kcr_cluster, Job)} == {"ReconcilePaused"}
    async with job_controller(kcr_cluster, kcr_clock):
        await kcr_clock.advance(5)
        await annotate(kcr_cluster, Job, JOB, None)
        await kcr_clock.advance(5)
    assert ("ReconcileResumed", 1) in await pause_events(kcr_cluster, Job)


async def test_paused_job_of_another_controller_gets_no_event(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with job_controller(kcr_cluster, kcr_clock, take_over=False):
        await create(kcr_cluster.client, manifest())
        await annotate(kcr_cluster, Job, JOB, "true")
        await kcr_clock.advance(5)
        await annotate(kcr_cluster, Job, JOB, None)
        await kcr_clock.advance(5)
    assert await pause_events(kcr_cluster, Job) == []


async def test_controller_without_a_recorder_of_pauses_writes_no_event(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with watching(kcr_cluster, kcr_clock):
        await annotate(kcr_cluster, ConfigMap, KEY, "true")
        await kcr_clock.advance(5)
        await annotate(kcr_cluster, ConfigMap, KEY, None)
        await kcr_clock.advance(5)
    assert await pause_events(kcr_cluster, ConfigMap) == []


async def test_any_controller_records_its_pauses_with_a_recorder(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with watching(kcr_cluster, kcr_clock, has_recorder=True):
        await annotate(kcr_cluster, ConfigMap, KEY, "true")
        await kcr_clock.advance(5)
        await annotate(kcr_cluster, ConfigMap, KEY, None)
        await kcr_clock.advance(5)
        assert await pause_events(kcr_cluster, ConfigMap) == [("ReconcilePaused", 1), ("ReconcileResumed", 1)]


async def test_pods_that_end_during_a_pause_count_once(kcr_clock: VirtualClock) -> None:
    async with (
        EmbeddedCluster(clock=kcr_clock, random=random.Random(0), runtime=None) as cluster,
        job_controller(cluster, kcr_clock),
    ):
        await create(cluster.client, manifest(completions=4, parallelism=4))
        await kcr_clock.advance(5)
        await annotate(cluster, Job, JOB, "true")
        pods = PodScript(cluster.client, kcr_clock)
        for _ in range(3):
            await pods.succeed()
        await pods.fail()
        await kcr_clock.advance(600)
        assert counters(await read(cluster.client))[3:] == (0, 0)
        assert len(await pods_of(cluster.client)) == 4
        await annotate(cluster, Job, JOB, None)
        await kcr_clock.advance(30)
        assert counters(await read(cluster.client))[3:] == (3, 1)
        await pods.succeed()
        job = await finished(cluster.client)
    assert (job.status.succeeded, job.status.failed) == (4, 1)


async def test_paused_job_keeps_its_pods_when_it_is_deleted(kcr_clock: VirtualClock) -> None:
    async with (
        EmbeddedCluster(clock=kcr_clock, random=random.Random(0), runtime=None) as cluster,
        job_controller(cluster, kcr_clock),
    ):
        await create(cluster.client, manifest())
        await kcr_clock.advance(5)
        await annotate(cluster, Job, JOB, "true")
        await cluster.client.delete(Job, JOB, propagation="Foreground")
        await kcr_clock.advance(60)
        (pod,) = await pods_of(cluster.client)
        assert pod.metadata.finalizers
        await annotate(cluster, Job, JOB, None)
        await kcr_clock.advance(60)
        assert not await cluster.client.list(Pod)


async def test_paused_cronjob_starts_no_job(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with cronjob_controller(kcr_cluster, kcr_clock):
        paused = cronjob()
        paused["metadata"]["annotations"] = {"kcr.dev/paused": "true"}
        created = await kcr_cluster.client.create_manifest(CronJob, paused, "default")
        await kcr_clock.advance(300)
        assert not await jobs_of(kcr_cluster.client)
        await annotate(kcr_cluster, CronJob, created.key, None)
        await kcr_clock.advance(1)
        assert len(await jobs_of(kcr_cluster.client)) == 1


async def test_cronjob_resumed_with_another_schedule_is_reconciled(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with cronjob_controller(kcr_cluster, kcr_clock):
        created = await kcr_cluster.client.create_manifest(CronJob, cronjob(), "default")
        await kcr_clock.advance(65)
        (job,) = (await kcr_cluster.client.get(CronJob, created.key)).status.active
        await annotate(kcr_cluster, CronJob, created.key, "true")
        await kcr_clock.advance(1)
        await kcr_cluster.client.delete(Job, Key("default", job.name))
        await kcr_clock.advance(5)
        resumed = {"metadata": {"annotations": {"kcr.dev/paused": None}}, "spec": {"schedule": "0 0 1 1 *"}}
        await kcr_cluster.client.merge_patch(CronJob, created.key, resumed)
        await kcr_clock.advance(5)
        assert not (await kcr_cluster.client.get(CronJob, created.key)).status.active


async def test_paused_job_outlives_its_ttl(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with ttl_controller(kcr_cluster, kcr_clock, with_jobs=True):
        await create(kcr_cluster.client, manifest(ttlSecondsAfterFinished=10))
        await finished(kcr_cluster.client)
        await annotate(kcr_cluster, Job, JOB, "true")
        await kcr_clock.advance(60)
        await read(kcr_cluster.client)
        await annotate(kcr_cluster, Job, JOB, None)
        await kcr_clock.advance(30)
        with pytest.raises(NotFoundError):
            await read(kcr_cluster.client)


async def test_pause_that_no_watch_shows_yet_keeps_a_job(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    late = FaultyTransport(kcr_cluster.transport)
    async with job_controller(kcr_cluster, kcr_clock):
        await create(kcr_cluster.client, manifest(ttlSecondsAfterFinished=10))
        await finished(kcr_cluster.client)
    late.on("watch", Job, nth=1).freeze(after=2)
    async with ttl_controller(kcr_cluster, kcr_clock, transport=late):
        await annotate(kcr_cluster, Job, JOB, "true")
        await kcr_clock.advance(30)
        await read(kcr_cluster.client)
        await annotate(kcr_cluster, Job, JOB, None)
        await kcr_clock.advance(30)
        with pytest.raises(NotFoundError):
            await read(kcr_cluster.client)


async def test_paused_key_that_probed_the_server_holds_up_no_other(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    other = Key("default", "shapes")
    async with watching(kcr_cluster, kcr_clock) as (reconciler, _):
        reconciler.fails, reconciler.error = True, TransportError("refused")
        await kcr_cluster.client.merge_patch(ConfigMap, KEY, {"data": {"a": "b"}})
        await kcr_clock.advance(1)
        await kcr_cluster.client.create(ConfigMap(metadata=ObjectMeta(name=other.name, namespace=other.namespace)))
        await kcr_clock.advance(300)
        reconciler.fails = False
        await annotate(kcr_cluster, ConfigMap, KEY, "true")
        reconciler.keys.clear()
        await kcr_clock.advance(3)
        assert reconciler.keys == [other]


async def test_pause_holds_after_a_watch_was_closed_and_added_again(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager, reconciler = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=random.Random(0)), Fails()
    controller = manager.add_controller("colors", reconciler)
    await kcr_cluster.client.create(ConfigMap(metadata=ObjectMeta(name=KEY.name, namespace=KEY.namespace)))
    await annotate(kcr_cluster, ConfigMap, KEY, "true")
    async with manager.running():
        for _ in range(2):
            handle = manager.add_watch(controller, kcr.watch(ConfigMap))
            assert handle is not None
            await kcr_clock.advance(10)
            assert KEY not in reconciler.keys
            handle.close()
            await kcr_clock.advance(1)
