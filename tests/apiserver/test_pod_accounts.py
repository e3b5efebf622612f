"""Pods get what their service account has for them.

Source: kubernetes/plugin/pkg/admission/serviceaccount/admission_test.go; api-server §23.
"""

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import eventually
from tests.kit.api import Api, exists, pod

pytestmark = pytest.mark.kcr_virtual

NAMESPACE = "/api/v1/namespaces/default"
ACCOUNTS, PODS = f"{NAMESPACE}/serviceaccounts", f"{NAMESPACE}/pods"
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount"
UNKNOWN = 'error looking up service account default/ghost: serviceaccount "ghost" not found'


@pytest_asyncio.fixture
async def tokens(kcr_clock: VirtualClock) -> AsyncIterator[Api]:
    """Give the API of a cluster whose pods get a token."""
    async with EmbeddedCluster(
        clock=kcr_clock, random=random.Random(0), runtime=None, service_accounts="tokens"
    ) as cluster:
        api = Api(cluster.server)
        await eventually(lambda: exists(api, f"{ACCOUNTS}/default"))
        yield api


def with_spec(name: str, **spec: Any) -> dict[str, Any]:
    made = pod(name)
    return {**made, "spec": {**made["spec"], **spec}}


async def test_pod_gets_the_default_account_and_its_token(tokens: Api) -> None:
    spec = (await tokens.post(PODS, pod("p")))["spec"]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert volume["projected"] == {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [
                {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
            ]}},
        ],
        "defaultMode": 420,
    }  # fmt: skip
    (container,) = spec["containers"]
    assert container["volumeMounts"] == [{"name": volume["name"], "readOnly": True, "mountPath": TOKEN}]


@pytest.mark.parametrize("volume", [{"emptyDir": {}}, {}, None])
async def test_volume_without_a_name_is_refused(tokens: Api, volume: Any) -> None:
    """Source: cel-and-bodies.md, B10."""
    reply = await tokens.call("POST", PODS, with_spec("p", volumes=[volume]))
    assert (reply.status, reply.body["message"]) == (422, 'Pod "p" is invalid: spec.volumes[0].name: Required value')


async def test_init_containers_get_the_token_as_well(tokens: Api) -> None:
    init = [{"name": "i", "image": "busybox"}]
    spec = (await tokens.post(PODS, with_spec("p", initContainers=init)))["spec"]
    mounted = [mount["mountPath"] for mount in spec["initContainers"][0]["volumeMounts"]]
    assert mounted == [TOKEN]


async def test_mount_at_the_place_of_the_token_stays(tokens: Api) -> None:
    mounts = [{"name": "own", "mountPath": TOKEN}]
    containers = [{"name": "c", "image": "busybox", "volumeMounts": mounts}]
    spec = (await tokens.post(PODS, with_spec("p", volumes=[{"name": "own"}], containers=containers)))["spec"]
    assert [volume["name"] for volume in spec["volumes"]] == ["own"]
    assert [mount["name"] for mount in spec["containers"][0]["volumeMounts"]] == ["own"]


@pytest.mark.parametrize(
    ("by_pod", "by_account", "mounted"),
    [
        pytest.param(None, None, True, id="unset"),
        pytest.param(None, False, False, id="account-refuses"),
        pytest.param(True, False, True, id="pod-decides"),
        pytest.param(False, True, False, id="pod-refuses"),
    ],
)
async def test_automount_is_decided_by_pod_then_account(
    tokens: Api, by_pod: bool | None, by_account: bool | None, mounted: bool
) -> None:
    account = {} if by_account is None else {"automountServiceAccountToken": by_account}
    await tokens.post(ACCOUNTS, {"metadata": {"name": "builder"}, **account})
    said = {} if by_pod is None else {"automountServiceAccountToken": by_pod}
    spec = (await tokens.post(PODS, with_spec("p", serviceAccountName="builder", **said)))["spec"]
    assert bool(spec.get("volumes")) == mounted


async def test_pull_secrets_come_from_the_account_unless_the_pod_has_some(tokens: Api) -> None:
    await tokens.post(ACCOUNTS, {"metadata": {"name": "builder"}, "imagePullSecrets": [{"name": "registry"}]})
    taken = await tokens.post(PODS, with_spec("taken", serviceAccountName="builder"))
    own = await tokens.post(PODS, with_spec("own", serviceAccountName="builder", imagePullSecrets=[{"name": "mine"}]))
    assert taken["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert own["spec"]["imagePullSecrets"] == [{"name": "mine"}]


@pytest.mark.parametrize(
    ("metadata", "called"),
    [pytest.param({"name": "p"}, "p", id="named"), pytest.param({"generateName": "web-"}, "web-", id="generated")],
)
async def test_pod_of_a_missing_account_is_refused(tokens: Api, metadata: dict[str, Any], called: str) -> None:
    reply = await tokens.call("POST", PODS, {**with_spec("", serviceAccountName="ghost"), "metadata": metadata})
    assert (reply.status, reply.body["reason"]) == (403, "Forbidden")
    assert reply.body["message"] == f'pods "{called}" is forbidden: {UNKNOWN}'


async def test_pod_in_a_new_namespace_waits_for_its_account(tokens: Api) -> None:
    await tokens.post("/api/v1/namespaces", {"metadata": {"name": "fresh"}})
    made = await tokens.post("/api/v1/namespaces/fresh/pods", pod("p"))
    assert made["spec"]["serviceAccountName"] == "default"


async def test_pod_in_a_missing_namespace_is_refused_at_once(tokens: Api) -> None:
    reply = await tokens.call("POST", "/api/v1/namespaces/none/pods", pod("p"))
    assert (reply.status, reply.body["message"]) == (404, 'namespaces "none" not found')


async def test_accounts_alone_mount_no_token(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(
        clock=kcr_clock, random=random.Random(0), runtime=None, service_accounts="accounts"
    ) as cluster:
        api = Api(cluster.server)
        spec = (await api.post(PODS, pod("p")))["spec"]
        assert (spec["serviceAccountName"], "volumes" in spec) == ("default", False)
        assert (await api.call("POST", PODS, with_spec("q", serviceAccountName="ghost"))).status == 403


async def test_cluster_without_accounts_takes_pods_of_any(api: Api) -> None:
    spec = (await api.post(PODS, with_spec("p", serviceAccountName="ghost")))["spec"]
    assert (spec["serviceAccountName"], "volumes" in spec) == ("ghost", False)
