"""MutatingAdmissionPolicies: apply configurations, JSON patches, their order, and what follows from a failure.

Source: kubernetes/test/e2e/apimachinery/mutatingadmissionpolicy.go; staging/src/k8s.io/apiserver/pkg/admission/plugin/
policy/mutating/dispatcher.go and patch/{smd,json_patch}_test.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api, config_map, pod
from tests.kit.policies import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    GROUP,
    bind,
    configuration,
    json_patch,
    matched,
    mutate,
    validate,
    validation,
)
from tests.kit.webhooks import Webhooks
from tests.kit.webhooks import json_patch as webhook_patch

pytestmark = pytest.mark.kcr_virtual
PODS = "/api/v1/namespaces/default/pods"
DENIED = "policy 'p' with binding 'b-p' denied request: "
ANNOTATE = """
    Object{
        metadata: Object.metadata{
            annotations: {
                "mutated-by": "admission-policy"
            }
        }
    }"""


def labels(text: str) -> dict[str, Any]:
    """A mutation that adds labels."""
    return configuration(f"Object{{metadata: Object.metadata{{labels: {text}}}}}")


async def test_policy_mutates_a_deployment(api: Api) -> None:
    await mutate(api, configuration(ANNOTATE), matchConstraints=matched("deployments", "apps"))
    selected = {"app": "test"}
    template = {"metadata": {"labels": selected}, "spec": {"containers": [{"name": "nginx", "image": "nginx:latest"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": selected}, "template": template}
    body = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "test-deployment"}, "spec": spec}
    made = await api.post(DEPLOYMENTS, body)
    assert made["metadata"]["annotations"] == {"mutated-by": "admission-policy"}
    assert made["spec"]["replicas"] == 2
    stored = await api.get(f"{DEPLOYMENTS}/test-deployment")
    assert stored["metadata"]["annotations"] == {"mutated-by": "admission-policy"}


async def test_configuration_is_merged_by_the_keys_of_lists(api: Api) -> None:
    text = (
        "Object{spec: Object.spec{"
        "containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, image: 'mirror/' + c.image}), "
        "initContainers: [Object.spec.initContainers{name: 'first', image: 'init'}], ?priority: object.spec.?nope}}"
    )
    await mutate(api, configuration(text), matchConstraints=matched("pods"))
    spec = (await api.post(PODS, pod("a")))["spec"]
    assert [(one["name"], one["image"]) for one in spec["containers"]] == [("c", "mirror/busybox")]
    # The defaults are set after the patch.
    assert spec["initContainers"][0]["terminationMessagePath"] == "/dev/termination-log"
    assert (spec["restartPolicy"], spec["priority"]) == ("Never", 0)


async def test_json_patch_changes_the_object(api: Api) -> None:
    text = (
        "[JSONPatch{op: 'test', path: '/data/a', value: '1'}, JSONPatch{op: 'replace', path: '/data/a', value: '2'}, "
        "JSONPatch{op: 'add', path: '/metadata/labels', value: {'x.io/y': 'z'}}, "
        "JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('x.io/z'), value: object.metadata.name}, "
        "JSONPatch{op: 'copy', from: '/data/a', path: '/data/b'}]"
    )
    await mutate(api, json_patch(text))
    made = await api.post(CONFIG_MAPS, config_map("c"))
    assert (made["data"], made["metadata"]["labels"]) == ({"a": "2", "b": "2"}, {"x.io/y": "z", "x.io/z": "c"})


async def test_failed_test_leaves_the_object(api: Api) -> None:
    text = "[JSONPatch{op: 'add', path: '/data/b', value: '1'}, JSONPatch{op: 'test', path: '/data/a', value: '5'}]"
    await mutate(api, json_patch(text))
    assert (await api.post(CONFIG_MAPS, config_map("c")))["data"] == {"a": "1"}


@pytest.mark.parametrize(
    ("mutation", "said"),
    [
        pytest.param(
            labels("{'a': object.data.nope}"),
            "expression 'Object{metadata: Object.metadata{labels: {'a': object.data.nope}}}' resulted in error: "
            "no such key: nope",
            id="evaluation",
        ),
        pytest.param(
            configuration("Object{nope: 1}"),
            "error applying patch: failed to convert patch object to typed object: .nope: field not declared in schema",
            id="unknown-field",
        ),
        pytest.param(
            configuration("Object{data: {'a': 1}}"),
            "error applying patch: failed to convert patch object to typed object: .data.a: expected string, got "
            "&value.valueUnstructured{Value:1}",
            id="type",
        ),
        pytest.param(
            configuration("Object{metadata: Object.wrong{name: 'x'}}"),
            'type mismatch: unexpected type name "Object.wrong", expected "Object.metadata", which matches field name '
            "path from root Object type",
            id="type-name",
        ),
        pytest.param(
            json_patch("[JSONPatch{op: 'remove', path: '/data/nope'}]"),
            "JSON Patch: error in remove for path: '/data/nope': Unable to remove nonexistent key: nope: missing value",
            id="json-patch",
        ),
    ],
)
async def test_failure_denies_unless_it_is_ignored(api: Api, mutation: dict[str, Any], said: str) -> None:
    await mutate(api, mutation)
    refused = await api.call("POST", CONFIG_MAPS, config_map("c"))
    assert (refused.status, refused.body["reason"], refused.body["message"]) == (403, "Invalid", DENIED + said)
    assert refused.body["details"]["causes"] == [{"message": DENIED + said}]
    await api.patch(f"{GROUP}/mutatingadmissionpolicies/p", {"spec": {"failurePolicy": "Ignore"}})
    assert (await api.post(CONFIG_MAPS, config_map("c")))["data"] == {"a": "1"}


async def test_atomic_list_is_not_replaced(api: Api) -> None:
    await mutate(
        api,
        configuration("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', command: ['x']}]}}"),
        matchConstraints=matched("pods"),
    )
    refused = await api.call("POST", PODS, pod("a"))
    assert refused.body["message"] == (
        f"{DENIED}error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
        ".spec.containers[0].command"
    )


async def test_result_is_validated(api: Api) -> None:
    await mutate(api, labels("{'a': 'not valid'}"))
    refused = await api.call("POST", CONFIG_MAPS, config_map("c"))
    assert (refused.status, refused.body["reason"]) == (422, "Invalid")


async def test_policies_see_the_changes_of_those_before(api: Api) -> None:
    await mutate(api, labels("{'first': '1'}"), name="a")
    await mutate(api, labels("{'second': object.metadata.labels.first + '2'}"), labels("{'third': '3'}"), name="b")
    made = await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}})
    assert made["metadata"]["labels"] == {"first": "1", "second": "12", "third": "3"}


@pytest.mark.parametrize(
    ("policy", "seen"), [("IfNeeded", {"count": "2", "late": "y"}), ("Never", {"count": "1", "late": "y"})]
)
async def test_policy_is_evaluated_again_where_it_asks(api: Api, policy: str, seen: dict[str, str]) -> None:
    count = "{'count': string(object.metadata.?labels.count.orValue('0') == '0' ? 1 : 2)}"
    await mutate(api, labels(count), name="a", reinvocationPolicy=policy)
    await mutate(api, labels("{'late': 'y'}"), name="b")
    assert (await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}}))["metadata"]["labels"] == seen


async def test_policies_come_before_webhooks(api: Api) -> None:
    webhooks = Webhooks(api)
    patch = webhook_patch({"op": "add", "path": "/metadata/labels/by-webhook", "value": "y"})
    await webhooks.add("Mutating", "hook", lambda request: patch, rules=matched()["resourceRules"])
    await mutate(api, labels("{'by-policy': 'y'}"))
    await validate(api, validation("object.metadata.labels == {'by-policy': 'y', 'by-webhook': 'y'}"), name="v")
    await bind(api, policy="v")
    await api.post(CONFIG_MAPS, {"metadata": {"name": "c"}})
    (request,) = webhooks.requests["hook"]
    assert request["object"]["metadata"]["labels"] == {"by-policy": "y"}


async def test_update_and_apply_are_mutated(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("c"))
    await mutate(api, labels("{'operation': request.operation}"))
    changed = await api.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "2"}})
    assert changed["metadata"]["labels"] == {"operation": "UPDATE"}
    applied = await api.apply(f"{CONFIG_MAPS}/d", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "d"}})
    assert applied.body["metadata"]["labels"] == {"operation": "CREATE"}


async def test_parameters_and_variables_are_there(api: Api) -> None:
    await api.post(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": {"team": "blue"}})
    await mutate(
        api,
        labels("{'team': variables.team}"),
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        variables=[{"name": "team", "expression": "params == null ? 'none' : params.data.team"}],
        matchConditions=[{"name": "new", "expression": "oldObject == null && object.metadata.name != 'other'"}],
    )
    spec = {"policyName": "p", "paramRef": {"name": "settings", "parameterNotFoundAction": "Deny"}}
    await api.call("DELETE", f"{GROUP}/mutatingadmissionpolicybindings/b-p")
    await api.post(f"{GROUP}/mutatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": spec})
    assert (await api.post(CONFIG_MAPS, config_map("c")))["metadata"]["labels"] == {"team": "blue"}
    assert "labels" not in (await api.post(CONFIG_MAPS, config_map("other")))["metadata"]


async def test_custom_resource_is_mutated_in_its_own_version(api: Api) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"a": {"type": "string", "default": "d"}, "b": {"type": "integer"}},
            }
        },
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "kind": "Thing"}
    definition = {"group": "a.io", "names": names, "scope": "Namespaced", "versions": [version]}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api.post(definitions, {"metadata": {"name": "things.a.io"}, "spec": definition})
    await mutate(
        api,
        configuration("Object{spec: Object.spec{b: object.spec.a == 'd' ? 1 : 2}}"),
        matchConstraints=matched("things", "a.io"),
    )
    things = "/apis/a.io/v1/namespaces/default/things"
    made = await api.post(things, {"apiVersion": "a.io/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {}})
    assert made["spec"] == {"a": "d", "b": 1}
