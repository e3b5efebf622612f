"""Ended Jobs go when their time is up (job-controller §30), on the embedded cluster."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from kcr.api.batch import Job
from kcr.api.conditions import made
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Transport
from kcr.clock import Clock
from kcr.errors import ConflictError, ForbiddenError, ServerError
from kcr.manager import Manager
from kcr.testing import CrashingTransport, FaultyTransport, VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.testing.loop import START
from kcr_devcluster.testing.losses import Loss
from tests.kit.crash import EVERY_LOSS, MOST_WRITES, WriteFault, crash_after_writes, lose_replies, surviving
from tests.kit.harness import conditions, create, finished, job_controller, manifest, pods_of, read, ttl_controller
from tests.kit.observers import DeletionObserver, observing

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "pi")
# The one Job there is, and the bookmark that says so: what a watch begins with.
INITIAL_LINES = 2
LATENCY = "ttl_after_finished_controller_job_deletion_duration_seconds"


@asynccontextmanager
async def jobs_that_end(clock: Clock, *, exit_code: int = 0) -> AsyncIterator[tuple[EmbeddedCluster, Manager]]:
    """A cluster and its Job controller; pods end after a second."""

    def ends(*_: object) -> RunResult:
        return RunResult(exit_code=exit_code, run_for=1)

    async with (
        EmbeddedCluster(clock=clock, random=Random(0), on_run=ends) as cluster,
        job_controller(cluster, clock) as manager,
    ):
        yield cluster, manager


async def exists(cluster: EmbeddedCluster, name: str = "pi") -> bool:
    return name in [job.metadata.name for job in await cluster.client.list(Job, "default")]


async def ended_at(cluster: EmbeddedCluster, when: datetime, **spec: Any) -> Job:
    """Make a Job that another controller manages, and write its end as that controller would."""
    fields: dict[str, Any] = {"managedBy": "example.com/mine", "ttlSecondsAfterFinished": 10, **spec}
    job = await create(cluster.client, manifest(**fields))
    conditions = tuple(made(kind, "True", "Done", "", when) for kind in ("SuccessCriteriaMet", "Complete"))
    status = replace(job.status, start_time=START - timedelta(days=1), completion_time=when, conditions=conditions)
    return await cluster.client.patch_status(job, replace(job, status=status))


async def test_job_goes_after_its_ttl_and_pods_first(kcr_clock: VirtualClock) -> None:
    # Row 145.
    async with jobs_that_end(kcr_clock) as (cluster, jobs), ttl_controller(cluster, kcr_clock) as manager:
        deletions = DeletionObserver()
        jobs.informer(Job).add_handler(deletions)
        jobs.informer(Pod).add_handler(deletions)
        await create(cluster.client, manifest(completions=3, parallelism=3, ttlSecondsAfterFinished=100))
        job = await finished(cluster.client)
        end = job.status.conditions[-1].last_transition_time
        assert end is not None
        await kcr_clock.advance((end - kcr_clock.now()).total_seconds() + 99)
        assert len(await pods_of(cluster.client)) == 3
        await kcr_clock.advance(2)
        assert not await exists(cluster)
        assert [kind for _, kind in sorted(deletions.gone)] == ["Pod", "Pod", "Pod", "Job"]
        assert "foregroundDeletion" in deletions.finalizers
        assert manager.metrics.registry.get_sample_value(f"{LATENCY}_count") == 1
        assert manager.metrics.registry.get_sample_value(f"{LATENCY}_bucket", {"le": "0.1"}) == 1


async def test_job_that_was_over_long_ago_goes_at_the_start(kcr_clock: VirtualClock) -> None:
    # Row 145: the controller was away when the time was up.
    async with jobs_that_end(kcr_clock) as (cluster, _):
        await create(cluster.client, manifest(ttlSecondsAfterFinished=100))
        await finished(cluster.client)
        await kcr_clock.advance(1000)
        async with ttl_controller(cluster, kcr_clock) as manager:
            await kcr_clock.advance(1)
            assert not await exists(cluster)
            assert (manager.metrics.registry.get_sample_value(f"{LATENCY}_sum") or 0) > 800


@pytest.mark.parametrize("exit_code", [0, 1], ids=["complete", "failed"])
async def test_no_time_goes_at_once_and_none_stays(exit_code: int, kcr_clock: VirtualClock) -> None:
    # Row 146.
    async with jobs_that_end(kcr_clock, exit_code=exit_code) as (cluster, _), ttl_controller(cluster, kcr_clock):
        await create(cluster.client, manifest("goes", ttlSecondsAfterFinished=0, backoffLimit=0))
        await create(cluster.client, manifest("stays", backoffLimit=0))
        await finished(cluster.client, "stays")
        await kcr_clock.advance(1)
        assert not await exists(cluster, "goes")
        await kcr_clock.advance(3600)
        assert await exists(cluster, "stays")


async def test_ttl_given_after_the_end_counts_from_the_end(kcr_clock: VirtualClock) -> None:
    # §30.2: an update brings the key as well.
    async with jobs_that_end(kcr_clock) as (cluster, _), ttl_controller(cluster, kcr_clock):
        await create(cluster.client, manifest())
        await finished(cluster.client)
        await kcr_clock.advance(100)
        await cluster.client.merge_patch(Job, KEY, {"spec": {"ttlSecondsAfterFinished": 150}})
        await kcr_clock.advance(45)
        assert await exists(cluster)
        await kcr_clock.advance(10)
        assert not await exists(cluster)


@pytest.mark.parametrize("late", [False, True], ids=["store-knows", "store-is-late"])
async def test_raised_ttl_is_waited_for(late: bool, kcr_clock: VirtualClock) -> None:
    # Row 147.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        job = await ended_at(cluster, kcr_clock.now())
        faults = FaultyTransport(cluster.transport)
        if late:
            faults.on("watch", Job).freeze(after=INITIAL_LINES)
        async with ttl_controller(cluster, kcr_clock, transport=faults):
            await kcr_clock.advance(5)
            await cluster.client.merge_patch(Job, job.key, {"spec": {"ttlSecondsAfterFinished": 30}})
            await kcr_clock.advance(24)
            assert await exists(cluster)
            await kcr_clock.advance(2)
            assert not await exists(cluster)


async def test_removed_ttl_keeps_the_job(kcr_clock: VirtualClock) -> None:
    # §30.4: the timer fires, and finds nothing to do.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster, ttl_controller(cluster, kcr_clock):
        job = await ended_at(cluster, kcr_clock.now())
        await cluster.client.merge_patch(Job, job.key, {"spec": {"ttlSecondsAfterFinished": None}})
        await kcr_clock.advance(1000)
        assert await exists(cluster)


async def test_end_in_the_future_defers_the_deletion(kcr_clock: VirtualClock) -> None:
    # Row 148; another's Job goes as well (§30).
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster, ttl_controller(cluster, kcr_clock):
        with capture_logs() as logs:
            await ended_at(cluster, kcr_clock.now() + timedelta(hours=1))
            await kcr_clock.advance(3609)
            assert await exists(cluster)
            await kcr_clock.advance(2)
            assert not await exists(cluster)
        assert [line["seconds_ahead"] for line in logs if line["log_level"] == "warning"] == [3600]


async def test_job_that_is_going_is_left_alone(kcr_clock: VirtualClock) -> None:
    # Row 149: another client deleted it, and chose the propagation policy.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        transport = CrashingTransport(cluster.transport)
        job = await ended_at(cluster, kcr_clock.now())
        await cluster.client.merge_patch(Job, KEY, {"metadata": {"finalizers": ["example.com/mine"]}})
        async with ttl_controller(cluster, kcr_clock, transport=transport):
            await cluster.client.delete(Job, job.key, propagation="Orphan")
            await kcr_clock.advance(1000)
            assert (await read(cluster.client)).metadata.deletion_timestamp is not None
        assert transport.writes == 0


async def test_successor_of_the_same_name_is_not_deleted(kcr_clock: VirtualClock) -> None:
    # §30.5, §30.6: the live object is judged, and the deletion names its uid.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        await ended_at(cluster, kcr_clock.now())
        faults = FaultyTransport(cluster.transport)

        async def replace_it() -> None:
            await cluster.client.delete(Job, KEY, propagation="Background")
            await create(cluster.client, manifest(managedBy="example.com/mine"))

        faults.on("delete", Job, nth=1).then(replace_it)
        async with ttl_controller(cluster, kcr_clock, transport=faults):
            await kcr_clock.advance(1000)
        assert await exists(cluster)
        assert [call.verb for call in faults.calls].count("delete") == 1


async def test_successor_waits_for_its_own_time(kcr_clock: VirtualClock) -> None:
    # §30.5: a different uid is fine, because the check is made again.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        await ended_at(cluster, kcr_clock.now())
        faults = FaultyTransport(cluster.transport)
        faults.on("watch", Job).freeze(after=INITIAL_LINES)
        async with ttl_controller(cluster, kcr_clock, transport=faults):
            await kcr_clock.advance(5)
            await cluster.client.delete(Job, KEY, propagation="Background")
            await ended_at(cluster, kcr_clock.now())
            await kcr_clock.advance(9)
            assert await exists(cluster)
            await kcr_clock.advance(2)
            assert not await exists(cluster)


@pytest.mark.parametrize("verb", ["get", "delete"])
async def test_refused_requests_are_tried_again_later_each_time(verb: Any, kcr_clock: VirtualClock) -> None:
    # §30.7: 5 ms, doubling, up to 1000 s.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        await ended_at(cluster, kcr_clock.now() - timedelta(seconds=60))
        faults = FaultyTransport(cluster.transport)
        faults.on(verb, Job, name="pi").fail(ForbiddenError)
        async with ttl_controller(cluster, kcr_clock, transport=faults):
            await kcr_clock.advance(10)
            # 0.005 · (2ⁿ - 1) seconds pass before try n + 1: eleven fit into ten.
            assert [call.verb for call in faults.calls].count(verb) == 11
            faults.heal()
            await kcr_clock.advance(11)
            assert not await exists(cluster)


@pytest.mark.parametrize("error", [ConflictError, ServerError])
async def test_deletion_that_fails_once_is_made_up_for(error: Any, kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        await ended_at(cluster, kcr_clock.now())
        faults = FaultyTransport(cluster.transport)
        faults.on("delete", Job, nth=1).fail(error)
        async with ttl_controller(cluster, kcr_clock, transport=faults):
            await kcr_clock.advance(11)
            assert not await exists(cluster)


async def test_lost_reply_of_the_deletion_is_harmless(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        await ended_at(cluster, kcr_clock.now())
        transport = CrashingTransport(cluster.transport)
        transport.lose_reply(1)
        async with ttl_controller(cluster, kcr_clock, transport=transport):
            await kcr_clock.advance(60)
        assert not await exists(cluster)
        assert transport.writes == 1


@pytest.mark.parametrize("write", [0, 1])
async def test_crash_around_the_deletion_is_made_up_for(write: int, kcr_clock: VirtualClock) -> None:
    # The one write there is: the process dies before it, or before its answer.
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        await ended_at(cluster, kcr_clock.now())
        transport = CrashingTransport(cluster.transport)
        async with ttl_controller(cluster, kcr_clock, transport=transport):
            await kcr_clock.advance(5)
            transport.crash_after(write)
            await kcr_clock.advance(60)
        assert await exists(cluster) is (write == 0)
        async with ttl_controller(cluster, kcr_clock):
            await kcr_clock.advance(1)
        assert not await exists(cluster)


async def live(fault: WriteFault) -> int:
    """Let a Job of three pods come and go in spite of the fault, and return the number of writes."""
    clock = VirtualClock()
    cluster = EmbeddedCluster(clock=clock, random=Random(0), on_run=lambda *_: RunResult(run_for=1))

    def controllers(transport: Transport, seed: int) -> AbstractAsyncContextManager[object]:
        return ttl_controller(cluster, clock, transport=transport, with_jobs=True)

    async def is_over() -> bool:
        return not await cluster.client.list(Job, "default")

    async with cluster, observing(cluster, DeletionObserver(), Job, Pod) as seen:
        await create(cluster.client, manifest(completions=3, parallelism=2, ttlSecondsAfterFinished=10))
        async with surviving(cluster.transport, fault, controllers, is_over) as transport:
            await eventually(lambda: len(seen.gone) == 4, seconds=600)
        assert [kind for _, kind in sorted(seen.gone)] == ["Pod", "Pod", "Pod", "Job"]
        assert conditions(seen.jobs[0])[-1] == ("Complete", "CompletionsReached")
        assert seen.jobs[0].status.succeeded == 3
        return transport.writes


@pytest.mark.parametrize("most", MOST_WRITES)
def test_crash_after_any_write_keeps_no_job_for_ever(most: int | None) -> None:
    crash_after_writes(live, most)


@pytest.mark.parametrize("most", MOST_WRITES)
@pytest.mark.parametrize("loss", EVERY_LOSS)
def test_lost_reply_of_any_write_keeps_no_job_for_ever(loss: Loss | None, most: int | None) -> None:
    lose_replies(live, most, loss=loss)


async def test_deletions_are_summed_up_once_a_minute(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0)) as cluster:
        with capture_logs() as logs:
            async with ttl_controller(cluster, kcr_clock, with_jobs=True):
                for number in range(30):
                    await create(cluster.client, manifest(f"job-{number}", ttlSecondsAfterFinished=1 + 3 * number))
                await kcr_clock.advance(50)
                assert lines_about_deletions(logs) == []
                await kcr_clock.advance(60)
                (first,) = lines_about_deletions(logs)
                assert 10 < first < 30
                await create(cluster.client, manifest("last", ttlSecondsAfterFinished=1))
                await kcr_clock.advance(10)
        # What is counted when the controller ends is not lost.
        assert sum(lines_about_deletions(logs)) == 31
        assert len([line for line in logs if line["event"] == "job deleted: its TTL has expired"]) == 31
        assert {line["log_level"] for line in logs if line["event"] == "job deleted: its TTL has expired"} == {"debug"}


def lines_about_deletions(logs: list[Any]) -> list[int]:
    return [line["count"] for line in logs if line["event"] == "jobs deleted: their TTL has expired"]
