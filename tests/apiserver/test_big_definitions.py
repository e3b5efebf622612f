"""Definitions of the size and kind that cert-manager and Argo have."""

from typing import Any

import pytest

from tests.kit.api import Api
from tests.kit.big_definitions import ISSUERS, WORKFLOW
from tests.kit.custom_resources import DEFINITIONS, Json, definition, version

pytestmark = pytest.mark.kcr_virtual
ISSUER_PATH = "/apis/ex.io/v1/namespaces/default/issuers"
WORKFLOW_PATH = "/apis/ex.io/v1/namespaces/default/workflows"
ACCOUNT = {"server": "https://acme.example.dev/directory", "account": {"name": "account"}}
POD = {"containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}


async def created(api: Api, path: str, kind: str, spec: Json) -> Any:
    body = {"apiVersion": "ex.io/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    reply = await api.call("POST", f"{path}?fieldValidation=Strict&dryRun=All", body)
    if reply.status == 201:
        return reply.body["spec"]
    return [f"{cause['field']}: {cause['message']}" for cause in reply.body["details"]["causes"]]


ISSUER_CASES: dict[str, tuple[Json, list[str] | None]] = {
        "one-of": ({"ca": {"secretName": "ca"}}, None),
        "none-of": (
            {}, [
                '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found none valid',
                "spec.acme: Required value",
                "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
                "correct the existing errors to complete validation",
            ]),
        "two-of": (
            {"ca": {"secretName": "ca"}, "selfSigned": {}},
            ['<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2']),
        "rule-with-defaults": (
            {"ca": {"secretName": "ca"}, "privateKey": {"size": 256}},
            ["spec.privateKey.size: Invalid value: 256 is no size of a key of RSA"]),
        "durations": (
            {"ca": {"secretName": "ca"}, "renewBefore": "3000h"},
            ["spec.renewBefore: Invalid value: must be shorter than the duration"]),
        "pod-template": (
            {"acme": {**ACCOUNT, "solvers": [{"http01": {"podTemplate": {"spec": POD}}}]}}, None),
        "rule-of-an-item": (
            {"acme": {**ACCOUNT, "solvers": [{}]}},
            ["spec.acme.solvers[0]: Invalid value: exactly one of http01 and dns01 is required"]),
        "deep-in-a-pod-template": (
            {"acme": {**ACCOUNT, "solvers": [{"http01": {"podTemplate": {"spec": {"containers": [
                {"name": "main", "resources": {"limits": {"cpu": "much"}}}]}}}}]}},
            ["spec.acme.solvers[0].http01.podTemplate.spec.containers[0].resources.limits.cpu: Invalid value"]),
}  # fmt: skip


async def wrong(api: Api, path: str, kind: str, cases: dict[str, tuple[Json, list[str] | None]]) -> Json:
    """Return what became of objects that should have been created, or refused otherwise."""
    found = {name: await created(api, path, kind, spec) for name, (spec, _) in cases.items()}
    return {name: found[name] for name, (_, refusal) in cases.items() if not is_as_said(found[name], refusal)}


def is_as_said(found: Any, refusal: list[str] | None) -> bool:
    if refusal is None or not isinstance(found, list):
        return refusal is None and isinstance(found, dict)
    return len(found) == len(refusal) and all(map(str.startswith, found, refusal))


async def test_issuers_are_checked_as_a_whole(api: Api) -> None:
    await api.post(DEFINITIONS, definition(*ISSUERS, plural="issuers", kind="Issuer"))
    assert await wrong(api, ISSUER_PATH, "Issuer", ISSUER_CASES) == {}


async def test_issuers_are_served_in_the_versions_that_are_served(api: Api) -> None:
    await api.post(DEFINITIONS, definition(*ISSUERS, plural="issuers", kind="Issuer"))
    body = {"apiVersion": "ex.io/v1", "kind": "Issuer", "metadata": {"name": "a"}, "spec": {"ca": {"secretName": "ca"}}}
    spec = (await api.post(ISSUER_PATH, body))["spec"]
    assert spec["privateKey"] == {"algorithm": "RSA", "size": 2048}
    assert (spec["duration"], spec["usages"]) == ("2160h", ["digital signature"])
    old = await api.call("GET", f"{ISSUER_PATH.replace('v1', 'v1beta1')}/a")
    assert (old.body["apiVersion"], old.headers["Warning"]) == (
        "ex.io/v1beta1", '299 - "ex.io/v1beta1 Issuer is deprecated"',
    )  # fmt: skip
    assert (await api.call("GET", ISSUER_PATH.replace("v1", "v1alpha1"))).status == 404


WORKFLOW_CASES: dict[str, tuple[Json, list[str] | None]] = {
        "good": (
            {
                "entrypoint": "main", "arguments": {"any": [1, {"b": None}]},
                "templates": [
                    {"name": "main", "tasks": [{"name": "a", "template": "p"},
                                               {"name": "b", "template": "p", "after": ["a"], "with": [1, "x", {}]}]},
                    {"name": "p", "pod": POD, "retries": "5",
                     "patch": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": 1}}},
                ],
            },
            None),
        "entrypoint": ({"entrypoint": "x", "templates": [{"name": "main"}]},
                     ["spec.entrypoint: Invalid value: there is no template x"]),
        "twice": ({"entrypoint": "main", "templates": [{"name": "main"}, {"name": "main"}]},
                     ['spec.templates[1]: Duplicate value: {"name":"main"}']),
        "task": (
            {"entrypoint": "main", "templates": [{"name": "main", "tasks": [
                {"name": "a", "template": "p", "after": ["z"]}]}]},
            ["spec.templates[0]: Invalid value: tasks wait for tasks of the same template"]),
        "embedded": ({"entrypoint": "main", "templates": [{"name": "main", "patch": {"kind": "A"}}]},
                     ["spec.templates[0].patch.apiVersion: Required value", "<nil>: Invalid value: null"]),
}  # fmt: skip


async def test_workflows_keep_what_is_open_and_check_the_rest(api: Api) -> None:
    await api.post(DEFINITIONS, definition(version("v1", WORKFLOW), plural="workflows", kind="Workflow"))
    assert await wrong(api, WORKFLOW_PATH, "Workflow", WORKFLOW_CASES) == {}
    good = WORKFLOW_CASES["good"][0]
    assert await created(api, WORKFLOW_PATH, "Workflow", good) == good
