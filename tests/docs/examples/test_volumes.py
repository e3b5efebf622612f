"""`volumes.yaml` and `patterns/controller-pod/`: pods that need volumes, and one that makes Jobs of its own."""

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key, controller_of
from kcr.clock import SystemClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.dev.apply import apply
from kcr_devcluster.manifests import Document, read_documents
from tests.kit.harness import conditions, finished, job_controller, pods_of

pytestmark = [pytest.mark.asyncio, pytest.mark.timeout(60)]

CONTROLLER = "examples/patterns/controller-pod/job.yaml"
RIGHTS = "examples/patterns/controller-pod/rights.yaml"
COMPLETE = ("Complete", "CompletionsReached")


def documents(path: str, *kinds: str) -> tuple[Document, ...]:
    return tuple(document for document in read_documents(path) if document.manifest["kind"] in kinds)


async def log_of_job(cluster: EmbeddedCluster, name: str) -> str:
    (pod,) = await pods_of(cluster.client, name)
    path = Pod.resource.path("default", pod.metadata.name, "log")
    return (await cluster.client.request("GET", f"{path}?container=main")).decode()


async def test_greeting_is_made_of_three_volumes() -> None:
    async with EmbeddedCluster(runtime="process") as cluster, job_controller(cluster, SystemClock()):
        await apply(cluster.client, read_documents("examples/volumes.yaml"))
        job = await finished(cluster.client, "volumes", seconds=50)
        assert await log_of_job(cluster, "volumes") == "Hello, world!\n"
    assert conditions(job)[-1] == COMPLETE


async def test_pod_makes_jobs_with_the_token_of_its_account() -> None:
    async with EmbeddedCluster(runtime="process") as cluster, job_controller(cluster, SystemClock()):
        await cluster.serve()
        await apply(cluster.client, documents(RIGHTS, "ServiceAccount"))
        await apply(cluster.client, read_documents(CONTROLLER))
        job = await finished(cluster.client, "controller", seconds=50)
        assert conditions(job)[-1] == COMPLETE
        lines = (await log_of_job(cluster, "controller")).splitlines()
        made = [await cluster.client.get(Job, Key("default", f"item-{item}")) for item in ("apple", "banana", "cherry")]
    assert sorted(lines) == ["item-apple Complete", "item-banana Complete", "item-cherry Complete"]
    owners = {reference.uid for one in made for reference in one.metadata.owner_references}
    assert owners == {job.metadata.uid}
    assert all(controller_of(one.metadata) is None for one in made)
