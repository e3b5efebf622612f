"""The status of ValidatingAdmissionPolicies: a controller checks the types of their expressions.

Source: kubernetes/test/e2e/apimachinery/validatingadmissionpolicy.go, "should type check validation expressions" and
"should type check a CRD"; staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go.
"""

from typing import Any

import pytest

from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import Api
from tests.kit.policies import GROUP, matched, validate, validation

pytestmark = [pytest.mark.kcr_virtual, pytest.mark.collects]
POLICY = f"{GROUP}/validatingadmissionpolicies/p"
DEPLOYMENTS = matched("deployments", "apps")
NO_WARNINGS: dict[str, Any] = {}


async def checked(api: Api, clock: VirtualClock) -> dict[str, Any]:
    """The result of type checking, once the current generation has been checked."""
    while True:
        policy = await api.get(POLICY)
        status = policy.get("status") or {}
        if status.get("observedGeneration") == policy["metadata"]["generation"]:
            return dict(status["typeChecking"])
        await clock.advance(1)


async def test_right_types_are_not_warned_of(api: Api, kcr_clock: VirtualClock) -> None:
    await validate(
        api,
        validation("object.spec.replicas > 1 && object.metadata.labels['a'] == 'b'"),
        validation("object.spec.template.spec.containers.all(c, c.image.startsWith('x') && c.name != variables.name)"),
        validation("object.spec.strategy.rollingUpdate.maxSurge == 1 && oldObject.metadata.namespace == 'default'"),
        matchConstraints=DEPLOYMENTS,
        variables=[{"name": "name", "expression": "object.metadata.name"}],
    )
    assert await checked(api, kcr_clock) == NO_WARNINGS


async def test_confused_types_are_warned_of(api: Api, kcr_clock: VirtualClock) -> None:
    rule = validation(
        "object.spec.replicas > '1'", messageExpression="'wants replicas > 1, got ' + object.spec.replicas"
    )
    await validate(api, rule, matchConstraints=DEPLOYMENTS)
    first, second = (await checked(api, kcr_clock))["expressionWarnings"]
    assert first == {
        "fieldRef": "spec.validations[0].expression",
        "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to "
        "'(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n",
    }
    assert second["fieldRef"] == "spec.validations[0].messageExpression"
    assert "found no matching overload for '_+_' applied to '(string, int)'" in second["warning"]


async def test_new_generation_is_checked_again(api: Api, kcr_clock: VirtualClock) -> None:
    await validate(api, validation("object.spec.nope == 1"), matchConstraints=DEPLOYMENTS)
    (warning,) = (await checked(api, kcr_clock))["expressionWarnings"]
    assert "undefined field 'nope'" in warning["warning"]
    await api.patch(POLICY, {"spec": {"validations": [validation("object.spec.replicas == 1")]}})
    assert await checked(api, kcr_clock) == NO_WARNINGS


async def test_variables_and_params_have_types(api: Api, kcr_clock: VirtualClock) -> None:
    await validate(
        api,
        validation("variables.replicas == params.data.replicas"),
        validation("params.nope == 1"),
        matchConstraints=DEPLOYMENTS,
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "replicas", "expression": "object.spec.replicas"}],
    )
    first, second = (await checked(api, kcr_clock))["expressionWarnings"]
    assert "found no matching overload for '_==_' applied to '(int, string)'" in first["warning"]
    assert "undefined field 'nope'" in second["warning"]


async def test_every_kind_that_the_rules_name_is_checked(api: Api, kcr_clock: VirtualClock) -> None:
    rules = [
        {
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "operations": ["*"],
            "resources": ["statefulsets", "deployments"],
        },
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods", "pods/status"]},
        {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"]},
    ]
    await validate(api, validation("object.spec.serviceName == 'a'"), matchConstraints={"resourceRules": rules})
    (warning,) = (await checked(api, kcr_clock))["expressionWarnings"]
    kinds = [line.partition(": ")[0] for line in warning["warning"].split("\n") if "Kind=" in line]
    assert kinds == ["/v1, Kind=Pod", "apps/v1, Kind=Deployment"]


async def test_custom_kind_is_checked_by_its_schema(api: Api, kcr_clock: VirtualClock) -> None:
    fields = {"replicas": {"type": "integer"}, "name": {"type": "string"}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {"group": "a.io", "names": {"plural": "things", "kind": "Thing"}, "scope": "Namespaced"}
    await api.post(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {"metadata": {"name": "things.a.io"}, "spec": definition | {"versions": [version]}},
    )
    await validate(
        api,
        validation("object.spec.replicas > 1 && object.metadata.labels['a'] == 'b'"),
        validation("object.spec.replicas > '1'"),
        matchConstraints=matched("things", "a.io"),
    )
    (warning,) = (await checked(api, kcr_clock))["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[1].expression"
    assert warning["warning"].startswith("a.io/v1, Kind=Thing: ERROR: <input>:1:22: found no matching overload")
