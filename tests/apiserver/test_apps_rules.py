"""Defaults and validation of Deployments and ReplicaSets.

Source: kubernetes/pkg/apis/apps/validation/validation_test.go, TestValidateDeployment, TestValidateReplicaSet.
"""

from copy import deepcopy
from typing import Any

import pytest

from tests.kit.api import Api
from tests.kit.workloads import deployment, replica_set

pytestmark = pytest.mark.kcr_virtual
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
UPDATE = "spec.strategy.rollingUpdate"


def rolling(**update: Any) -> dict[str, Any]:
    return deployment(strategy={"type": "RollingUpdate", "rollingUpdate": update})


async def test_deployment_is_defaulted(api: Api) -> None:
    spec = (await api.post(DEPLOYMENTS, rolling(maxSurge=2)))["spec"]
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 2}}
    assert spec["template"]["spec"]["containers"][0]["imagePullPolicy"] == "Always"
    found = [spec[name] for name in ("replicas", "revisionHistoryLimit", "progressDeadlineSeconds")]
    assert found == [1, 10, 600]


async def test_deployments_and_replica_sets_are_created_without_a_warning(api: Api) -> None:
    for place, obj in ((DEPLOYMENTS, deployment()), (REPLICA_SETS, replica_set())):
        reply = await api.call("POST", place, {**obj, "status": {"replicas": 9}})
        assert (reply.status, "Warning" in reply.headers) == (201, False)
        assert reply.body["status"].get("replicas", 0) == 0


# More digits than Python converts.
NINES, ZEROS = "9" * 5000, "0" * 5000


@pytest.mark.parametrize(
    ("obj", "field", "words"),
    [
        pytest.param(
            rolling(maxUnavailable=f"{NINES}%"), f"{UPDATE}.maxUnavailable",
            f'Invalid value: "{NINES}%": must not be greater than 100%', id="more-digits-than-python-reads",
        ),
        pytest.param(
            rolling(maxSurge=0, maxUnavailable=f"{ZEROS}%"), f"{UPDATE}.maxUnavailable",
            f'Invalid value: "{ZEROS}%": may not be 0 when `maxSurge` is 0', id="zeros",
        ),
    ],
)  # fmt: skip
async def test_deployment_is_refused_by_field(api: Api, obj: dict[str, Any], field: str, words: str) -> None:
    reply = await api.call("POST", DEPLOYMENTS, obj)
    assert reply.status == 422
    assert [(one["field"], one["message"]) for one in reply.body["details"]["causes"]] == [(field, words)]


async def test_what_is_missing_is_demanded(api: Api) -> None:
    for place in (DEPLOYMENTS, REPLICA_SETS):
        reply = await api.call("POST", place, {"metadata": {"name": "web"}, "spec": {}})
        assert [one["field"] for one in reply.body["details"]["causes"]] == [
            "spec.selector", "spec.template.metadata.labels", "spec.template.spec.containers",
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "made"),
    [
        pytest.param(DEPLOYMENTS, deployment(), id="deployment"),
        pytest.param(REPLICA_SETS, replica_set(), id="replica-set"),
        pytest.param("/apis/apps/v1/namespaces/default/statefulsets", deployment(), id="stateful-set"),
    ],
)
async def test_pod_template_is_warned_of_when_it_is_new_or_changed(api: Api, path: str, made: dict[str, Any]) -> None:
    made = deepcopy(made)
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = -1
    target = f"{path}/{made['metadata']['name']}"
    warned = "spec.template.spec.terminationGracePeriodSeconds: must be >= 0"
    assert warned in (await api.call("POST", path, made)).headers["Warning"]
    reply = await api.call("PATCH", target, {"spec": {"replicas": 2}}, content_type="application/merge-patch+json")
    assert (reply.status, "Warning" in reply.headers) == (200, False)
    change = {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}}
    reply = await api.call("PATCH", target, change, content_type="application/merge-patch+json")
    assert warned in reply.headers["Warning"]
