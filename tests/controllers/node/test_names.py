"""Names and addresses of pods that run as processes, on the machine's own time.

Where there are no mount namespaces the names are the machine's, and a warning says so; these tests then end with it.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kcr.api.core import Service
from kcr.api.meta import Key
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.names.cluster_names import ClusterNames
from kcr_devcluster.cluster.node.pods import KubeletPod
from kcr_devcluster.cluster.node.process.container_mounts import NamespaceSupport, detect_namespaces
from kcr_devcluster.cluster.node.process_pods.pod_volumes import PodVolumes
from kcr_devcluster.cluster.node.runtime import NodeInfo
from tests.kit.node_pods import create, delete, get, log

pytestmark = pytest.mark.asyncio

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
# A server at the pod's own address, which its hosts file has.
SERVER = 'import http.server, os; http.server.HTTPServer((os.environ["IP"], 8123), http.server.BaseHTTPRequestHandler)'
IP = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


@pytest_asyncio.fixture
async def processes() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(runtime="process") as cluster:
        yield cluster


@pytest_asyncio.fixture
async def named(processes: EmbeddedCluster, tmp_path: Path) -> EmbeddedCluster:
    support = await detect_namespaces(tmp_path)
    if not support.kind:
        pytest.skip(support.reason)
    return processes


def shell(script: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "image": "busybox", "command": ["sh", "-c", script], "env": [IP], **more}]


async def headless(cluster: EmbeddedCluster, name: str = "peers", **spec: Any) -> None:
    given = {"clusterIP": "None", "selector": {"app": name}, **spec}
    await cluster.client.create_manifest(Service, {"metadata": {"name": name}, "spec": given}, "default")


async def label(cluster: EmbeddedCluster, pod: str, **labels: str | None) -> None:
    await cluster.client.merge_patch(KubeletPod, Key("default", pod), {"metadata": {"labels": labels}})


async def running(cluster: EmbeddedCluster, name: str) -> KubeletPod:
    async def runs() -> bool:
        return (await get(cluster.client, name)).status.phase == "Running"

    await eventually(runs)
    return await get(cluster.client, name)


async def output(cluster: EmbeddedCluster, name: str) -> str:
    async def has_ended() -> bool:
        pod = await get(cluster.client, name)
        assert pod.status.phase != "Failed"
        return pod.status.phase == "Succeeded"

    await eventually(has_ended)
    return await log(cluster.client, name)


@on_linux
async def test_each_pod_has_a_loopback_address_of_its_own(processes: EmbeddedCluster) -> None:
    # Both have the same port.
    serve = ["python3", "-c", f"{SERVER}.serve_forever()"]
    ports = [{"containerPort": 8123}]
    probe = {"tcpSocket": {"port": 8123}, "periodSeconds": 1}
    container = {**shell("")[0], "command": serve, "ports": ports, "readinessProbe": probe}
    for name in "ab":
        await create(processes.client, name, containers=[container])

    async def are_ready() -> bool:
        pods = [await get(processes.client, name) for name in "ab"]
        return all(one.ready for pod in pods for one in pod.status.container_statuses) and all(
            pod.status.container_statuses for pod in pods
        )

    await eventually(are_ready)
    addresses = {(await get(processes.client, name)).status.pod_ip for name in "ab"}
    assert len(addresses) == 2
    assert all(address.startswith("127.") and not address.startswith("127.0.") for address in addresses)


async def test_pod_in_the_hosts_network_has_the_nodes_address(processes: EmbeddedCluster) -> None:
    await create(processes.client, "a", containers=shell("echo $IP"), hostNetwork=True)
    assert await output(processes, "a") == "127.0.0.1\n"
    pod = await get(processes.client, "a")
    assert (pod.status.pod_ip, pod.status.host_ip) == ("127.0.0.1", "127.0.0.1")


async def test_running_pod_learns_names_and_forgets_them(named: EmbeddedCluster) -> None:
    await headless(named)
    waiting = (
        "until getent hosts peers.default.svc.cluster.local >/dev/null && getent hosts b.peers; do sleep 0.05; done; "
        "while getent hosts b.peers >/dev/null; do sleep 0.05; done"
    )
    await create(named.client, "a", containers=shell(waiting))
    await running(named, "a")
    await create(named.client, "b", containers=shell("exec sleep 60"), hostname="b", subdomain="peers")
    await label(named, "b", app="peers")
    address = (await running(named, "b")).status.pod_ip

    async def knows() -> bool:
        return address in await log(named.client, "a")

    await eventually(knows)
    await delete(named.client, "b", 0)
    assert address in await output(named, "a")


async def test_pod_knows_its_own_names_without_services(named: EmbeddedCluster) -> None:
    script = 'getent hosts "$HOSTNAME" me.peers.default.svc.cluster.local db'
    aliases = [{"ip": "192.0.2.1", "hostnames": ["db", "database"]}]
    pod = await create(
        named.client, "a", containers=shell(script), hostname="me", subdomain="peers", hostAliases=aliases
    )
    lines = (await output(named, "a")).splitlines()
    address = (await get(named.client, pod.metadata.name)).status.pod_ip
    assert [line.split()[0] for line in lines] == [address, address, "192.0.2.1"]


async def test_name_of_a_service_with_an_address_leads_to_its_pods(named: EmbeddedCluster) -> None:
    await headless(named, "web", clusterIP=None, ports=[{"port": 80}])
    await create(named.client, "b", containers=shell("exec sleep 60"))
    await label(named, "b", app="web")
    address = (await running(named, "b")).status.pod_ip
    await create(named.client, "a", containers=shell("until getent hosts web.default; do sleep 0.05; done"))
    assert (await output(named, "a")).split()[0] == address


async def test_containers_without_namespaces_are_warned_about_once(tmp_path: Path) -> None:
    names = ClusterNames()
    async with EmbeddedCluster(runtime=None) as cluster, asyncio.TaskGroup() as group:
        warnings: list[tuple[str, str]] = []
        volumes = PodVolumes(
            cluster.client, NodeInfo("node", names=names), tmp_path, group,
            lambda _, reason, message: warnings.append((reason, message)), NamespaceSupport("", "for a test"),
        )  # fmt: skip
        for pod in (
            await create(cluster.client, "plain"),
            await create(cluster.client, "member", hostname="a", subdomain="peers"),
        ):
            (tmp_path / pod.metadata.uid).mkdir()
            for _ in range(2):
                assert await volumes.name_mounts(pod) == ()
        volumes.close()
    ((reason, message),) = warnings
    assert reason == "NamesUnknown"
    assert message.startswith("no mount namespaces here (for a test): the container has the machine's /etc/hosts")
