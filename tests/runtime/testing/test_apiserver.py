from pathlib import Path
from urllib.parse import urlsplit

import pytest

import kcr
from kcr.api.core import ConfigMap, Namespace
from kcr.client import ClusterConfig, Credential, FixedCredentials, PemSource
from kcr.testing import requests
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.controlplane import ApiServer, api_server, real_server


@pytest.mark.asyncio
async def test_real_server_is_shared_and_each_test_has_its_namespace() -> None:  # TK-10, TK-11
    async with EmbeddedCluster(runtime=None) as cluster:
        address = await cluster.serve()
        credentials = FixedCredentials(Credential.bearer(address.token))
        real = ClusterConfig(server=address.url, credentials=credentials, ca=PemSource(text=address.ca_pem, field="ca"))
        async with api_server(real) as first, api_server(real) as second:
            assert first.is_real
            there = {namespace.metadata.name for namespace in await second.client.list(Namespace)}
            assert first.namespace != second.namespace
            assert {first.namespace, second.namespace} <= there


@pytest.mark.asyncio
@pytest.mark.kcr_integration
async def test_requests_of_a_manager_are_seen_and_counted_over_tls(kcr_apiserver: ApiServer) -> None:
    manager = kcr.Manager(kcr_apiserver.client, namespace=kcr_apiserver.namespace)
    manager.informer(ConfigMap)
    with requests(manager) as seen:
        async with manager.running():
            await kcr_apiserver.client.list(Namespace)
    assert {one.resource for one in seen.all} == {"configmaps"}
    labels = {"code": "200", "method": "GET", "host": urlsplit(kcr_apiserver.transport.server).netloc}
    total = manager.metrics.registry.get_sample_value("rest_client_requests_total", labels)
    assert total == seen.count() >= 1


@pytest.mark.asyncio
async def test_without_a_real_server_each_test_has_an_embedded_one(kcr_apiserver: ApiServer) -> None:  # TK-11
    async with api_server(None) as other:
        assert not other.is_real
        assert other.transport is not kcr_apiserver.transport


def test_folder_that_has_no_programs_is_no_reason_to_test_less(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:  # TK-11
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="no etcd and no kube-apiserver"), real_server():
        pass


def test_nothing_is_started_where_nothing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:  # TK-11
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with real_server() as config:
        assert config is None
