"""Tokens of service accounts in pods: the kubeconfig that a container gets, and how files stay valid."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kcr.api.core import ConfigMap
from kcr.api.meta import Key
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node.runtime import NodeInfo
from kcr_devcluster.cluster.node.volumes.volume_manager import VolumeManager
from tests.kit.node_pods import create, get, log

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
MOUNT = {"name": "account", "mountPath": ACCOUNT}


def token_volume(seconds: int = 3600) -> dict[str, Any]:
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": seconds}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    return {"name": "account", "projected": {"sources": sources}}


async def make_account(cluster: EmbeddedCluster) -> None:
    account = b'{"metadata": {"name": "builder"}}'
    await cluster.client.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)


@pytest_asyncio.fixture
async def served() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(runtime="process") as cluster:
        await cluster.serve()
        await make_account(cluster)
        yield cluster


async def said(cluster: EmbeddedCluster, script: str, **spec: Any) -> str:
    """What a container of the account prints before it ends."""
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", script], **spec}
    volumes = [token_volume()] if "volumeMounts" in spec else []
    await create(cluster.client, "a", containers=[container], volumes=volumes, serviceAccountName="builder")

    async def has_ended() -> bool:
        return (await get(cluster.client, "a")).status.phase == "Succeeded"

    await eventually(has_ended)
    return await log(cluster.client, "a")


@pytest.mark.asyncio
async def test_kubeconfig_has_the_token_that_is_mounted(served: EmbeddedCluster) -> None:
    script = 'cat $KUBECONFIG; echo; sed -n \'s/.*"tokenFile": "\\([^"]*\\)".*/\\1/p\' $KUBECONFIG | xargs cat'
    config, _, token = (await said(served, script, volumeMounts=[MOUNT])).partition("\n")
    user = served.server.authenticate(token)
    assert user is not None and user.username == "system:serviceaccount:default:builder"
    assert user.extra["authentication.kubernetes.io/pod-name"] == ("a",)
    given = json.loads(config)
    assert given["contexts"][0]["context"]["namespace"] == "default"
    assert served.node is not None
    assert given["clusters"][0]["cluster"]["server"] == served.node.info.api_url


@pytest.mark.asyncio
async def test_authority_is_there_before_it_is_published(served: EmbeddedCluster) -> None:
    text = await said(served, f"cat {ACCOUNT}/ca.crt || cat $KCR_MOUNT_ACCOUNT/ca.crt", volumeMounts=[MOUNT])
    assert "BEGIN CERTIFICATE" in text


@pytest.mark.asyncio
@pytest.mark.parametrize(("accounts_only", "expected"), [(False, "one"), (True, "none")])
async def test_container_without_a_token_has_the_nodes_kubeconfig(
    served: EmbeddedCluster, accounts_only: bool, expected: str
) -> None:
    assert served.node is not None
    served.node.info.accounts_only = accounts_only
    assert await said(served, 'test -n "$KUBECONFIG" && echo one || echo none') == f"{expected}\n"


@pytest.mark.kcr_virtual
async def test_token_is_renewed_before_it_expires(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, tmp_path: Path
) -> None:
    # Source: kubernetes/pkg/kubelet/token/token_manager.go, requiresRefresh: at 80% of its time.
    await make_account(kcr_cluster)
    container = {"name": "main", "image": "i", "volumeMounts": [MOUNT]}
    volumes = [token_volume(600)]
    pod = await create(kcr_cluster.client, "a", serviceAccountName="builder", containers=[container], volumes=volumes)
    async with asyncio.TaskGroup() as group:
        manager = VolumeManager(kcr_cluster.client, NodeInfo("node"), tmp_path, group, lambda *_: None)
        assert await manager.retries.mount(pod) is None
        file = manager.volumes_of(pod.metadata.uid)["account"].path / "token"
        first = file.read_text()
        await kcr_clock.advance(479)
        assert file.read_text() == first
        await kcr_clock.advance(2)
        second = file.read_text()
        await kcr_clock.advance(200)
        assert kcr_cluster.server.authenticate(first) is None
        assert kcr_cluster.server.authenticate(second) is not None
        manager.close()


@pytest.mark.kcr_virtual
async def test_nothing_is_watched_for_volumes_that_show_nothing(kcr_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    await kcr_cluster.client.create_manifest(ConfigMap, {"metadata": {"name": "c"}, "data": {"k": "1"}}, "default")
    mounts = [{"name": "v", "mountPath": "/v"}]
    async with asyncio.TaskGroup() as group:
        manager = VolumeManager(kcr_cluster.client, NodeInfo("node"), tmp_path, group, lambda *_: None)
        for name, volume in (("a", {"emptyDir": {}}), ("b", {"configMap": {"name": "c"}})):
            container = {"name": "main", "image": "i", "volumeMounts": mounts}
            pod = await create(kcr_cluster.client, name, containers=[container], volumes=[{"name": "v", **volume}])
            before = len(asyncio.all_tasks())
            await manager.retries.mount(pod)
            assert (len(asyncio.all_tasks()) > before) == (name == "b")
        await kcr_cluster.client.delete(ConfigMap, Key("default", "c"))
        manager.close()
