"""Warnings about fields of pods that have no effect."""

from typing import Any

import msgspec
import pytest

from kcr.client.wire.decoding import warnings_in
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.effects.advice import LIMIT, FieldEffects, absent_controller_warnings, process_warnings
from kcr_devcluster.cluster.effects.pod_fields import NoEffect

pytestmark = pytest.mark.kcr_virtual

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
USER = "processes run as the current user"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
LABELS = {"app": "web"}
ROOT = {"privileged": True}


@pytest.fixture
def cluster(kcr_cluster: EmbeddedCluster) -> EmbeddedCluster:
    kcr_cluster.server.advisers.append(process_warnings)
    return kcr_cluster


def pod_spec(**fields: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox:1", "command": ["true"], **fields.pop("container", {})}
    return {"containers": [container], **fields}


def pod(owners: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "ownerReferences": owners or []}, "spec": pod_spec(**fields)}


def deployment(**fields: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": LABELS}, "spec": pod_spec(**fields)}
    return {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": LABELS}, "template": template}}


async def warnings(
    cluster: EmbeddedCluster,
    method: str,
    target: str,
    body: object,
    media: str = "application/json",
    *,
    advised: bool = True,
) -> list[str]:
    """Return the warnings of a request that succeeds."""
    request = HTTPRequest(method, target, {"Content-Type": media}, msgspec.json.encode(body), advised=advised)
    response = await cluster.server.handle(request)
    assert response.status in (200, 201), response.body
    return warnings_in(response.headers.get("Warning", ""))


@pytest.mark.parametrize(
    ("given", "field"),
    [
        pytest.param({"securityContext": {"runAsUser": 0}}, "securityContext.runAsUser", id="pod"),
        pytest.param(
            {"container": {"securityContext": {"runAsUser": 7}}},
            "containers[0].securityContext.runAsUser",
            id="container",
        ),
        pytest.param({"hostUsers": False}, "hostUsers", id="false-is-a-wish"),
    ],
)
async def test_field_without_effect_is_named(cluster: EmbeddedCluster, given: dict[str, Any], field: str) -> None:
    assert await warnings(cluster, "POST", PODS, pod(**given)) == [f"spec.{field}: has no effect in kcr dev: {USER}"]


@pytest.mark.parametrize(
    "given",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"dnsPolicy": "ClusterFirst", "os": {"name": "linux"}}, id="defaults"),
        pytest.param({"securityContext": {"runAsNonRoot": False, "supplementalGroups": []}}, id="false-and-empty"),
        pytest.param({"container": {"securityContext": {"allowPrivilegeEscalation": True}}}, id="true-is-usual"),
        pytest.param({"hostNetwork": True, "container": {"ports": [{"containerPort": 80}]}}, id="host-port-by-default"),
        pytest.param(
            {"container": {"ports": [{"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"}]}}, id="host-port"
        ),
        pytest.param(
            {"initContainers": [{"name": "s", "image": "busybox:1", "restartPolicy": "Always"}]}, id="sidecar"
        ),
        pytest.param({"nodeSelector": {"disk": "ssd"}, "hostname": "h"}, id="used"),
    ],
)
async def test_what_happens_anyway_is_no_warning(cluster: EmbeddedCluster, given: dict[str, Any]) -> None:
    assert await warnings(cluster, "POST", PODS, pod(**given)) == []


@pytest.mark.parametrize("volume", [{"projected": {}}, {"projected": {"sources": [None]}}, {"hostPath": {}}, {}])
async def test_what_is_empty_is_no_fault_of_the_server(cluster: EmbeddedCluster, volume: dict[str, Any]) -> None:
    """Source: cel-and-bodies.md, B10; the sweep is `tests/chaos/mutations/test_field_sweep.py`."""
    body = msgspec.json.encode(pod(volumes=[{"name": "v", **volume}]))
    response = await cluster.server.handle(HTTPRequest("POST", PODS, {}, body, advised=True))
    assert response.status == (422 if "hostPath" in volume else 201), response.body


def test_keys_of_a_map_are_named_one_by_one() -> None:
    effects = FieldEffects({"core.v1.ResourceRequirements": {"limits": NoEffect("why", used_keys=("memory",))}})
    given = {"limits": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}}
    found = effects.without_effect("core.v1.ResourceRequirements", given, "resources")
    assert [path for path, _ in found] == ["resources.limits[cpu]", "resources.limits[example.com/gpu]"]


async def test_warnings_of_one_response_are_bounded(cluster: EmbeddedCluster) -> None:
    containers = [{"name": f"c{number}", "image": "busybox:1", "securityContext": ROOT} for number in range(LIMIT + 3)]
    found = await warnings(cluster, "POST", PODS, {"metadata": {"name": "p"}, "spec": {"containers": containers}})
    assert len(found) == LIMIT + 1
    assert found[LIMIT] == "3 more fields have no effect in kcr dev"


@pytest.mark.parametrize(
    ("target", "path", "restart"),
    [
        pytest.param("/apis/batch/v1/namespaces/default/jobs", "spec.template.spec", "Never", id="job"),
        pytest.param(
            "/apis/batch/v1/namespaces/default/cronjobs", "spec.jobTemplate.spec.template.spec", "Never", id="cronjob"
        ),
        pytest.param("/apis/apps/v1/namespaces/default/replicasets", "spec.template.spec", "Always", id="replicaset"),
    ],
)
async def test_templates_are_judged_as_pods(cluster: EmbeddedCluster, target: str, path: str, restart: str) -> None:
    spec: Any = deployment(hostUsers=False, restartPolicy=restart)["spec"]
    if restart == "Never":
        del spec["selector"]
    if "cronjobs" in target:
        spec = {"schedule": "@daily", "jobTemplate": {"spec": spec}}
    found = await warnings(cluster, "POST", target, {"metadata": {"name": "web"}, "spec": spec})
    assert found == [f"{path}.hostUsers: has no effect in kcr dev: {USER}"]


async def test_changed_template_is_judged_again(cluster: EmbeddedCluster) -> None:
    target = f"{DEPLOYMENTS}/web?fieldManager=me"
    first = await warnings(
        cluster, "PATCH", target, {"apiVersion": "apps/v1", "kind": "Deployment", **deployment()}, APPLY
    )
    scaled = await warnings(cluster, "PATCH", target, {"spec": {"replicas": 3}}, MERGE)
    change = {"spec": {"template": {"spec": {"hostUsers": False}}}}
    changed = await warnings(cluster, "PATCH", target, change, MERGE)
    again = await warnings(cluster, "PATCH", target, {"metadata": {"labels": LABELS}, "spec": {"replicas": 2}}, MERGE)
    assert (first, scaled, again) == ([], [], [])
    assert changed == [f"spec.template.spec.hostUsers: has no effect in kcr dev: {USER}"]


async def test_author_of_a_template_is_warned_alone(cluster: EmbeddedCluster) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    assert await warnings(cluster, "POST", PODS, pod([owner], hostUsers=False)) == []


async def test_components_of_the_cluster_are_not_warned(cluster: EmbeddedCluster) -> None:
    assert await warnings(cluster, "POST", PODS, pod(hostUsers=False), advised=False) == []


async def test_simulated_pods_have_no_fields_without_effect(kcr_cluster: EmbeddedCluster) -> None:
    assert await warnings(kcr_cluster, "POST", PODS, pod(hostUsers=False)) == []


CONTROLLERS = "/api/v1/namespaces/default/replicationcontrollers"


async def test_deployment_without_its_controller_is_warned_of_once(kcr_cluster: EmbeddedCluster) -> None:
    kcr_cluster.server.advisers.append(absent_controller_warnings)
    assert await warnings(kcr_cluster, "POST", DEPLOYMENTS, deployment()) == [
        "deployments.apps are stored by this server, and nothing here acts on them: it was started with "
        "--no-controllers"
    ]
    template = deployment()["spec"]["template"]
    (older,) = await warnings(
        kcr_cluster, "POST", CONTROLLERS, {"metadata": {"name": "web"}, "spec": {"template": template}}
    )
    assert older.startswith("replicationcontrollers are stored by this server, and nothing here acts on them: ")
    for place, words in (
        ("/apis/policy/v1/namespaces/default/poddisruptionbudgets", "poddisruptionbudgets.policy"),
        ("/api/v1/namespaces/default/resourcequotas", "resourcequotas"),
    ):
        (found,) = await warnings(kcr_cluster, "POST", place, {"metadata": {"name": "a"}})
        assert found.startswith(f"the status of {words} is written by no controller here, ")
    assert await warnings(kcr_cluster, "PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 2}}, MERGE) == []
    assert await warnings(kcr_cluster, "POST", PODS, pod()) == []
