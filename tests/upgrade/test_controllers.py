"""Replicas of 0.1.0 and of the present version take over from each other in the middle of their work."""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from kcr.api.batch import CronJob, Job, is_finished
from kcr.api.conditions import is_condition_true
from kcr.api.coordination import Lease
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client
from kcr.clock import SystemClock
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.e2e.processes import Running, Start
from tests.e2e.storms.observation import JobHistory, PodHistory, Stream
from tests.kit.harness import manifest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420), pytest.mark.asyncio]

LEASE = Key("default", "kcr")
ELECTION = (
    "--leader-elect", "--leader-elect-resource-name", LEASE.name, "--leader-elect-lease-duration", "10s",
    "--leader-elect-renew-deadline", "8s", "--leader-elect-retry-period", "500ms",
)  # fmt: skip
RUN = ("run", "--controllers", "job,ttl,cronjob", "--take-over", *ELECTION)
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
PARALLEL = {"completions": 4, "parallelism": 2}


class Shape(NamedTuple):
    """A Job, the pods that it takes, and its end.

    Attributes:
        spec: Its fields.
        pods: How many pods it takes altogether.
        succeeded: How many of them are counted as succeeded.
        ends_as: The condition that it ends with.
        code: The exit code of its pods.
    """

    spec: Mapping[str, Any]
    pods: int
    succeeded: int
    ends_as: str = "Complete"
    code: int = 0


SHAPES = (
    Shape(PARALLEL, 4, 4),
    Shape({"completions": 3}, 3, 3),
    Shape({**PARALLEL, "completionMode": "Indexed"}, 4, 4),
    Shape({**PARALLEL, "completionMode": "Indexed", "backoffLimitPerIndex": 1}, 4, 4),
    Shape({"backoffLimit": 1}, 2, 0, "Failed", code=3),
)


def planned(number: int, seconds: float) -> dict[str, Any]:
    shape = SHAPES[number % len(SHAPES)]
    rounds = 2 if "parallelism" in shape.spec or shape.code else shape.pods
    said = {"sim.kcr.dev/run-for": f"{seconds / rounds:.2f}s", "sim.kcr.dev/exit-code": str(shape.code)}
    return manifest(f"job-{number}", annotations=said, **shape.spec)


def cron_job(number: int) -> dict[str, Any]:
    template = manifest(annotations={"sim.kcr.dev/run-for": "5s"})["spec"]
    spec = {"schedule": "* * * * *", "successfulJobsHistoryLimit": 100, "jobTemplate": {"spec": template}}
    return {
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": f"tick-{number}", "namespace": "default"},
        "spec": spec,
    }  # fmt: skip


class Work:
    """Jobs and CronJobs on a cluster, and all that becomes of them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.jobs, self.pods = JobHistory(), PodHistory()
        self._names: list[str] = []

    async def follow(self) -> None:
        """Record each change of Jobs and pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(Stream(self._client, Job, self.jobs.on_change).run())
            group.create_task(Stream(self._client, Pod, self.pods.on_change).run())

    async def create(self, jobs: int, cron_jobs: int, seconds: float) -> None:
        """Create Jobs that take so many seconds each, and CronJobs of every minute."""
        for number in range(cron_jobs):
            await self._client.create_manifest(CronJob, cron_job(number), "default")
        for number in range(jobs):
            made = await self._client.create_manifest(Job, planned(number, seconds), "default")
            self._names.append(made.metadata.name)

    @property
    def started(self) -> int:
        return sum(bool(self.pods.last[job.metadata.uid]) for job in self._planned)

    @property
    def finished(self) -> int:
        return sum(map(is_finished, self._planned))

    @property
    def _planned(self) -> list[Job]:
        found = (self.jobs.last.get(("default", name)) for name in self._names)
        return [job for job in found if job is not None]

    def wrongs(self) -> list[str]:
        """Return what was lost, counted twice or restarted."""
        wrongs = list(self.jobs.wrongs)
        for number, job in enumerate(self._planned):
            shape, pods = SHAPES[number % len(SHAPES)], self.pods.last[job.metadata.uid].values()
            counted = (job.status.succeeded, job.status.failed)
            if counted != (shape.succeeded, shape.pods - shape.succeeded):
                wrongs.append(f"{job.metadata.name}: {counted} are counted as succeeded and failed")
            if not is_condition_true(job.status.conditions, shape.ends_as):
                wrongs.append(f"{job.metadata.name} has ended as {job.status.conditions}")
            if len(pods) != shape.pods:
                wrongs.append(f"{job.metadata.name} took {len(pods)} pods instead of {shape.pods}")
            wrongs += [f"{pod.metadata.name} was deleted" for pod in pods if pod.metadata.deletion_timestamp]
        return wrongs

    def runs_of(self, number: int) -> list[str]:
        """Return the times for which a CronJob has made Jobs, in order."""
        owned = [job for (_, name), job in self.jobs.last.items() if name.startswith(f"tick-{number}-")]
        return sorted(job.metadata.annotations[SCHEDULED] for job in owned)


def works(run: Running) -> bool:
    """Return whether the controllers of a replica work: with shards, those that stand by are ready as well."""
    return ("shards are active" if "joining the replicas" in run.err else "workers run") in run.err


async def take_over(
    cluster: EmbeddedCluster, leaders: Mapping[Running, signal.Signals], heirs: Sequence[Running]
) -> None:
    """End the leaders one after the other, and wait until the replicas that stand by lead."""
    await eventually(lambda: all("new leader elected" in heir.err for heir in heirs), seconds=60)
    assert not any(map(works, heirs)), "they work beside the leader"
    for leader, how in leaders.items():
        await leader.stop(how)
    await eventually(lambda: all(map(works, heirs)), seconds=60)
    spec = (await cluster.client.get(Lease, LEASE)).spec
    # Replicas with shards have one identity together.
    assert all(f'"identity":"{spec.holder_identity}"' in heir.err.replace(" ", "") for heir in heirs)


async def reach(work: Work, minute: datetime, seconds: int) -> None:
    """Wait until so many seconds after a minute."""
    left = (minute + timedelta(seconds=seconds) - SystemClock().now()).total_seconds()
    await eventually(lambda: SystemClock().now() >= minute + timedelta(seconds=seconds), seconds=left + 30)
    assert not work.jobs.wrongs


def next_minute(ahead: timedelta) -> datetime:
    return (SystemClock().now() + ahead + timedelta(minutes=1)).replace(second=0, microsecond=0)


# The options of the present version, and how each of its replicas ends.
ONE_LEADER = pytest.param((), (signal.SIGKILL,), id="one-leader")
# The second replica is killed as soon as the first one has handed over its shards.
SHARDS = pytest.param(("--shards", "8"), (signal.SIGTERM, signal.SIGKILL), id="shards")


@pytest.mark.soak
@pytest.mark.parametrize(("options", "ends"), [ONE_LEADER, SHARDS])
async def test_present_version_takes_over_amid_the_work_and_gives_it_back(
    kcr: Start, kcr_before: Start, tmp_path: Path, options: Sequence[str], ends: Sequence[signal.Signals]
) -> None:
    async with EmbeddedCluster(random=Random(0)) as cluster, asyncio.TaskGroup() as group:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text((await cluster.serve()).kubeconfig)
        given = {"KUBECONFIG": str(kubeconfig), "KCR_JOB_POD_FAILURE_BACKOFF": "1"}
        work = Work(cluster.client)
        following = group.create_task(work.follow())
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(kcr_before(*RUN, **given))
            await first.ready()
            second = {await stack.enter_async_context(kcr(*RUN, *options, **given)): end for end in ends}
            minute = next_minute(timedelta(seconds=30))
            await reach(work, minute, -25)
            await work.create(200, 50, seconds=100)
            await reach(work, minute, 5)
            assert (work.started, work.finished) == (200, 0)
            await take_over(cluster, {first: signal.SIGTERM}, [*second])
            third = await stack.enter_async_context(kcr_before(*RUN, **given))
            await reach(work, minute, 65)
            assert work.finished < 200, "they run through both changes"
            await take_over(cluster, second, [third])
            await reach(work, minute, 125)

            def all_finished() -> bool:
                assert not third.has_ended, third.err
                return work.finished == 200

            await eventually(all_finished, seconds=120)
            assert await third.stop() == 0
            said = "".join(one.err for one in (first, *second, third))
        assert work.wrongs() == []
        minutes = [(minute + timedelta(minutes=number)).strftime("%Y-%m-%dT%H:%M:%SZ") for number in range(3)]
        assert [number for number in range(50) if work.runs_of(number) != minutes] == []
        assert '"level":"error"' not in said.replace(" ", "")
        following.cancel()
