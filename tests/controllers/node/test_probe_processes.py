"""Probes and hooks of real processes."""

import shutil

import pytest

from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node.pods import KubeletPod
from tests.kit.http_servers import free_port
from tests.kit.node_pods import create, delete, events, get, log, names

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(shutil.which("bash") is None, reason="these tests run bash"),
]


async def ready(cluster: EmbeddedCluster, name: str) -> KubeletPod:
    async def is_ready() -> KubeletPod | None:
        pod = await get(cluster.client, name)
        statuses = pod.status.container_statuses
        return pod if statuses and statuses[0].ready else None

    pod = await eventually(is_ready)
    assert pod is not None
    return pod


async def test_server_is_ready_when_it_answers() -> None:
    port = free_port()
    server = {
        "name": "web", "image": "python:3",
        # As on a cluster, a probe does not reach a program that listens at 127.0.0.1 alone.
        "command": ["python3", "-m", "http.server", str(port), "--bind", "$(IP)"],
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"name": "http", "containerPort": port}],
        "startupProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 1, "failureThreshold": 30},
        "readinessProbe": {"httpGet": {"port": "http", "path": "/ready"}, "periodSeconds": 1},
        "lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "sleep 0.2; echo yes > ready"]}}},
    }  # fmt: skip
    async with EmbeddedCluster(runtime="process") as cluster:
        await create(cluster.client, "a", containers=[server])
        await ready(cluster, "a")
        assert '"GET /ready HTTP/1.1" 200' in await log(cluster.client, "a")


async def test_failing_command_restarts_the_container() -> None:
    script = "trap 'echo bye; exit 0' TERM; [ -e second ] || echo fresh > alive; while :; do sleep 0.05; done"
    container = {
        "name": "main", "image": "bash:5", "command": ["bash", "-c", script],
        "env": [{"name": "FILE", "value": "alive"}],
        "livenessProbe": {
            "exec": {"command": ["sh", "-c", 'cat "$FILE" && mv alive second']}, "periodSeconds": 1,
            "failureThreshold": 1, "timeoutSeconds": 10,
        },
        "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", "sleep 0.2; echo fresh > alive"]}}},
    }  # fmt: skip
    async with EmbeddedCluster(runtime="process") as cluster:
        await create(cluster.client, "a", policy="OnFailure", containers=[container])

        async def restarted() -> bool:
            statuses = (await get(cluster.client, "a")).status.container_statuses
            return bool(statuses) and statuses[0].restart_count == 1 and statuses[0].ready

        await eventually(restarted)
        assert (await log(cluster.client, "a", "?previous=true")).endswith("bye\n")
        shown = [
            message for reason, _, message in await events(cluster.client, "a") if reason in ("Unhealthy", "Killing")
        ]
        assert shown == [
            "Liveness probe failed: cat: alive: No such file or directory\n",
            "Container main failed liveness probe, will be restarted",
        ]
        await delete(cluster.client, "a", 5)

        async def is_gone() -> bool:
            return await names(cluster.client) == set()

        await eventually(is_gone)


@pytest.mark.soak
async def test_command_that_takes_too_long_fails_the_probe() -> None:
    probe = {"exec": {"command": ["sleep", "30"]}, "timeoutSeconds": 1, "periodSeconds": 1}
    container = {"name": "main", "image": "bash:5", "command": ["sleep", "60"], "readinessProbe": probe}
    async with EmbeddedCluster(runtime="process") as cluster:
        await create(cluster.client, "a", grace=1, containers=[container])

        async def said() -> list[str]:
            found = await events(cluster.client, "a")
            return [message for reason, _, message in found if reason == "Unhealthy"]

        message = 'Readiness probe failed: command timed out: "sleep 30" timed out after 1s'
        assert await eventually(said) == [message]
