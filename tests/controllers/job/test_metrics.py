"""What the Job controller counts in the scenarios that say so (job-controller §§32, 37)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.client import Client, Transport
from kcr.errors import ForbiddenError
from kcr.manager import Manager
from kcr.testing import FaultyTransport, PodScript, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import counters, create, finished, job_controller, manifest, pods_of, read
from tests.kit.transports import late_watches

pytestmark = pytest.mark.kcr_virtual

KEY = Key("default", "pi")
HOLD = "example.com/hold"


class MeteredController:
    """A cluster without a node, a Job controller, and what it has counted."""

    def __init__(self, client: Client, clock: VirtualClock, manager: Manager) -> None:
        self.client = client
        self.clock = clock
        self.pods = PodScript(client, clock)
        self._registry = manager.metrics.registry

    def counted(self, name: str, **labels: str) -> float:
        return self._registry.get_sample_value(f"job_controller_{name}", labels) or 0

    def creations(self) -> dict[tuple[str, ...], float]:
        """How many pods were created, by reason and status."""
        return self.series("job_pods_creation", "reason", "status")

    def series(self, family: str, *labels: str) -> dict[tuple[str, ...], float]:
        """All values of a counter."""
        families = [metric for metric in self._registry.collect() if metric.name == f"job_controller_{family}"]
        samples = [sample for metric in families for sample in metric.samples if sample.name.endswith("_total")]
        return {tuple(sample.labels[label] for label in labels): sample.value for sample in samples}

    async def counters(self) -> tuple[int, int | None, int | None, int, int]:
        """The Job's counters, two seconds later: batches have been written by then."""
        await self.clock.advance(2)
        return counters(await read(self.client))

    async def active(self) -> list[str]:
        """The names of the pods that have not ended and are not told to."""
        pods = await pods_of(self.client)
        return [
            pod.metadata.name
            for pod in pods
            if pod.status.phase not in ("Succeeded", "Failed") and pod.metadata.deletion_timestamp is None
        ]


@asynccontextmanager
async def metered_controller(
    clock: VirtualClock, *, wrap: Any = lambda transport: transport, **options: Any
) -> AsyncIterator[MeteredController]:
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None) as cluster:
        transport: Transport = wrap(cluster.transport)
        async with job_controller(cluster, clock, transport=transport, **options) as manager:
            yield MeteredController(cluster.client, clock, manager)


def held(**spec: Any) -> dict[str, Any]:
    """A Job whose pods have another controller's finalizer."""
    job = manifest(**spec)
    job["spec"]["template"]["metadata"]["finalizers"] = [HOLD]
    return job


@pytest.mark.soak
async def test_counted_pods_add_up_over_many_small_writes(kcr_clock: VirtualClock) -> None:
    # Row 12: limits of 10 for one pass, 54 pods at a time, 56 successes, 2 failures.
    async with metered_controller(kcr_clock, max_uncounted_pods=10, max_pod_create_delete_per_sync=10) as it:
        await create(it.client, manifest(parallelism=54, completions=56))
        await kcr_clock.advance(10)
        names = await it.active()
        for name in names[:52]:
            await it.pods.run(name)
        assert await it.counters() == (54, 52, 0, 0, 0)
        for name in names[:2]:
            await it.pods.fail(name)
        await kcr_clock.advance(60)
        assert await it.counters() == (54, 50, 0, 0, 2)
        for name in (await it.active())[:53]:
            await it.pods.succeed(name)
        await kcr_clock.advance(10)
        active, _, _, succeeded, _ = await it.counters()
        assert (active, succeeded) == (3, 53)
        for _ in range(3):
            await it.pods.succeed()
        job = await finished(it.client)
        assert (job.status.succeeded, job.status.failed) == (56, 2)
        assert it.series("job_pods_finished", "completion_mode", "result") == {
            ("NonIndexed", "succeeded"): 56,
            ("NonIndexed", "failed"): 2,
        }
        assert it.series("jobs_finished", "completion_mode", "result", "reason") == {
            ("NonIndexed", "succeeded", "CompletionsReached"): 1
        }


async def test_finalizers_of_ended_pods_come_and_go(kcr_clock: VirtualClock) -> None:
    # Rows 19 to 23: the last words of a work queue.
    async with metered_controller(kcr_clock) as it:
        await create(it.client, manifest(parallelism=5))
        await kcr_clock.advance(5)
        for _ in range(2):
            await it.pods.fail()
        await kcr_clock.advance(60)
        assert await it.counters() == (5, 0, 0, 0, 2)
        await it.pods.succeed()
        assert await it.counters() == (4, 0, 0, 1, 2)
        for _ in range(2):
            await it.pods.fail()
        assert await it.counters() == (2, 0, 0, 1, 4)
        for _ in range(2):
            await it.pods.succeed()
        job = await finished(it.client)
        await kcr_clock.advance(5)
        assert (job.status.succeeded, job.status.failed) == (3, 4)
        assert it.series("terminated_pods_tracking_finalizer", "event") == {("add",): 7, ("delete",): 7}


IGNORED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
FATAL = {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [42]}}
COUNTED = {"action": "Count", "onExitCodes": {"operator": "In", "values": [10]}}
OTHERS = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [5, 6, 7]}}


async def test_ignored_disruption_is_counted_as_such(kcr_clock: VirtualClock) -> None:
    # Row 98; row 99: no rule matches, and nothing is counted.
    async with metered_controller(kcr_clock) as it:
        await create(it.client, manifest(podFailurePolicy={"rules": [FATAL, IGNORED]}))
        await kcr_clock.advance(2)
        await it.pods.evict((await it.pods.run()).metadata.name)
        await kcr_clock.advance(30)
        assert await it.counters() == (1, 0, 0, 0, 0)
        assert it.series("pod_failures_handled_by_failure_policy", "action") == {("Ignore",): 1}
        await it.pods.fail(exit_code=1)
        assert (await it.counters())[-1] == 1
        assert it.series("pod_failures_handled_by_failure_policy", "action") == {("Ignore",): 1}


async def test_counted_failure_is_counted_as_such(kcr_clock: VirtualClock) -> None:
    # Row 100; then row 97, for the reason of the end.
    async with metered_controller(kcr_clock) as it:
        await create(it.client, manifest(podFailurePolicy={"rules": [COUNTED, OTHERS]}))
        await kcr_clock.advance(2)
        await it.pods.fail(exit_code=10)
        await kcr_clock.advance(30)
        assert await it.counters() == (1, 0, 0, 0, 1)
        assert it.series("pod_failures_handled_by_failure_policy", "action") == {("Count",): 1}
        await it.pods.fail(exit_code=6)
        await finished(it.client)
        handled = it.series("pod_failures_handled_by_failure_policy", "action")
        assert handled == {("Count",): 1, ("FailJob",): 1}
        assert it.series("jobs_finished", "completion_mode", "result", "reason") == {
            ("NonIndexed", "failed", "PodFailurePolicy"): 1
        }


@pytest.mark.parametrize(
    ("policy", "meanwhile", "reason"),
    [
        pytest.param("TerminatingOrFailed", (2, 0, 2, 0, 2), "recreate_terminating_or_failed", id="row-110"),
        pytest.param("Failed", (0, 0, 2, 0, 0), "recreate_failed", id="row-111"),
    ],
)
async def test_replacement_is_counted_by_its_reason(
    policy: str, meanwhile: tuple[int, ...], reason: str, kcr_clock: VirtualClock
) -> None:
    # Rows 110 and 111.
    async with metered_controller(kcr_clock) as it:
        await create(it.client, held(parallelism=2, completions=2, podReplacementPolicy=policy))
        await kcr_clock.advance(2)
        assert it.creations() == {("new", "succeeded"): 2}
        first = await it.active()
        for name in first:
            await it.pods.run(name)
        for name in first:
            await it.client.delete(Pod, Key("default", name))
        await kcr_clock.advance(60)
        assert await it.counters() == meanwhile
        for name in first:
            await it.pods.fail(name)
        await kcr_clock.advance(60)
        assert await it.counters() == (2, 0, 0, 0, 2)
        assert it.creations() == {("new", "succeeded"): 2, (reason, "succeeded"): 2}


@pytest.mark.parametrize("suspend", [False, True])
async def test_job_of_another_controller_is_left_alone_and_counted(suspend: bool, kcr_clock: VirtualClock) -> None:
    # Row 131.
    async with metered_controller(kcr_clock) as it:
        job = await create(it.client, manifest(managedBy="example.com/x", suspend=suspend))
        await create(it.client, manifest("ours", managedBy="kcr.dev/job-controller", suspend=suspend))
        await kcr_clock.advance(10)
        assert (await read(it.client)).status == job.status
        assert await pods_of(it.client) == ()
        assert it.series("jobs_by_external_controller", "controller_name") == {("example.com/x",): 1}


async def test_failed_creations_are_no_successes(kcr_clock: VirtualClock) -> None:
    # §13.3: upstream counts them as both.
    faults: list[FaultyTransport] = []

    def wrap(transport: Transport) -> Transport:
        faults.append(FaultyTransport(transport))
        faults[0].on("create", Pod, nth=1).fail(ForbiddenError)
        return faults[0]

    async with metered_controller(kcr_clock, wrap=wrap) as it:
        await create(it.client, manifest(parallelism=3, completions=3))
        await kcr_clock.advance(10)
        assert await it.counters() == (3, 0, 0, 0, 0)
        assert it.creations() == {("new", "failed"): 1, ("new", "succeeded"): 3}
        syncs = it.series("job_syncs", "result", "action")
        assert syncs[("error", "pods_created")] == 1
        assert syncs[("success", "pods_created")] == 1


@pytest.mark.parametrize("refused", [False, True])
async def test_creation_in_doubt_is_counted_once_it_is_known(refused: bool, kcr_clock: VirtualClock) -> None:
    def wrap(transport: Transport) -> Transport:
        faults = FaultyTransport(transport)
        for nth in range(1, 4):
            rule = faults.on("create", Pod, nth=nth)
            (rule.lose_request if refused else rule.lose_reply)()
        if refused:
            faults.on("create", Pod, nth=4).fail(ForbiddenError)
        return faults

    async with metered_controller(kcr_clock, wrap=wrap) as it:
        await create(it.client, manifest())
        await kcr_clock.advance(30)
        assert await it.counters() == (1, 0, 0, 0, 0)
        assert it.creations() == {("new", "succeeded"): 1} | ({("new", "failed"): 1} if refused else {})


async def test_indexes_are_counted_while_they_are_wanted(kcr_clock: VirtualClock) -> None:
    # §32, with the elasticity of §26: what was counted for an index stays counted.
    async with metered_controller(kcr_clock) as it:
        spec: dict[str, Any] = {
            "completionMode": "Indexed",
            "completions": 3,
            "parallelism": 3,
            "backoffLimitPerIndex": 0,
        }
        await create(it.client, manifest(**spec))
        await kcr_clock.advance(2)
        await it.pods.succeed(index=2)
        await kcr_clock.advance(2)
        await it.client.merge_patch(Job, KEY, {"spec": {"completions": 2, "parallelism": 2}})
        await kcr_clock.advance(2)
        await it.pods.succeed(index=0)
        await it.pods.fail(index=1)
        await finished(it.client)
        assert it.series("job_pods_finished", "completion_mode", "result") == {
            ("Indexed", "succeeded"): 2,
            ("Indexed", "failed"): 1,
        }
        assert it.series("job_finished_indexes", "status", "backoffLimit") == {
            ("succeeded", "perIndex"): 2,
            ("failed", "perIndex"): 1,
        }
        assert it.series("jobs_finished", "completion_mode", "result", "reason") == {
            ("Indexed", "failed", "FailedIndexes"): 1
        }


async def test_pass_put_off_for_a_late_store_is_counted(kcr_clock: VirtualClock) -> None:
    # §8.3.
    async with metered_controller(
        kcr_clock, wrap=lambda transport: late_watches(transport, Random(3), {"jobs": 0.4})
    ) as it:
        await create(it.client, manifest(parallelism=3, completions=3))
        await kcr_clock.advance(2)
        for _ in range(3):
            await it.pods.succeed()
            await kcr_clock.advance(0.01)
        await finished(it.client)
        assert it.series("stale_sync_skips", "group", "resource")["batch", "jobs"] >= 1
