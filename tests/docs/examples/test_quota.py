"""`quota.yaml`: a Job that its namespace has not room for (seeds 000 and 001)."""

from random import Random

import pytest

from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.dev.apply import apply
from kcr_devcluster.manifests import read_documents
from tests.kit.harness import events_of, finished, job_controller, read
from tests.kit.observers import observing_pods

pytestmark = pytest.mark.kcr_virtual

EXCEEDED = "exceeded quota: two-pods, requested: pods=1, used: pods=2, limited: pods=2"


async def test_job_of_five_completes_under_quota_of_two(kcr_clock: VirtualClock) -> None:
    # Examples row 20; job-controller row 134; api-server 16.6.
    async with (
        EmbeddedCluster(clock=kcr_clock, random=Random(0), on_run=lambda *_: RunResult(run_for=5)) as cluster,
        observing_pods(cluster) as seen,
        job_controller(cluster, kcr_clock),
    ):
        await apply(cluster.client, read_documents("examples/quota.yaml"))
        await kcr_clock.advance(3)
        assert (await read(cluster.client, "under-quota")).status.active == 2
        refused = [message for reason, message in await events_of(cluster.client, "under-quota") if EXCEEDED in message]
        job = await finished(cluster.client, "under-quota")
    assert refused
    assert (job.status.succeeded, job.status.failed) == (5, 0)
    assert (seen.most_active, len(seen.phases)) == (2, 5)
