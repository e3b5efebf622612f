"""Which requests a rule matches.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules/rules_test.go.
"""

from typing import Any

import pytest

from kcr_devcluster.apiserver.admission.rules import (
    equivalents,
    group_version_kind,
    is_exempt,
    matched_kind,
    selects_object,
)
from kcr_devcluster.apiserver.kinds.catalogue import (
    AUTOSCALERS,
    DEPLOYMENTS,
    EVENTS,
    KINDS,
    NAMESPACES,
    NODES,
    PODS,
    VALIDATING_POLICIES,
)
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.served import ServedIndex
from kcr_devcluster.apiserver.kinds.views import VIEWS
from kcr_devcluster.apiserver.storage.admission import IN_PROCESS, AdmissionAttributes

SERVED = ServedIndex((*KINDS, *VIEWS))
ANY = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}


def request(kind: Kind, operation: str = "CREATE", subresource: str = "") -> AdmissionAttributes:
    namespace = "default" if kind.type.namespaced else "team" if kind is NAMESPACES else ""
    return AdmissionAttributes(operation, kind, kind, "a", namespace, "a", subresource, IN_PROCESS)


def matches(attributes: AdmissionAttributes, **rule: Any) -> bool:
    return matched_kind([{**ANY, **rule}], attributes, SERVED, is_exact=True) is not None


@pytest.mark.parametrize(
    ("resource", "subresource", "expected"),
    [
        ("pods", "", True), ("pods", "status", False), ("pods/status", "status", True), ("pods/status", "", False),
        ("pods/*", "", True), ("pods/*", "status", True), ("*", "", True), ("*", "status", False),
        ("*/status", "status", True), ("*/status", "", False), ("*/*", "", True), ("*/*", "status", True),
        ("nodes", "", False), ("nodes/*", "status", False),
    ],
)  # fmt: skip
def test_resource_names_object_or_subresource(resource: str, subresource: str, expected: bool) -> None:
    assert matches(request(PODS, subresource=subresource), resources=[resource]) is expected


@pytest.mark.parametrize(
    ("kind", "scope", "expected"),
    [
        (PODS, "Namespaced", True), (PODS, "Cluster", False), (NODES, "Namespaced", False), (NODES, "Cluster", True),
        (NAMESPACES, "Namespaced", False), (NAMESPACES, "Cluster", True), (NAMESPACES, "*", True),
    ],
)  # fmt: skip
def test_namespace_is_no_namespaced_object(kind: Kind, scope: str, expected: bool) -> None:
    assert matches(request(kind), scope=scope) is expected


def test_operation_group_and_version_all_match() -> None:
    update = request(DEPLOYMENTS, "UPDATE")
    assert matches(update, operations=["CREATE", "UPDATE"], apiGroups=["apps"], apiVersions=["v1"])
    assert not matches(update, operations=["CREATE"])
    assert not matches(update, apiGroups=[""])
    assert not matches(update, apiVersions=["v1beta1"])


def test_equivalent_version_matches_unless_exact() -> None:
    rule = {**ANY, "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}
    found = matched_kind([rule], request(AUTOSCALERS), SERVED, is_exact=False)
    assert found is not None
    assert found.type.api_version == "autoscaling/v1"
    assert matched_kind([rule], request(AUTOSCALERS), SERVED, is_exact=True) is None


def test_requested_version_comes_before_equivalent_ones() -> None:
    rules = [{**ANY, "apiVersions": ["v1"]}, {**ANY, "apiVersions": ["v2"]}]
    assert matched_kind(rules, request(AUTOSCALERS), SERVED, is_exact=False) is AUTOSCALERS


def test_events_of_both_groups_are_equivalent() -> None:
    assert [kind.type.api_version for kind in equivalents(request(EVENTS), SERVED)] == ["events.k8s.io/v1"]
    assert list(equivalents(request(PODS), SERVED)) == []


def test_configurations_of_admission_are_exempt() -> None:
    assert is_exempt(request(VALIDATING_POLICIES))
    assert not is_exempt(request(PODS))


def test_subresource_has_the_kind_of_its_objects() -> None:
    assert group_version_kind(DEPLOYMENTS, "scale") == ("autoscaling", "v1", "Scale")
    assert group_version_kind(PODS, "binding") == ("", "v1", "Binding")
    assert group_version_kind(PODS, "status") == ("", "v1", "Pod")


def test_object_selector_skips_objects_without_metadata() -> None:
    selector = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    assert selects_object(selector, {"metadata": {}}, None)
    assert not selects_object(selector, {"kind": "PodExecOptions"}, None)
    assert not selects_object(selector, None, None)
    assert selects_object({}, None, None)
