"""ValidatingAdmissionPolicies: what they match, with which parameters, and what follows from a failure.

Source: kubernetes/test/e2e/apimachinery/validatingadmissionpolicy.go; staging/src/k8s.io/apiserver/pkg/admission/
plugin/policy/validating/{dispatcher,validator}.go.
"""

from typing import Any

import pytest

from kcr_devcluster.apiserver.authentication import User
from tests.kit.api import Api, config_map, pod
from tests.kit.conversion_webhooks import V1, install, v1
from tests.kit.policies import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    GROUP,
    bind,
    configuration,
    deployment,
    matched,
    mutate,
    validate,
    validation,
)

pytestmark = pytest.mark.kcr_virtual
DENIED = "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "


async def denial(api: Api, name: str = "c", **data: str) -> str:
    """The message that refuses a ConfigMap, `""` where it is created."""
    reply = await api.call("POST", CONFIG_MAPS, {"metadata": {"name": name}, "data": data})
    return "" if reply.status == 201 else str(reply.body["message"])


async def test_policy_validates_deployments_and_leaves_other_kinds_alone(api: Api) -> None:
    await api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"unique": "true"}}})
    selector: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"unique": "true"}}}
    said = "'wants replicas > 1, got ' + object.spec.replicas"
    rule = validation("object.spec.replicas > 1", messageExpression=said)
    await validate(api, rule, matchConstraints=matched("deployments", "apps", **selector))
    assert (await api.call("POST", DEPLOYMENTS, deployment("unbound", 1))).status == 201
    await bind(api, matchResources=selector)
    refused = await api.call("POST", DEPLOYMENTS, deployment("marker", 1))
    message = (
        "deployments.apps \"marker\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
        "failed expression: object.spec.replicas > 1"
    )
    assert (refused.status, refused.body["reason"], refused.body["message"]) == (422, "Invalid", message)
    assert refused.body["details"]["causes"] == [{"message": message.partition("forbidden: ")[2]}]
    await api.post(DEPLOYMENTS, deployment("replicated", 2))
    await api.post("/apis/apps/v1/namespaces/default/replicasets", deployment("single", 1, "ReplicaSet"))


async def test_variables_are_evaluated_in_order_and_when_needed(api: Api) -> None:
    variables = [
        {"name": "env", "expression": "object.data.env"},
        {"name": "is_prod", "expression": "variables.env == 'prod'"},
        {"name": "broken", "expression": "object.data.nope == 'x'"},
    ]
    await validate(
        api,
        validation("!variables.is_prod || object.data.owner != ''", message="prod needs an owner"),
        validation("variables.env != 'test' || variables.broken"),
        variables=variables,
    )
    await bind(api)
    assert await denial(api, env="prod", owner="") == f"{DENIED}prod needs an owner"
    assert await denial(api, env="dev") == ""
    assert await denial(api, env="test") == (
        f"{DENIED}expression 'variables.env != 'test' || variables.broken' resulted in error: "
        'composited variable "broken" fails to evaluate: no such key: nope'
    )


@pytest.mark.parametrize(
    ("said", "message"),
    [
        pytest.param({}, "failed expression: object.data.a == '1'", id="expression"),
        pytest.param({"message": " text "}, "text", id="message"),
        pytest.param({"message": "text", "messageExpression": "'a is ' + object.data.a"}, "a is 2", id="both"),
        pytest.param({"message": "text", "messageExpression": "object.data.nope + ''"}, "text", id="failing"),
        pytest.param({"message": "text", "messageExpression": r"'a\nb'"}, "text", id="line-break"),
        pytest.param({"message": "text", "messageExpression": "'  '"}, "text", id="blank"),
    ],
)
async def test_message_says_why(api: Api, said: dict[str, str], message: str) -> None:
    await validate(api, validation("object.data.a == '1'", **said))
    await bind(api)
    assert await denial(api, a="1", name="d") == ""
    assert await denial(api, a="2") == DENIED + message


@pytest.mark.parametrize(("reason", "code"), [("Invalid", 422), ("Forbidden", 403), ("RequestEntityTooLarge", 413)])
async def test_reason_decides_the_code(api: Api, reason: str, code: int) -> None:
    await validate(api, validation("false", reason=reason))
    await bind(api)
    refused = await api.call("POST", CONFIG_MAPS, config_map("c"))
    assert (refused.status, refused.body["code"], refused.body["reason"]) == (code, code, reason)


async def test_warning_is_sent_and_nothing_denied(api: Api) -> None:
    await validate(api, validation("false", message="no"))
    await bind(api, "Warn", "Audit")
    reply = await api.call("POST", CONFIG_MAPS, config_map("c"))
    words = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no"
    assert (reply.status, reply.headers["Warning"]) == (201, f'299 - "{words}"')


async def test_failure_policy_decides_about_errors(api: Api) -> None:
    await validate(api, validation("object.data.nope == 'x'"), failurePolicy="Ignore")
    await bind(api)
    assert await denial(api) == ""
    spec = {"spec": {"failurePolicy": "Fail"}}
    await api.patch(f"{GROUP}/validatingadmissionpolicies/p", spec)
    assert await denial(api) == f"{DENIED}expression 'object.data.nope == 'x'' resulted in error: no such key: data"


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        pytest.param(["true", "object.metadata.name == 'c'"], f"{DENIED}failed expression: false", id="all"),
        pytest.param(["true", "request.userInfo.username == 'ann'"], "", id="one-is-false"),
        pytest.param(["object.x == 1", "false"], "", id="false-outweighs-error"),
        pytest.param(
            ["object.x == 1", "true"],
            f"{DENIED}expression 'object.x == 1' resulted in error: no such key: x",
            id="error",
        ),
        pytest.param(
            ["object.x == 1", "object.y == 1"],
            f"{DENIED}[expression 'object.x == 1' resulted in error: no such key: x, "
            "expression 'object.y == 1' resulted in error: no such key: y]",
            id="errors",
        ),
    ],
)
async def test_match_conditions_all_hold(api: Api, conditions: list[str], said: str) -> None:
    named = [{"name": f"c{position}", "expression": one} for position, one in enumerate(conditions)]
    await validate(api, validation("false"), matchConditions=named)
    await bind(api)
    assert await denial(api) == said


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        pytest.param({"objectSelector": {"matchLabels": {"a": "1"}}}, ["labelled"], id="object-selector"),
        pytest.param({"namespaceSelector": {"matchLabels": {"no": "1"}}}, [], id="namespace-selector"),
        pytest.param(
            {"excludeResourceRules": [{**matched()["resourceRules"][0], "resourceNames": ["plain"]}]},
            ["labelled"],
            id="excluded-name",
        ),
        pytest.param(
            {"resourceRules": [{**matched()["resourceRules"][0], "resourceNames": ["plain"]}]}, ["plain"], id="name"
        ),
        pytest.param(
            {"resourceRules": [{**matched()["resourceRules"][0], "operations": ["UPDATE"]}]}, [], id="operation"
        ),
    ],
)
@pytest.mark.parametrize("at", ["policy", "binding"])
async def test_rules_and_selectors_choose_the_requests(
    api: Api, more: dict[str, Any], refused: list[str], at: str
) -> None:
    await validate(api, validation("false"), matchConstraints=matched() | (more if at == "policy" else {}))
    await bind(api, matchResources=more if at == "binding" else {})
    objects = {"labelled": config_map("labelled", a="1"), "plain": config_map("plain")}
    found = [name for name, one in objects.items() if (await api.call("POST", CONFIG_MAPS, one)).status != 201]
    assert found == refused


async def test_deletion_has_an_old_object_only(api: Api) -> None:
    rule = validation("object == null && oldObject.data.a != '1' && request.operation == 'DELETE'", message="keep it")
    await api.post(CONFIG_MAPS, config_map("c"))
    await validate(api, rule, matchConstraints=matched(operations=["DELETE"]))
    await bind(api)
    assert (await api.call("DELETE", f"{CONFIG_MAPS}/c")).body["message"] == f"{DENIED}keep it"
    await api.patch(f"{CONFIG_MAPS}/c", {"data": {"a": "2"}})
    await api.delete(f"{CONFIG_MAPS}/c")


async def test_update_sees_both_objects_and_the_request(api: Api) -> None:
    await api.post(CONFIG_MAPS, config_map("c"))
    await validate(
        api,
        validation("oldObject == null || object.data.a == oldObject.data.a", message="a is fixed"),
        validation("request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'"),
        validation("request.name == 'c' && request.namespace == 'default' && request.operation == 'UPDATE'"),
        validation("!has(request.subResource) && request.options.kind == 'UpdateOptions' && !request.dryRun"),
        validation("request.userInfo.username == 'system:admin' && 'system:masters' in request.userInfo.groups"),
        validation("namespaceObject.metadata.name == 'default' && namespaceObject.status.phase == 'Active'"),
    )
    await bind(api)
    changed = await api.call(
        "PATCH", f"{CONFIG_MAPS}/c", {"data": {"a": "2"}}, content_type="application/merge-patch+json"
    )
    assert changed.body["message"] == f"{DENIED}a is fixed"
    await api.patch(f"{CONFIG_MAPS}/c", {"data": {"b": "2"}})


async def test_subresource_is_matched_by_its_name(api: Api) -> None:
    await api.post("/api/v1/namespaces/default/pods", pod("a"))
    await validate(
        api, validation("request.subResource != 'status'", message="no status"), matchConstraints=matched("pods/status")
    )
    await bind(api)
    await api.patch("/api/v1/namespaces/default/pods/a", {"metadata": {"labels": {"a": "b"}}})
    refused = await api.call(
        "PATCH", "/api/v1/namespaces/default/pods/a/status", {"status": {"message": "m"}},
        content_type="application/merge-patch+json",
    )  # fmt: skip
    assert refused.status == 422


class TestParams:
    """Parameters of bindings."""

    KIND = {"apiVersion": "v1", "kind": "ConfigMap"}

    async def policy(self, api: Api, **binding: Any) -> None:
        rule = validation("object.metadata.name in params.data", messageExpression="'not in ' + params.metadata.name")
        named = [{"name": "others", "expression": "object.metadata.name.startsWith('c')"}]
        await validate(api, rule, paramKind=self.KIND, matchConditions=named)
        await bind(api, **binding)

    async def test_parameter_is_found_by_name(self, api: Api) -> None:
        await self.policy(api, paramRef={"name": "allowed", "parameterNotFoundAction": "Deny"})
        said = "no params found for policy binding with `Deny` parameterNotFoundAction"
        assert await denial(api) == f"{DENIED}failed to configure binding: {said}"
        await api.call("DELETE", f"{GROUP}/validatingadmissionpolicybindings/b")
        await api.post(CONFIG_MAPS, {"metadata": {"name": "allowed"}, "data": {"c2": ""}})
        await bind(api, paramRef={"name": "allowed", "namespace": "default", "parameterNotFoundAction": "Deny"})
        assert await denial(api) == f"{DENIED}not in allowed"
        assert await denial(api, "c2") == ""

    async def test_every_selected_parameter_must_hold(self, api: Api) -> None:
        selector = {"selector": {"matchLabels": {"for": "p"}}, "parameterNotFoundAction": "Allow"}
        await self.policy(api, paramRef=selector)
        assert await denial(api, "c0") == ""
        for name, allowed in (("one", {"c": "", "c2": ""}), ("two", {"c2": ""})):
            labels = {"for": "p"}
            await api.post(CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}, "data": allowed})
        assert await denial(api) == f"{DENIED}not in two"
        assert await denial(api, "c2") == ""

    async def test_unknown_kind_is_a_fault_of_the_policy(self, api: Api) -> None:
        await validate(api, validation("params == null"), paramKind={"apiVersion": "a.io/v1", "kind": "Nope"})
        await bind(api, paramRef={"name": "x", "parameterNotFoundAction": "Allow"})
        assert await denial(api) == (
            "configmaps \"c\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: "
            "failed to find resource referenced by paramKind: 'a.io/v1, Kind=Nope'"
        )

    async def test_namespaced_parameter_does_not_fit_cluster_scope(self, api: Api) -> None:
        await validate(api, validation("true"), paramKind=self.KIND, matchConstraints=matched("nodes"))
        await bind(api, paramRef={"name": "x", "parameterNotFoundAction": "Allow"})
        refused = await api.call("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
        assert refused.body["message"].endswith(
            "failed to configure binding: cannot use namespaced paramRef in policy binding that matches cluster-scoped "
            "resources"
        )

    async def test_binding_without_reference_has_null(self, api: Api) -> None:
        await validate(api, validation("params == null"), paramKind=self.KIND)
        await bind(api)
        assert await denial(api) == ""


async def test_equivalent_version_is_converted(api: Api) -> None:
    rule = {"apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["events"]}
    said = validation("object.note != 'bad' && request.kind.group == 'events.k8s.io'", message="bad note")
    await validate(api, said, matchConstraints={"resourceRules": [rule]})
    await bind(api)
    event = {
        "metadata": {"name": "e"}, "message": "bad", "reason": "R", "type": "Normal",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
    }  # fmt: skip
    refused = await api.call("POST", "/api/v1/namespaces/default/events", event)
    assert refused.body["message"] == (
        "events \"e\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: bad note"
    )
    await api.post("/api/v1/namespaces/default/events", event | {"message": "good"})


async def test_authorizer_decides_by_the_rights_of_the_user(guarded: Api) -> None:
    await validate(
        guarded,
        validation(
            "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()", message="no"
        ),
    )
    await bind(guarded)
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    await guarded.post(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", {"metadata": {"name": "r"}, "rules": [rule]}
    )
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}
    binding = {"metadata": {"name": "r"}, "roleRef": reference, "subjects": [subject]}
    await guarded.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    assert await denial(guarded.as_user("u")) == f"{DENIED}no"
    assert await denial(guarded) == ""


async def test_policies_are_not_subject_to_policies(api: Api) -> None:
    await validate(api, validation("false"), matchConstraints=matched("*", "*"))
    await bind(api)
    await api.delete(f"{GROUP}/validatingadmissionpolicybindings/b")
    assert await denial(api) == ""


async def test_audit_annotation_that_fails_denies(api: Api) -> None:
    await validate(api, auditAnnotations=[{"key": "k", "valueExpression": "'v ' + object.data.nope"}])
    await bind(api, "Audit")
    said = "expression ''v ' + object.data.nope' resulted in error: no such key: nope"
    assert await denial(api, a="1") == DENIED + said


async def test_dry_run_is_reviewed(api: Api) -> None:
    await validate(api, validation("!request.dryRun", message="dry"))
    await bind(api)
    refused = await api.call("POST", f"{CONFIG_MAPS}?dryRun=All", config_map("c"))
    assert refused.body["message"] == f"{DENIED}dry"


async def test_generated_name_is_known_to_validation(api: Api) -> None:
    await validate(api, validation("request.name == object.metadata.name", message="other name"))
    await bind(api)
    await api.post(CONFIG_MAPS, {"metadata": {"generateName": "c-"}})


async def test_webhook_converts_objects_and_parameters(api: Api) -> None:
    converter = await install(api)
    rule = {"apiGroups": ["ex.io"], "apiVersions": ["v2"], "operations": ["CREATE"], "resources": ["widgets"]}
    await validate(
        api,
        validation("object.spec.address == params.spec.address", messageExpression="'not ' + params.spec.address"),
        matchConstraints={"resourceRules": [rule]},
        paramKind={"apiVersion": "ex.io/v2", "kind": "Widget"},
    )
    await bind(api, paramRef={"name": "wanted", "parameterNotFoundAction": "Allow"})
    await api.post(V1, v1("wanted", {"host": "h", "port": 1}))
    refused = await api.call("POST", V1, v1("other", {"host": "h", "port": 2}))
    assert refused.body["message"] == (
        "widgets.ex.io \"other\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not h:1"
    )
    await api.post(V1, v1("same", {"host": "h", "port": 1}))
    converter.status = 500
    failed = await api.call("POST", V1, v1("another", {"host": "h", "port": 1}))
    assert (failed.status, failed.body["reason"]) == (422, "Invalid")
    assert (
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure" in failed.body["message"]
    )
    await api.patch(f"{GROUP}/validatingadmissionpolicies/p", {"spec": {"failurePolicy": "Ignore"}})
    await api.post(V1, v1("another", {"host": "x", "port": 1}))


async def test_objects_that_cannot_be_converted_are_a_fault_of_the_policy(api: Api) -> None:
    converter = await install(api)
    rule = {"apiGroups": ["ex.io"], "apiVersions": ["v2"], "operations": ["CREATE"], "resources": ["widgets"]}
    matching = {"resourceRules": [rule]}
    converter.status = 500
    await validate(api, validation("true"), matchConstraints=matching)
    await bind(api)
    refused = await api.call("POST", V1, v1("a"))
    assert refused.body["message"].partition(" for ")[0] == (
        "widgets.ex.io \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: "
        "failed to convert object version: conversion webhook"
    )
    await api.delete(f"{GROUP}/validatingadmissionpolicies/p")
    await mutate(api, configuration("Object{}"), matchConstraints=matching)
    refused = await api.call("POST", V1, v1("a"))
    said = 'policy "p" denied request: failed to configure policy: conversion webhook'
    assert (refused.status, refused.body["message"].partition(" for ")[0]) == (403, said)


async def test_expression_reads_what_is_known_of_the_user(api: Api) -> None:
    await validate(api, validation("request.userInfo.extra['team'] == ['a', 'b'] && 'dev' in request.userInfo.groups"))
    await bind(api)
    for team, code in ((("a", "b"), 201), (("b",), 422)):
        user = User("ann", groups=("dev",), extra={"team": team})
        reply = await Api(api.server, user).call("POST", CONFIG_MAPS, config_map("of-ann"))
        assert reply.status == code, reply.body
