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
