"""StatefulSets: the pod template is validated with the volumes of its claims, and claims have defaults.

Source: kubernetes/pkg/apis/apps/validation/validation_test.go, TestValidateStatefulSet; the answers of kube-apiserver
1.36.2.
"""

from typing import Any

import pytest

from kcr_devcluster.apiserver.kinds.apps.stateful_sets import StatefulSetStrategy
from tests.kit.api import Api
from tests.kit.workloads import POD, deployment

pytestmark = pytest.mark.kcr_virtual
PLACE = "/apis/apps/v1/namespaces/default/statefulsets"
TEMPLATE, CLAIMS = "spec.template.spec", "spec.volumeClaimTemplates[0].spec"
CONTAINER = POD["containers"][0]
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def claim(name: str = "data", **spec: Any) -> dict[str, Any]:
    """A template of claims."""
    return {"metadata": {"name": name}, "spec": {**CLAIM_SPEC, **spec}}


def mounting(*names: str) -> dict[str, Any]:
    """The spec of a pod that mounts volumes of these names."""
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return {"containers": [{**CONTAINER, "volumeMounts": mounts}]}


@pytest.mark.parametrize(
    ("obj", "field", "words"),
    [
        pytest.param(deployment(pod={"containers": []}), f"{TEMPLATE}.containers", "Required value", id="containers"),
        pytest.param(
            deployment(pod={"containers": [{"name": "c"}]}), f"{TEMPLATE}.containers[0].image", "Required value",
            id="image",
        ),
        pytest.param(
            deployment(pod={"containers": [{**CONTAINER, "livenessProbe": {"httpGet": {"port": 0}}}]}),
            f"{TEMPLATE}.containers[0].livenessProbe.httpGet.port",
            "Invalid value: 0: must be between 1 and 65535, inclusive",
            id="probe",
        ),
        pytest.param(
            deployment(pod=mounting("none")), f"{TEMPLATE}.containers[0].volumeMounts[0].name", 'Not found: "none"',
            id="mount-of-nothing",
        ),
        pytest.param(
            deployment(serviceName="A_"), "spec.serviceName", 'Invalid value: "A_": a lowercase RFC 1123 label',
            id="service-name",
        ),
        pytest.param(
            deployment(volumeClaimTemplates=[claim(accessModes=[])]), f"{CLAIMS}.accessModes",
            "Required value: at least 1 access mode is required", id="access-modes",
        ),
        pytest.param(
            deployment(volumeClaimTemplates=[claim(resources={})]), f"{CLAIMS}.resources[storage]", "Required value",
            id="storage",
        ),
        pytest.param(
            deployment(volumeClaimTemplates=[claim("A")]), f"{TEMPLATE}.volumes[0].name",
            'Invalid value: "A": a lowercase RFC 1123 label', id="claim-name",
        ),
        pytest.param(
            deployment(pod={"volumes": [{"name": "x", "hostPath": {"path": ""}}]}),
            f"{TEMPLATE}.volumes[0].hostPath.path", "Required value", id="volume",
        ),
    ],
)  # fmt: skip
async def test_stateful_set_is_refused_by_field(api: Api, obj: dict[str, Any], field: str, words: str) -> None:
    reply = await api.call("POST", PLACE, obj)
    assert reply.status == 422
    (cause,) = reply.body["details"]["causes"]
    assert cause["field"] == field
    assert cause["message"].startswith(words)


async def test_invalid_selector_hides_errors_of_the_template(api: Api) -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "Foo"}]}
    reply = await api.call("POST", PLACE, deployment(selector=selector, pod={"containers": []}))
    fields = [one["field"] for one in reply.body["details"]["causes"]]
    assert fields == ["spec.selector.matchExpressions[0].operator", "spec.selector"]


async def test_claims_are_volumes_of_the_template(api: Api) -> None:
    # A claim takes the place of the volume of its name, whose own errors are none then.
    pod = mounting("data") | {"volumes": [{"name": "data", "hostPath": {"path": ""}}]}
    await api.post(PLACE, deployment(pod=pod, volumeClaimTemplates=[claim()]))


async def test_claims_are_defaulted(api: Api) -> None:
    spec = (await api.post(PLACE, deployment(volumeClaimTemplates=[claim()])))["spec"]
    assert spec["serviceName"] == ""
    assert spec["volumeClaimTemplates"] == [
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
            "spec": {**CLAIM_SPEC, "volumeMode": "Filesystem"}, "status": {"phase": "Pending"},
        }
    ]  # fmt: skip


async def test_template_is_validated_when_it_changes(api: Api) -> None:
    await api.post(PLACE, deployment())
    reply = await api.call("PUT", f"{PLACE}/web", deployment(pod=mounting("none")))
    assert [one["field"] for one in reply.body["details"]["causes"]] == [
        f"{TEMPLATE}.containers[0].volumeMounts[0].name"
    ]


def test_template_that_was_invalid_before_may_stay_so() -> None:
    strategy, old, new = StatefulSetStrategy(), deployment(pod=mounting("none")), deployment(pod=mounting("none"))
    new["spec"]["replicas"] = 3
    for obj in (old, new):
        strategy.default(obj)
    assert strategy.validate(new) != []
    assert strategy.validate_update(new, old) == []
