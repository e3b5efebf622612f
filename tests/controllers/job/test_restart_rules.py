"""Jobs whose containers are restarted in place by rules of their own (KEP-5307): a restart is no failure of a pod."""

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.cluster.node.pods import KubeletPod
from tests.kit.harness import conditions, create, events_of, finished, job_controller, manifest, pods_of

pytestmark = pytest.mark.kcr_virtual

# The exit codes of the runs of a pod's container, one after the other; the last holds for all that follow.
CODES = "example.dev/codes"


def outcome(pod: KubeletPod, name: str, attempt: int) -> RunResult:
    codes = pod.metadata.annotations[CODES].split(",")
    return RunResult(exit_code=int(codes[min(attempt, len(codes) - 1)]), run_for=5)


@pytest_asyncio.fixture
async def cluster(kcr_clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=outcome) as running:
        yield running


def restarting(codes: str, **spec: Any) -> dict[str, Any]:
    """A Job whose container is restarted in place when it exits with 42, and otherwise never."""
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    container = {"name": "c", "image": "busybox", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    return manifest(containers=[container], annotations={CODES: codes}, **spec)


async def restarts(cluster: EmbeddedCluster) -> list[int]:
    return [pod.status.container_statuses[0].restart_count for pod in await pods_of(cluster.client)]


async def test_restarts_by_a_rule_are_no_failures(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with job_controller(cluster, kcr_clock):
        await create(cluster.client, restarting("42,42,42,0", backoffLimit=0))
        job = await finished(cluster.client)
    assert (job.status.succeeded, job.status.failed, await restarts(cluster)) == (1, 0, [3])


async def test_failure_policy_sees_the_last_exit_only(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3, 42]}}]
    async with job_controller(cluster, kcr_clock):
        await create(cluster.client, restarting("42,42,3", podFailurePolicy={"rules": rules}))
        await kcr_clock.advance(22)
        assert "FailureTarget" not in str(await events_of(cluster.client))
        job = await finished(cluster.client)
    assert conditions(job)[-1] == ("Failed", "PodFailurePolicy")
    failed = next(found for found in job.status.conditions if found.type == "Failed")
    assert "failed with exit code 3 matching FailJob rule at index 0" in failed.message
    assert (job.status.failed, await restarts(cluster)) == (1, [2])


async def test_failed_pods_are_replaced_and_restarts_are_not_added(
    cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    async with job_controller(cluster, kcr_clock):
        await create(cluster.client, restarting("42,42,1", backoffLimit=1))
        job = await finished(cluster.client)
    assert conditions(job)[-1] == ("Failed", "BackoffLimitExceeded")
    assert (job.status.failed, await restarts(cluster)) == (2, [2, 2])


async def test_restarts_by_a_rule_count_under_on_failure(cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    """Source: kubernetes/pkg/controller/job/job_controller.go, pastBackoffLimitOnFailure."""
    async with job_controller(cluster, kcr_clock):
        await create(cluster.client, restarting("42", backoffLimit=2, restartPolicy="OnFailure"))
        job = await finished(cluster.client)
    assert conditions(job)[-1] == ("Failed", "BackoffLimitExceeded")
    assert (job.status.failed, await restarts(cluster)) == (1, [])
