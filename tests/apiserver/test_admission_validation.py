"""Validation of the kinds of admissionregistration.k8s.io/v1, in upstream's words.

Source: kubernetes/pkg/apis/admissionregistration/validation/validation_test.go;
staging/src/k8s.io/apiserver/pkg/util/webhook/validation_test.go.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from kcr_devcluster.apiserver.kinds.admission.webhooks import WebhookConfigurationStrategy
from tests.kit.api import Api
from tests.kit.valid_objects import VALID_OBJECTS, valid_object

pytestmark = pytest.mark.kcr_virtual
GROUP = "/apis/admissionregistration.k8s.io/v1"
Change = Callable[[Any], object]
DNS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
FORM = "desired format: https://host[/path]"


def path_of(kind: str) -> str:
    """The collection of a kind."""
    plural = kind.lower().replace("policy", "policies") if kind.endswith("Policy") else f"{kind.lower()}s"
    return f"{GROUP}/{plural}"


async def causes(api: Api, kind: str, obj: object) -> list[str]:
    """The causes of the refusal of a new object; none when it is accepted."""
    reply = await api.call("POST", path_of(kind), obj)
    if reply.status == 201:
        return []
    assert (reply.status, reply.body["reason"]) == (422, "Invalid"), reply.body
    return [f"{one['field']}: {one['message']}" for one in reply.body["details"]["causes"]]


def set_in(*steps: str | int, to: object) -> Change:
    """A change of one field; None removes it."""

    def change(obj: Any) -> None:
        for step in steps[:-1]:
            obj = obj[step]
        if to is None:
            del obj[steps[-1]]
        else:
            obj[steps[-1]] = to

    return change


CONDITION = {"name": "a", "expression": "true"}
LABELS = {"name": "labels", "expression": "{'a': 'b'}"}
INVALID_VALIDATION = {"expression": " ", "message": "a\nb", "messageExpression": " ", "reason": "No"}
HOOK = ("webhooks", 0)
RULE = (*HOOK, "rules", 0)
CLIENT = (*HOOK, "clientConfig")


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        pytest.param(set_in(*HOOK, "name", to=""), ["webhooks[0].name: Required value"], id="no-name"),
        pytest.param(
            set_in(*HOOK, "name", to="a.b"),
            [
                'webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by '
                "dots"
            ],
            id="short-name",
        ),
        pytest.param(
            set_in(*HOOK, "name", to="A.b.c"), [f'webhooks[0].name: Invalid value: "A.b.c": {DNS}'], id="upper-case"
        ),
        pytest.param(
            set_in(*HOOK, "sideEffects", to=None),
            ["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"],
            id="no-side-effects",
        ),
        pytest.param(
            set_in(*HOOK, "sideEffects", to="Some"),
            ['webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'],
            id="side-effects",
        ),
        pytest.param(
            set_in(*HOOK, "timeoutSeconds", to=31),
            ["webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"],
            id="timeout",
        ),
        pytest.param(
            set_in(*HOOK, "failurePolicy", to="No"),
            ['webhooks[0].failurePolicy: Unsupported value: "No": supported values: "Fail", "Ignore"'],
            id="failure-policy",
        ),
        pytest.param(
            set_in(*HOOK, "matchPolicy", to="No"),
            ['webhooks[0].matchPolicy: Unsupported value: "No": supported values: "Equivalent", "Exact"'],
            id="match-policy",
        ),
        pytest.param(
            set_in(*HOOK, "reinvocationPolicy", to="No"),
            ['webhooks[0].reinvocationPolicy: Unsupported value: "No": supported values: "IfNeeded", "Never"'],
            id="reinvocation",
        ),
        pytest.param(
            set_in(*HOOK, "admissionReviewVersions", to=None),
            ["webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"],
            id="no-review-version",
        ),
        pytest.param(
            set_in(*HOOK, "admissionReviewVersions", to=["v2", "v2"]),
            [
                'webhooks[0].admissionReviewVersions[1]: Invalid value: "v2": duplicate version',
                'webhooks[0].admissionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, '
                "v1beta1",
            ],
            id="unknown-review-version",
        ),
        pytest.param(
            set_in(*RULE, "operations", to=["*", "PATCH"]),
            [
                'webhooks[0].rules[0].operations: Invalid value: ["*","PATCH"]: if \'*\' is present, must not specify '
                "other operations",
                'webhooks[0].rules[0].operations[1]: Unsupported value: "PATCH": supported values: "*", "CONNECT", '
                '"CREATE", "DELETE", "UPDATE"',
            ],
            id="operations",
        ),
        pytest.param(
            set_in(*RULE, to={"operations": [], "scope": "All"}),
            [
                "webhooks[0].rules[0].operations: Required value",
                "webhooks[0].rules[0].apiGroups: Required value",
                "webhooks[0].rules[0].apiVersions: Required value",
                "webhooks[0].rules[0].resources: Required value",
                'webhooks[0].rules[0].scope: Unsupported value: "All": supported values: "*", "Cluster", "Namespaced"',
            ],
            id="empty-rule",
        ),
        pytest.param(
            set_in(*RULE, "resources", to=["a/*", "a/x", "*/x", "b/x", ""]),
            [
                "webhooks[0].rules[0].resources[1]: Invalid value: \"a/x\": if 'a/*' is present, must not specify a/x",
                "webhooks[0].rules[0].resources[3]: Invalid value: \"b/x\": if '*/x' is present, must not specify b/x",
                "webhooks[0].rules[0].resources[4]: Required value",
            ],
            id="wildcards-of-subresources",
        ),
        pytest.param(
            set_in(*RULE, "resources", to=["*", "pods"]),
            [
                'webhooks[0].rules[0].resources: Invalid value: ["*","pods"]: if \'*\' is present, must not specify '
                "other resources without subresources"
            ],
            id="wildcard-of-resources",
        ),
        pytest.param(
            set_in(*CLIENT, "url", to="https://a.io"),
            ["webhooks[0].clientConfig: Required value: exactly one of url or service is required"],
            id="url-and-service",
        ),
        pytest.param(
            set_in(*CLIENT, to={"url": "http://u@a.io/x?a=b#c"}),
            [
                "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; "
                f"{FORM}",
                'webhooks[0].clientConfig.url: Invalid value: "u": user information is not permitted in the URL',
                'webhooks[0].clientConfig.url: Invalid value: "c": fragments are not permitted in the URL',
                'webhooks[0].clientConfig.url: Invalid value: "a=b": query parameters are not permitted in the URL',
            ],
            id="url-with-all",
        ),
        pytest.param(
            set_in(*CLIENT, to={"url": "https:///x"}),
            [f'webhooks[0].clientConfig.url: Invalid value: "": host must be specified; {FORM}'],
            id="url-without-host",
        ),
        pytest.param(
            set_in(*CLIENT, to={"url": "https://a:b/"}),
            [
                'webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse "https://a:b/": invalid '
                f'port ":b" after host; {FORM}'
            ],
            id="url-with-a-bad-port",
        ),
        pytest.param(
            set_in(*CLIENT, to={"url": "127.0.0.1:8443"}),
            [
                'webhooks[0].clientConfig.url: Required value: url must be a valid URL: parse "127.0.0.1:8443": first '
                f"path segment in URL cannot contain colon; {FORM}"
            ],
            id="url-without-scheme",
        ),
        pytest.param(
            set_in(*CLIENT, to={"service": {"name": "", "namespace": "n", "port": 0, "path": "/a//B/"}}),
            [
                "webhooks[0].clientConfig.service.name: Required value",
                "webhooks[0].clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and "
                "65535, inclusive",
                'webhooks[0].clientConfig.service.path: Invalid value: "/a//B/": segment[1] may not be empty',
                f'webhooks[0].clientConfig.service.path: Invalid value: "/a//B/": segment[2]: {DNS}',
            ],
            id="service",
        ),
        pytest.param(
            set_in(*HOOK, "matchConditions", to=[{"name": "", "expression": " "}, CONDITION] * 2),
            [
                "webhooks[0].matchConditions[0].expression: Required value",
                "webhooks[0].matchConditions[0].name: Required value",
                "webhooks[0].matchConditions[2].expression: Required value",
                "webhooks[0].matchConditions[2].name: Required value",
                'webhooks[0].matchConditions[3].name: Duplicate value: "a"',
            ],
            id="match-conditions",
        ),
        pytest.param(
            set_in(
                *HOOK, "matchConditions", to=[{"name": f"c{number}", "expression": "true"} for number in range(65)]
            ),
            ["webhooks[0].matchConditions: Too many: 65: must have at most 64 items"],
            id="too-many-match-conditions",
        ),
        pytest.param(
            set_in(*HOOK, "objectSelector", to={"matchExpressions": [{"key": "a", "operator": "Is"}]}),
            [
                'webhooks[0].objectSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector '
                "operator"
            ],
            id="selector",
        ),
    ],
)  # fmt: skip
async def test_webhooks_are_refused(api: Api, change: Change, wanted: list[str]) -> None:
    obj = valid_object("MutatingWebhookConfiguration")
    change(obj)
    assert await causes(api, "MutatingWebhookConfiguration", obj) == wanted


async def test_ca_bundle_is_base64(api: Api) -> None:
    obj = valid_object("ValidatingWebhookConfiguration")
    obj["webhooks"][0]["clientConfig"]["caBundle"] = "%"
    reply = await api.call("POST", path_of("ValidatingWebhookConfiguration"), obj)
    assert (reply.status, "illegal base64 data at input byte 0" in reply.body["message"]) == (400, True)


async def test_names_of_webhooks_differ(api: Api) -> None:
    obj = valid_object("ValidatingWebhookConfiguration")
    obj["webhooks"][1]["name"] = obj["webhooks"][0]["name"]
    assert await causes(api, "ValidatingWebhookConfiguration", obj) == [
        'webhooks[1].name: Duplicate value: "a.example.io"'
    ]


def test_update_may_keep_what_new_webhooks_may_not_have() -> None:
    strategy = WebhookConfigurationStrategy()
    old = valid_object("ValidatingWebhookConfiguration")
    first, second = old["webhooks"]
    first |= {"sideEffects": "Unknown", "admissionReviewVersions": ["v2"], "matchConditions": [{"name": "a"}]}
    first["objectSelector"] = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]}
    second["name"] = first["name"]
    fields = [
        "webhooks[0].sideEffects", "webhooks[0].objectSelector.matchExpressions[0].values[0]",
        "webhooks[0].matchConditions[0].expression", "webhooks[0].admissionReviewVersions", "webhooks[1].name",
    ]  # fmt: skip
    assert [one.field for one in strategy.validate(old)] == fields
    assert strategy.validate_update({**old, "metadata": {"name": "a", "labels": {"a": "b"}}}, old) == []
    new = deepcopy(old)
    new["webhooks"][0]["matchConditions"] = [{"name": "a", "expression": " "}]
    assert [one.field for one in strategy.validate_update(new, old)] == ["webhooks[0].matchConditions[0].expression"]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        pytest.param(
            set_in("spec", to={}),
            [
                "spec.matchConstraints: Required value",
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ],
            id="empty",
        ),
        pytest.param(
            set_in("spec", "matchConstraints", "resourceRules", to=[]),
            ["spec.matchConstraints.resourceRules: Required value"],
            id="no-rules",
        ),
        pytest.param(
            set_in("spec", "matchConstraints", "resourceRules", 0, "resourceNames", to=["a", "a", "x/y"]),
            [
                'spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"',
                "spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: \"x/y\": may not contain '/'",
            ],
            id="resource-names",
        ),
        pytest.param(
            set_in("spec", "paramKind", to={"apiVersion": "a/b/c"}),
            [
                'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
                "spec.paramKind.kind: Required value",
            ],
            id="param-kind",
        ),
        pytest.param(
            set_in("spec", "paramKind", to={"apiVersion": "a.io/", "kind": "Thing"}),
            ['spec.paramKind.apiVersion: Invalid value: "a.io/": version must be specified'],
            id="param-version",
        ),
        pytest.param(
            set_in("spec", "variables", to=[{"name": "for", "expression": "1"}, {"name": "b"}, LABELS]),
            [
                'spec.variables[0].name: Invalid value: "for": name is not a valid CEL identifier',
                "spec.variables[1].expression: Required value: expression is not specified",
            ],
            id="variables",
        ),
        pytest.param(
            set_in("spec", "validations", to=[INVALID_VALIDATION]),
            [
                "spec.validations[0].expression: Required value: expression is not specified",
                'spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified',
                'spec.validations[0].message: Invalid value: "a\\nb": message must not contain line breaks',
                'spec.validations[0].reason: Unsupported value: "No": supported values: "Forbidden", "Invalid", '
                '"RequestEntityTooLarge"',
            ],
            id="validations",
        ),
        pytest.param(
            set_in("spec", "auditAnnotations", to=[{"key": "k", "valueExpression": "'v'"}, {"key": "k"}]),
            [
                "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
                'spec.auditAnnotations[1].key: Duplicate value: "k"',
            ],
            id="audit-annotations",
        ),
    ],
)  # fmt: skip
async def test_validating_policies_are_refused(api: Api, change: Change, wanted: list[str]) -> None:
    obj = valid_object("ValidatingAdmissionPolicy")
    change(obj)
    assert await causes(api, "ValidatingAdmissionPolicy", obj) == wanted


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        pytest.param(
            set_in("spec", to={}),
            [
                "spec.matchConstraints: Required value",
                "spec.mutations: Required value: mutations must contain at least one item",
                "spec.reinvocationPolicy: Required value",
            ],
            id="empty",
        ),
        pytest.param(
            set_in("spec", "matchConstraints", "resourceRules", 0, "operations", to=["DELETE"]),
            [
                'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", '
                '"CONNECT", "CREATE", "UPDATE"'
            ],
            id="deletion",
        ),
        pytest.param(
            set_in("spec", "mutations", to=[{}, {"patchType": "Merge"}, {"patchType": "JSONPatch"}]),
            [
                "spec.mutations[0].patchType: Required value",
                'spec.mutations[1].patchType: Unsupported value: "Merge": supported values: "ApplyConfiguration", '
                '"JSONPatch"',
                "spec.mutations[2].jsonPatch: Required value: must be specified when patchType is JSONPatch",
            ],
            id="patch-types",
        ),
        pytest.param(
            set_in("spec", "mutations", 0, "jsonPatch", to={"expression": "[]"}),
            [
                'spec.mutations[0].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is '
                "ApplyConfiguration"
            ],
            id="both-patches",
        ),
        pytest.param(
            set_in("spec", "mutations", 0, "applyConfiguration", to={"expression": " "}),
            ["spec.mutations[0].applyConfiguration.expression: Required value"],
            id="no-expression",
        ),
    ],
)
async def test_mutating_policies_are_refused(api: Api, change: Change, wanted: list[str]) -> None:
    obj = valid_object("MutatingAdmissionPolicy")
    change(obj)
    assert await causes(api, "MutatingAdmissionPolicy", obj) == wanted


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        pytest.param(
            set_in("spec", to={}),
            [
                "spec.policyName: Required value",
                "spec.validationActions: Required value: at least one validation action is required",
            ],
            id="empty",
        ),
        pytest.param(
            set_in("spec", "validationActions", to=["Deny", "Warn", "Log"]),
            [
                'spec.validationActions[2]: Unsupported value: "Log": supported values: "Audit", "Deny", "Warn"',
                'spec.validationActions: Invalid value: ["Deny","Warn","Log"]: must not contain both Deny and Warn '
                "(repeating the same validation failure information in the API response and headers serves no purpose)",
            ],
            id="actions",
        ),
        pytest.param(
            set_in("spec", "paramRef", to={"name": "a", "selector": {}, "parameterNotFoundAction": "Wait"}),
            [
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
                'spec.paramRef.parameterNotFoundAction: Unsupported value: "Wait": supported values: "Deny", "Allow"',
            ],
            id="name-and-selector",
        ),
        pytest.param(
            set_in("spec", "paramRef", to={"namespace": "default"}),
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                "spec.paramRef.parameterNotFoundAction: Required value",
            ],
            id="no-param",
        ),
        pytest.param(
            set_in("spec", "matchResources", "matchPolicy", to="Some"),
            ['spec.matchResources.matchPolicy: Unsupported value: "Some": supported values: "Equivalent", "Exact"'],
            id="matched",
        ),
    ],
)
async def test_validating_bindings_are_refused(api: Api, change: Change, wanted: list[str]) -> None:
    obj = valid_object("ValidatingAdmissionPolicyBinding")
    change(obj)
    assert await causes(api, "ValidatingAdmissionPolicyBinding", obj) == wanted


async def test_mutating_bindings_cannot_bind_deletions(api: Api) -> None:
    obj = valid_object("MutatingAdmissionPolicyBinding")
    matched = deepcopy(VALID_OBJECTS["ValidatingAdmissionPolicy"]["spec"]["matchConstraints"])
    matched["resourceRules"][0]["operations"] = ["CREATE", "DELETE"]
    obj["spec"]["matchResources"] = matched
    (cause,) = await causes(api, "MutatingAdmissionPolicyBinding", obj)
    assert cause.startswith('spec.matchResources.resourceRules.operations: Unsupported value: "DELETE"')


async def test_status_of_a_policy_is_checked(api: Api) -> None:
    kind = "ValidatingAdmissionPolicy"
    made = await api.post(path_of(kind), valid_object(kind))
    made["status"] = {"typeChecking": {"expressionWarnings": [{"fieldRef": " ", "warning": ""}]}}
    reply = await api.call("PUT", f"{path_of(kind)}/a/status", made)
    assert [one["field"] for one in reply.body["details"]["causes"]] == [
        "status.typeChecking.expressionWarnings[0].warning",
        "status.typeChecking.expressionWarnings[0].fieldRef",
    ]


async def test_name_for_static_files_is_warned_about(api: Api) -> None:
    kind = "ValidatingAdmissionPolicyBinding"
    reply = await api.call("POST", path_of(kind), {**valid_object(kind), "metadata": {"name": "a.static.k8s.io"}})
    assert reply.status == 201
    assert "will be reserved for static manifest-based configurations" in reply.headers["Warning"]
