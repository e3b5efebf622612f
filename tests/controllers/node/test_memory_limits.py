"""Memory limits of real processes."""

import sys

import pytest

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.clock import SystemClock
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.harness import conditions, finished, job_controller, pods_of
from tests.kit.harness import create as create_object
from tests.kit.node_pods import create, get, state

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux shows what processes use"),
]

HOG = "import time; held = [b'x' * 1_000_000 for _ in range(100)]; time.sleep(60)"


def hog(limit: str, **more: object) -> dict[str, object]:
    """A container one of whose processes takes 100 MB."""
    command = ["sh", "-c", f'setsid {sys.executable} -c "{HOG}" & wait']
    return {"name": "main", "image": "python:3", "command": command, "resources": {"limits": {"memory": limit}}, **more}


async def end_of(cluster: EmbeddedCluster, name: str) -> str:
    async def ended() -> str:
        pod = await get(cluster.client, name)
        return state(pod) if pod.status.phase == "Failed" else ""

    return await eventually(ended)


async def test_container_over_its_limit_is_killed() -> None:
    async with EmbeddedCluster(runtime="process") as cluster:
        await create(cluster.client, "a", containers=[hog("50Mi")])
        await create(cluster.client, "b", containers=[hog("500Mi")])
        assert await end_of(cluster, "a") == "OOMKilled 137"
        assert state(await get(cluster.client, "b")) == "running"


async def test_pod_over_its_limit_loses_its_largest_container() -> None:
    small = {"name": "small", "image": "busybox", "command": ["sleep", "60"]}
    async with EmbeddedCluster(runtime="process") as cluster:
        main = hog("500Mi") | {"resources": {}}
        await create(cluster.client, "a", containers=[main, small], resources={"limits": {"memory": "50Mi"}})

        async def killed() -> bool:
            pod = await get(cluster.client, "a")
            return bool(pod.status.container_statuses) and state(pod) == "OOMKilled 137"

        await eventually(killed)
        assert state(await get(cluster.client, "a"), 1) == "running"


async def test_job_sees_the_exit_code_of_a_killed_container() -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [137]}}
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "hungry", "namespace": "default"},
        "spec": {
            "podFailurePolicy": {"rules": [rule]},
            "template": {"spec": {"restartPolicy": "Never", "containers": [hog("50Mi")]}},
        },
    }  # fmt: skip
    async with EmbeddedCluster(runtime="process") as cluster, job_controller(cluster, SystemClock()):
        await create_object(cluster.client, job)
        done = await finished(cluster.client, "hungry", seconds=20)
        assert conditions(done)[-1] == ("Failed", "PodFailurePolicy")
        assert (await cluster.client.get(Job, Key("default", "hungry"))).status.failed == 1
        assert len(await pods_of(cluster.client, "hungry")) == 1
