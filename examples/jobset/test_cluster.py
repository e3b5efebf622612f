"""The whole controller on the embedded cluster, in virtual time: restarts, crashes after each write, lost replies."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Any

import msgspec
import pytest
import yaml

import kcr
from examples.jobset.api import JobSet
from examples.jobset.controller import setup
from examples.jobset.decisions import ATTEMPT
from examples.jobset.explanation import explain_jobset
from kcr.api.batch import Job
from kcr.api.core import Event, Pod
from kcr.client import Request, Response, Transport
from kcr.controllers.job.controller import Options
from kcr.controllers.job.controller import setup as setup_jobs
from kcr.testing import CrashingTransport, VirtualClock, eventually, namespace_ends
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.node.simulated import FOREVER, RunResult

pytestmark = pytest.mark.kcr_virtual

KEY = kcr.Key("default", "training")
# At least so many writes has a life with one restart: statuses, and Jobs that are created, deleted and created again.
WRITES = 22


def manifest(**spec: Any) -> dict[str, Any]:
    """Return the JobSet of the example, with other fields."""
    with open("examples/jobset/manifests/training.yaml", encoding="utf-8") as file:
        found: dict[str, Any] = yaml.safe_load(file)
    return found | {"spec": found["spec"] | spec}


class CountingJobs(CrashingTransport):
    """Crashes, or loses replies, at writes of JobSets and Jobs; events are not counted."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self._events = inner

    def send(self, request: Request) -> AbstractAsyncContextManager[Response]:
        """Send a request; one about events is not counted."""
        is_event = "/events" in request.target and not self.crashed.is_set()
        return self._events.send(request) if is_event else super().send(request)


def second_attempt_succeeds(pod: KubeletPod, container: str, attempt: int) -> RunResult:
    """The leader runs until it is stopped; a worker of the first attempt fails after ten seconds."""
    if container == "leader":
        return RunResult(run_for=FOREVER)
    return RunResult(run_for=10, exit_code=1 if pod.metadata.labels[ATTEMPT] == "0" else 0)


@asynccontextmanager
async def running(transport: Transport, clock: VirtualClock) -> AsyncIterator[None]:
    """Run the controller over a transport for as long as the context lives."""
    manager = kcr.Manager(kcr.Client(transport), clock=clock, random=Random(1))
    setup(manager)
    async with manager.running():
        yield


@asynccontextmanager
async def cluster(clock: VirtualClock, on_run: Any = second_attempt_succeeds) -> AsyncIterator[EmbeddedCluster]:
    """Run a cluster with a simulated node and the Job controller."""
    async with EmbeddedCluster(clock=clock, random=Random(0), kinds=[JobSet], on_run=on_run) as found:
        manager = kcr.Manager(found.client, clock=clock, random=Random(2))
        setup_jobs(manager, Options(take_over=True))
        async with manager.running():
            yield found


async def finished(client: kcr.Client) -> JobSet:
    """Wait for the end of the JobSet and of all its pods, and return it."""

    async def ended() -> bool:
        pods = await client.list(Pod, "default")
        is_quiet = all(pod.status.phase in ("Succeeded", "Failed") for pod in pods)
        return bool((await client.get(JobSet, KEY)).status.terminal_state) and is_quiet

    await eventually(ended, seconds=600)
    return await client.get(JobSet, KEY)


async def check_restarted_once(client: kcr.Client) -> None:
    """Check the end of a JobSet whose first attempt fails."""
    jobset = await finished(client)
    assert (jobset.status.terminal_state, jobset.status.restarts) == ("Completed", 1)
    # The leader did not end by itself: it was deleted.
    workers = sum(one.succeeded for one in jobset.status.replicated_jobs_status)
    jobs = {job.metadata.name: job.metadata.labels[ATTEMPT] for job in await client.list(Job, "default")}
    assert jobs == {f"training-workers-{index}": "1" for index in range(workers)}


async def test_failed_job_restarts_the_set_and_pods_never_overlap(kcr_clock: VirtualClock) -> None:
    started: list[tuple[str, float]] = []

    def run(pod: KubeletPod, container: str, attempt: int) -> RunResult:
        started.append((pod.metadata.labels[ATTEMPT], kcr_clock.now().timestamp()))
        return second_attempt_succeeds(pod, container, attempt)

    async with cluster(kcr_clock, run) as found, running(found.transport, kcr_clock):
        await found.client.create_manifest(JobSet, manifest(), "default")
        await check_restarted_once(found.client)
        events = await found.client.list(Event, "default", fields="involvedObject.kind=JobSet")
    assert {"RestartJobSet", "AllJobsCompleted", "SuccessfulCreate", "SuccessfulDelete"} <= {
        one.reason for one in events
    }
    assert [attempt for attempt, _ in started] == sorted(attempt for attempt, _ in started)
    assert len(started) == 6


@pytest.mark.parametrize(
    "write",
    [pytest.param(write, marks=[] if write % 7 == 1 else pytest.mark.soak) for write in range(1, WRITES + 1)],
)
async def test_crash_after_any_write_restarts_the_set_once(kcr_clock: VirtualClock, write: int) -> None:
    async with cluster(kcr_clock) as found:
        await found.client.create_manifest(JobSet, manifest(), "default")
        dying = CountingJobs(found.transport)
        dying.crash_after(write)
        async with running(dying, kcr_clock):
            await eventually(dying.crashed.is_set, seconds=60)
        async with running(found.transport, kcr_clock):
            await check_restarted_once(found.client)


@pytest.mark.parametrize(
    "loss", ["cut", *(pytest.param(loss, marks=pytest.mark.soak) for loss in ("silence", "garbage", "502"))]
)
async def test_lost_replies_restart_the_set_once(kcr_clock: VirtualClock, loss: Any) -> None:
    async with cluster(kcr_clock) as found:
        lossy = CountingJobs(found.transport)
        # Not all of them: a request that is sent again would lose its reply again.
        for write in range(1, 2 * WRITES, 2):
            lossy.lose_reply(write, loss)
        async with running(lossy, kcr_clock):
            await found.client.create_manifest(JobSet, manifest(), "default")
            await check_restarted_once(found.client)


async def test_wrong_arguments_fail_the_set_at_once(kcr_clock: VirtualClock) -> None:
    def run(pod: KubeletPod, container: str, attempt: int) -> RunResult:
        return RunResult(run_for=FOREVER if container == "leader" else 5, exit_code=2)

    async with cluster(kcr_clock, run) as found, running(found.transport, kcr_clock):
        await found.client.create_manifest(JobSet, manifest(), "default")
        jobset = await finished(found.client)
        (failed,) = [one for one in jobset.status.conditions if one.type == "Failed"]
    assert (jobset.status.restarts, failed.reason) == (0, "FailJobSetFailurePolicyAction")


async def test_suspended_set_has_no_pods_and_starts_in_order_again(kcr_clock: VirtualClock) -> None:
    def run(pod: KubeletPod, container: str, attempt: int) -> RunResult:
        return RunResult(run_for=FOREVER, start_delay=20 if container == "leader" else 0)

    async with cluster(kcr_clock, run) as found, running(found.transport, kcr_clock):
        client = found.client

        async def containers() -> list[str]:
            await kcr_clock.advance(60)
            return sorted(pod.spec.containers[0].name for pod in await client.list(Pod, "default"))

        async def headline() -> str:
            return (await explain_jobset(client, await client.get(JobSet, KEY), (), kcr_clock.now())).headline

        await client.create_manifest(JobSet, manifest(suspend=True), "default")
        assert (await containers(), await headline()) == ([], "is suspended")
        await client.merge_patch(JobSet, KEY, {"spec": {"suspend": False}})
        await kcr_clock.advance(10)
        assert len(await client.list(Pod, "default")) == 1
        assert await headline() == "waits until all Jobs of leader are ready"
        assert (await containers(), await headline()) == (["leader", "worker", "worker"], "runs")
        await client.merge_patch(JobSet, KEY, {"spec": {"suspend": True}})
        assert await containers() == []


async def test_ended_set_is_deleted_with_its_jobs_after_its_time_to_live(kcr_clock: VirtualClock) -> None:
    async with cluster(kcr_clock) as found, running(found.transport, kcr_clock):
        await found.client.create_manifest(JobSet, manifest(ttlSecondsAfterFinished=300), "default")
        await finished(found.client)
        await kcr_clock.advance(290)
        assert await found.client.list(JobSet, "default")
        await kcr_clock.advance(30)
        left = [*await found.client.list(JobSet), *await found.client.list(Job), *await found.client.list(Pod)]
    assert left == []


async def test_namespace_with_a_live_set_ends(kcr_clock: VirtualClock) -> None:
    async with cluster(kcr_clock, lambda *_: RunResult(run_for=FOREVER)) as found:
        await namespace_ends(found, setup, [msgspec.convert(manifest(), JobSet)])
