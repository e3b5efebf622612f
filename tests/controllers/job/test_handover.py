"""Jobs that kube-controller-manager began, as it leaves them when it is switched off, and back."""

from random import Random
from typing import Any

import msgspec
import pytest

from kcr.api import codec
from kcr.api.batch import Job
from kcr.controllers.job.decisions.pods import TRACKING_FINALIZER
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import conditions, create, finished, job_controller, manifest, nothing_left_behind, pods_of, read

pytestmark = pytest.mark.kcr_virtual
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"


def pod_of(job: Job, name: str, *, tracked: bool) -> dict[str, Any]:
    """A pod as kube-controller-manager makes it."""
    uid = job.metadata.uid
    labels = {
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": job.metadata.name,
        "controller-uid": uid, "job-name": job.metadata.name,
    }  # fmt: skip
    owner = {
        "apiVersion": "batch/v1", "kind": "Job", "name": job.metadata.name, "uid": uid, "controller": True,
        "blockOwnerDeletion": True,
    }  # fmt: skip
    metadata: dict[str, Any] = {"name": name, "generateName": "pi-", "labels": labels, "ownerReferences": [owner]}
    if tracked:
        metadata["finalizers"] = [TRACKING_FINALIZER]
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


async def run_pod(cluster: EmbeddedCluster, pod: dict[str, Any], phase: str) -> str:
    """Create a pod in a phase, and return its uid."""
    await cluster.client.request("POST", PODS, codec.encode(pod))
    path = f"{PODS}/{pod['metadata']['name']}/status"
    body = await cluster.client.request("PATCH", path, codec.encode({"status": {"phase": phase}}), content_type=MERGE)
    return str(msgspec.json.decode(body)["metadata"]["uid"])


async def report(cluster: EmbeddedCluster, **status: Any) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs/pi/status"
    await cluster.client.request("PATCH", path, codec.encode({"status": status}), content_type=MERGE)


async def test_job_that_another_controller_began_is_completed(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster:
        job = await create(cluster.client, manifest(completions=3, parallelism=2))
        # Counted; on record and not yet counted; and one that ended when no controller ran.
        await run_pod(cluster, pod_of(job, "pi-x7k2p", tracked=False), "Succeeded")
        uncounted = await run_pod(cluster, pod_of(job, "pi-m4n8q", tracked=True), "Succeeded")
        await run_pod(cluster, pod_of(job, "pi-z9t5c", tracked=True), "Succeeded")
        await report(
            cluster, startTime="2025-12-31T23:59:00Z", active=1, ready=1, terminating=0, succeeded=1,
            uncountedTerminatedPods={"succeeded": [uncounted]},
        )  # fmt: skip
        async with job_controller(cluster, kcr_clock):
            ended = await finished(cluster.client)
        pods = await pods_of(cluster.client)
    assert (ended.status.succeeded, ended.status.failed) == (3, 0)
    assert conditions(ended)[-1] == ("Complete", "CompletionsReached")
    assert len(pods) == 3
    assert nothing_left_behind(pods)


async def test_pods_of_another_controller_run_on(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster:
        job = await create(cluster.client, manifest(completions=2, parallelism=2))
        for name in ("pi-x7k2p", "pi-m4n8q"):
            await run_pod(cluster, pod_of(job, name, tracked=True), "Running")
        await report(cluster, startTime="2025-12-31T23:59:00Z", active=2, ready=0, terminating=0)
        async with job_controller(cluster, kcr_clock):
            await kcr_clock.advance(60)
            pods = await pods_of(cluster.client)
            assert {pod.metadata.name for pod in pods} == {"pi-x7k2p", "pi-m4n8q"}
            assert (await read(cluster.client)).status.active == 2


async def test_job_that_is_given_back_is_left_alone(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None) as cluster:
        await create(cluster.client, manifest(parallelism=2, completions=2))
        async with job_controller(cluster, kcr_clock):
            await kcr_clock.advance(5)
        before = await read(cluster.client)
        async with job_controller(cluster, kcr_clock, take_over=False):
            await kcr_clock.advance(60)
        assert (await read(cluster.client)).metadata.resource_version == before.metadata.resource_version
        pods = await pods_of(cluster.client)
    # What it needs to go on: each pod is tracked, and owned by the Job.
    assert [pod.metadata.finalizers for pod in pods] == [(TRACKING_FINALIZER,)] * 2
    assert before.status.active == 2
