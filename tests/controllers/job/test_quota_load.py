"""Many Jobs that wait for the quota of their namespace: what they ask of the server, and another namespace's Job."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kcr.api.batch import Job
from kcr.api.core import Event, Pod
from kcr.dependents.create import TRIES_PER_SECOND
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.busy_server import BusyServer
from tests.kit.harness import job_controller, manifest

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.timeout(60)]

JOBS, MINUTES = 150, 1
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
LONG = {"sim.kcr.dev/run-for": "2h"}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full"}}


async def post(cluster: EmbeddedCluster, path: str, obj: Mapping[str, Any]) -> None:
    await cluster.client.request("POST", path, msgspec.json.encode(obj))


def in_full(job: dict[str, Any]) -> dict[str, Any]:
    return {**job, "metadata": {**job["metadata"], "namespace": "full"}}


async def test_jobs_that_wait_for_a_quota_share_a_rate_of_tries(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    server = BusyServer(kcr_cluster.transport, seconds=lambda _: 0.005)
    await post(kcr_cluster, "/api/v1/namespaces", NAMESPACE)
    await post(kcr_cluster, "/api/v1/namespaces/full/resourcequotas", QUOTA)
    async with job_controller(kcr_cluster, kcr_clock, transport=server):
        for number in range(JOBS):
            await kcr_cluster.client.create_manifest(Job, in_full(manifest(f"job-{number}", annotations=LONG)), "full")
        await kcr_clock.advance(120)
        before = len(server.targets)
        await kcr_clock.advance(60 * MINUTES)
        # A create, and the patch of the event about its refusal; once a minute each, it would be two per Job.
        assert len(server.targets) - before <= 2 * TRIES_PER_SECOND * 60 * MINUTES < 2 * JOBS * MINUTES
        # A Job of another namespace has its pod within a second.
        await kcr_cluster.client.create_manifest(Job, manifest("other"), "default")
        await kcr_clock.advance(1)
        assert len(await kcr_cluster.client.list(Pod, "default")) == 1
        # Each of them says why it waits.
        events = await kcr_cluster.client.list(Event, "full", fields="reason=FailedCreate")
        assert len({event.involved_object.name for event in events}) == JOBS - 1
        # Once there is room, all of them have their pods within the longest backoff.
        await kcr_cluster.client.request("DELETE", "/api/v1/namespaces/full/resourcequotas/q")
        await kcr_clock.advance(61)
        assert len(await kcr_cluster.client.list(Pod, "full")) == JOBS
