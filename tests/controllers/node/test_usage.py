"""What real processes use, as `kubectl top` asks for it."""

import sys
from typing import Any

import msgspec
import pytest

from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.node_pods import create, get

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux shows what processes use"),
]

METRICS = "/apis/metrics.k8s.io/v1beta1"


async def read(cluster: EmbeddedCluster, target: str) -> Any:
    return msgspec.json.decode(await cluster.client.request("GET", f"{METRICS}/{target}"))


async def test_busy_container_uses_more_than_an_idle_one() -> None:
    loop = {"name": "busy", "image": "busybox", "command": ["sh", "-c", "(while :; do :; done) & wait"]}
    idle = {"name": "idle", "image": "busybox", "command": ["sleep", "60"]}
    async with EmbeddedCluster(runtime="process") as cluster:
        await create(cluster.client, "a", containers=[loop, idle])

        async def runs() -> bool:
            return (await get(cluster.client, "a")).status.phase == "Running"

        await eventually(runs)
        pod = await read(cluster, "namespaces/default/pods/a")
        used = {one["name"]: int(one["usage"]["cpu"].rstrip("n")) for one in pod["containers"]}
        assert used["busy"] > 50_000_000 > used["idle"]
        assert all(one["usage"]["memory"].endswith("Ki") for one in pod["containers"])
        node = await read(cluster, "nodes/kcr-node-0")
        assert int(node["usage"]["cpu"].rstrip("n")) > 50_000_000


async def test_simulated_containers_have_no_metrics() -> None:
    async with EmbeddedCluster() as cluster:
        groups = msgspec.json.decode(await cluster.client.request("GET", "/apis"))["groups"]
        assert "metrics.k8s.io" not in {group["name"] for group in groups}
