"""PriorityClasses and what they do to pods.

Source: kubernetes/plugin/pkg/admission/priority/admission.go; pkg/apis/scheduling/validation/validation.go.
"""

from typing import Any

import pytest

from tests.kit.api import Api, pod

pytestmark = pytest.mark.kcr_virtual

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PODS = "/api/v1/namespaces/default/pods"


def priority_class(name: str = "high", value: int = 100, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value, **fields}


def pod_with(**spec: Any) -> dict[str, Any]:
    made = pod("a")
    made["spec"].update(spec)
    return made


async def test_two_classes_of_the_system_are_always_there(api: Api) -> None:
    classes = (await api.get(CLASSES))["items"]
    assert {one["metadata"]["name"]: (one["value"], one["preemptionPolicy"]) for one in classes} == {
        "system-cluster-critical": (2_000_000_000, "PreemptLowerPriority"),
        "system-node-critical": (2_000_001_000, "PreemptLowerPriority"),
    }


async def test_pod_has_priority_and_policy_of_its_class(api: Api) -> None:
    await api.post(CLASSES, priority_class(preemptionPolicy="Never"))
    spec = (await api.post(PODS, pod_with(priorityClassName="high")))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (100, "Never")


async def test_default_class_is_that_of_pods_that_name_none(api: Api) -> None:
    await api.post(CLASSES, priority_class("usual", 7, globalDefault=True))
    spec = (await api.post(PODS, pod_with()))["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 7)


async def test_pod_keeps_its_priority_when_its_class_is_deleted(api: Api) -> None:
    await api.post(CLASSES, priority_class())
    made = await api.post(PODS, pod_with(priorityClassName="high"))
    await api.delete(f"{CLASSES}/high")
    del made["spec"]["priority"], made["spec"]["preemptionPolicy"]
    made["metadata"]["labels"] = {"a": "b"}
    updated = await api.call("PUT", f"{PODS}/a", made)
    assert (updated.status, updated.body["spec"]["priority"]) == (200, 100)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param({"priorityClassName": "x"}, "no PriorityClass with name x was found", id="unknown"),
        pytest.param(
            {"priorityClassName": "high", "priority": 5},
            "the integer value of priority (5) must not be provided in pod spec; "
            "priority admission controller computed 100 from the given PriorityClass name",
            id="other-priority",
        ),
        pytest.param(
            {"priorityClassName": "high", "preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided in pod spec; "
            "priority admission controller computed PreemptLowerPriority from the given PriorityClass name",
            id="other-policy",
        ),
    ],
)
async def test_pod_that_contradicts_its_class_is_refused(api: Api, spec: dict[str, Any], why: str) -> None:
    await api.post(CLASSES, priority_class())
    refused = await api.call("POST", PODS, pod_with(**spec))
    assert (refused.status, refused.body["message"]) == (403, f'pods "a" is forbidden: {why}')


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        pytest.param(
            priority_class(value=1_000_000_001), 422,
            'PriorityClass.scheduling.k8s.io "high" is invalid: value: Forbidden: '
            "maximum allowed value of a user defined priority is 1000000000",
            id="too-high",
        ),
        pytest.param(
            priority_class("system-mine"), 422,
            'PriorityClass.scheduling.k8s.io "system-mine" is invalid: metadata.name: Forbidden: priority class names '
            "with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority "
            "class",
            id="system-prefix",
        ),
        pytest.param(
            priority_class(preemptionPolicy="Sometimes"), 422,
            'PriorityClass.scheduling.k8s.io "high" is invalid: preemptionPolicy: Unsupported value: "Sometimes": '
            'supported values: "PreemptLowerPriority", "Never"',
            id="unknown-policy",
        ),
        pytest.param(
            priority_class(globalDefault=True), 403,
            'priorityclasses.scheduling.k8s.io "high" is forbidden: PriorityClass usual is already marked as default. '
            "Only one default can exist",
            id="second-default",
        ),
    ],
)  # fmt: skip
async def test_class_that_cannot_be_is_refused(api: Api, fields: dict[str, Any], code: int, message: str) -> None:
    await api.post(CLASSES, priority_class("usual", 7, globalDefault=True))
    refused = await api.call("POST", CLASSES, fields)
    assert (refused.status, refused.body["message"]) == (code, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"value": 101}, "value: Forbidden: may not be changed in an update.", id="value"),
        pytest.param(
            {"preemptionPolicy": "Never"}, 'preemptionPolicy: Invalid value: "Never": field is immutable', id="policy"
        ),
    ],
)
async def test_class_never_changes_what_it_says_of_pods(api: Api, change: dict[str, Any], message: str) -> None:
    await api.post(CLASSES, priority_class())
    refused = await api.call("PATCH", f"{CLASSES}/high", change, content_type="application/merge-patch+json")
    assert refused.status == 422
    assert refused.body["message"] == f'PriorityClass.scheduling.k8s.io "high" is invalid: {message}'
    changed = await api.patch(f"{CLASSES}/high", {"description": "for what matters"})
    assert changed["metadata"]["generation"] == 1
