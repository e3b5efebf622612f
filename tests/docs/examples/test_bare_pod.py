"""`bare-pod.yaml`: a pod of its own beside a Job's, on a node that is lost (seed 001)."""

from random import Random

import pytest

from kcr.api.core import Pod
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.dev.apply import apply
from kcr_devcluster.manifests import read_documents
from tests.kit.harness import finished, job_controller, pods_of
from tests.kit.observers import observing_pods

pytestmark = pytest.mark.kcr_virtual


async def test_lost_node_takes_the_bare_pod_for_good(kcr_clock: VirtualClock) -> None:
    # Examples row 27; job-controller row 150.
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: RunResult(run_for=60)) as cluster,
        observing_pods(cluster) as seen,
        job_controller(cluster, kcr_clock),
    ):
        await apply(cluster.client, read_documents("examples/bare-pod.yaml"))
        await kcr_clock.advance(30)
        lost = await cluster.client.list(Pod, "default")
        assert cluster.node is not None
        await cluster.node.delete()
        job = await finished(cluster.client, "safe")
        (made,) = await pods_of(cluster.client, "safe")
        left = await cluster.client.list(Pod, "default")
    assert (job.status.succeeded, job.status.failed) == (1, 1)
    assert {pod.status.phase for pod in lost} == {"Running"}
    assert left == (made,)
    assert seen.phases == {pod.metadata.uid: "Failed" for pod in lost} | {made.metadata.uid: "Succeeded"}
