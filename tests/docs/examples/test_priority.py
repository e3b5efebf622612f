"""`priority.yaml`: a Job whose pod makes room for that of a more important one, and is no worse for it."""

from random import Random

import pytest

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.dev.apply import apply
from kcr_devcluster.manifests import read_documents
from tests.kit.harness import finished, job_controller, pods_of
from tests.kit.node_pods import events

pytestmark = pytest.mark.kcr_virtual


async def test_urgent_job_goes_first_and_the_patient_one_completes(kcr_clock: VirtualClock) -> None:
    def outcome(*_: object) -> RunResult:
        return RunResult(run_for=20)

    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=outcome) as cluster,
        job_controller(cluster, kcr_clock),
    ):
        await apply(cluster.client, read_documents("examples/priority.yaml"))
        await kcr_clock.advance(5)
        (first,) = await pods_of(cluster.client, "patient")
        await cluster.client.merge_patch(Job, Key("default", "urgent"), {"spec": {"suspend": False}})
        await kcr_clock.advance(5)
        (urgent,) = await pods_of(cluster.client, "urgent")
        assert urgent.status.phase == "Running"
        assert "Preempted" in {reason for reason, _, _ in await events(cluster.client, first.metadata.name)}
        for name in ("urgent", "patient"):
            job = await finished(cluster.client, name)
            assert (job.status.succeeded, job.status.failed) == (1, 0)
