"""Rules of classes as policies: their expressions, evaluated, and what no policy can have."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import pytest

import kcr
from kcr_devcluster.apiserver.cel.admission import Declarations, compile_admission
from kcr_devcluster.apiserver.cel.metering import UNLIMITED, Budget, size_of
from kcr_devcluster.generators.policies import policy_manifests


class Port(kcr.Object):
    name: str
    number: Annotated[int, kcr.Validation("self == oldSelf", "is immutable")] = 80


class AppSpec(
    kcr.Object, validations=(kcr.Validation("!has(self.paused) || self.replicas > 0 // of self", "too few"),)
):
    replicas: Annotated[
        int,
        kcr.Validation("self <= 10", message_expression="'not ' + string(self)", reason="FieldValueForbidden"),
        kcr.Validation("!oldSelf.hasValue() || self >= oldSelf.value()", optional_old_self=True),
    ] = 1
    paused: bool = False
    until: Annotated[datetime, kcr.Validation("self > timestamp('2026-01-01T00:00:00Z')")] | None = None
    ports: Annotated[tuple[Port, ...], kcr.ListType("map", keys=("name",))] = ()
    images: tuple[Annotated[str, kcr.Validation("self.startsWith('self/')")], ...] = ()
    notes: Mapping[str, Annotated[str, kcr.Validation("self == oldSelf")]] = {}
    matrix: tuple[tuple[Annotated[int, kcr.Validation("[1].all(item, item <= self)")], ...], ...] = ()


class AppStatus(kcr.Object):
    ready: Annotated[int, kcr.Validation("self >= 0", reason="FieldValueInvalid")] = 0


class App(kcr.Resource, api_version="apps/v1", plural="apps", validations=(kcr.Validation("self.kind == 'App'"),)):
    spec: AppSpec
    status: AppStatus = AppStatus()


POLICY, BINDING = policy_manifests(App, "kcr-apps.apps", ("Warn", "Audit"))


def denials(spec: Mapping[str, Any] | None, old: Mapping[str, Any] | None = None, **fields: Any) -> list[str]:
    """Return the messages of the rules that an object violates."""
    obj = {"kind": "App", **({} if spec is None else {"spec": spec}), **fields}
    value = {"object": obj, "oldObject": None if old is None else {"kind": "App", "spec": old}}
    found, budget = [], Budget(UNLIMITED, size_of(value))
    for one in POLICY["spec"]["validations"]:
        if compile_admission(one["expression"], Declarations(), ("bool",)).evaluate(value, budget) is not True:
            found.append(one["message"])
    return found


@pytest.mark.parametrize(
    ("spec", "old", "expected"),
    [
        pytest.param(None, None, [], id="absent"),
        pytest.param({}, None, [], id="empty"),
        pytest.param({"replicas": 11}, None, ["spec.replicas: failed rule: self <= 10"], id="value"),
        pytest.param({"replicas": 0, "paused": True}, None, ["spec: too few"], id="object"),
        pytest.param(
            {"replicas": 1}, {"replicas": 2},
            ["spec.replicas: failed rule: !oldSelf.hasValue() || self >= oldSelf.value()"], id="optional-old",
        ),
        pytest.param({"replicas": 1}, {}, [], id="optional-old-is-absent"),
        pytest.param({"until": "2026-02-01T00:00:00Z"}, None, [], id="time"),
        pytest.param(
            {"until": "2025-02-01T00:00:00Z"}, None,
            ["spec.until: failed rule: self > timestamp('2026-01-01T00:00:00Z')"], id="time-too-early",
        ),
        pytest.param(
            {"ports": [{"name": "b", "number": 2}, {"name": "a", "number": 1}, {"name": "c"}]},
            {"ports": [{"name": "a", "number": 1}, {"name": "b", "number": 2}]}, [], id="items-by-key",
        ),
        pytest.param(
            {"ports": [{"name": "a", "number": 2}]}, {"ports": [{"name": "a", "number": 1}]},
            ["spec.ports[].number: is immutable"], id="item-changed",
        ),
        pytest.param({"ports": [{"name": "a", "number": 2}]}, {}, [], id="items-added"),
        pytest.param({"images": ["self/a"]}, None, [], id="items"),
        pytest.param(
            {"images": ["self/a", "b"]}, None, ["spec.images[]: failed rule: self.startsWith('self/')"], id="one-item"
        ),
        pytest.param({"notes": {"a": "1", "b": "2"}}, {"notes": {"a": "1"}}, [], id="value-added"),
        pytest.param(
            {"notes": {"a": "2"}}, {"notes": {"a": "1"}}, ["spec.notes.*: failed rule: self == oldSelf"],
            id="value-changed",
        ),
        pytest.param({"matrix": [[1], [2, 1]]}, None, [], id="loops"),
        pytest.param(
            {"matrix": [[1], [2, 0]]}, None, ["spec.matrix[][]: failed rule: [1].all(item, item <= self)"],
            id="loop-in-rule",
        ),
    ],
)  # fmt: skip
def test_rules_hold_for_the_objects_of_others(
    spec: Mapping[str, Any] | None, old: Mapping[str, Any] | None, expected: list[str]
) -> None:
    assert denials(spec, old) == expected


def test_rules_of_the_whole_object_and_of_its_status() -> None:
    assert denials({}, kind="Other", status={"ready": -1}) == [
        "failed rule: self.kind == 'App'",
        "status.ready: failed rule: self >= 0",
    ]


def test_policy_matches_the_kind_and_its_binding_has_the_actions() -> None:
    assert POLICY["spec"]["matchConstraints"] == {
        "resourceRules": [
            {
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["apps", "apps/status"],
            }
        ]
    }  # fmt: skip
    assert BINDING == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "kcr-apps.apps"},
        "spec": {"policyName": "kcr-apps.apps", "validationActions": ["Warn", "Audit"]},
    }


def test_message_expression_and_reason_are_kept() -> None:
    found = {one["message"]: one for one in POLICY["spec"]["validations"]}
    limit = found["spec.replicas: failed rule: self <= 10"]
    assert limit["messageExpression"] == "'spec.replicas: ' + ('not ' + string(object.spec.replicas))"
    assert limit["reason"] == "Forbidden"
    assert found["status.ready: failed rule: self >= 0"]["reason"] == "Invalid"


class Uncorrelated(kcr.Resource, api_version="v1", plural="ones"):
    spec: tuple[Annotated[str, kcr.Validation("self == oldSelf")], ...] = ()


class Optional(kcr.Resource, api_version="v1", plural="ones"):
    spec: Mapping[str, Annotated[str, kcr.Validation("oldSelf.hasValue()", optional_old_self=True)]] = {}


class Escaped(kcr.Resource, api_version="v1", plural="ones", validations=(kcr.Validation("has(self.a__dash__b)"),)):
    pass


class Empty(kcr.Resource, api_version="v1", plural="ones"):
    pass


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        pytest.param(Uncorrelated, "Uncorrelated: the rule `self == oldSelf` of spec[]: no policy has oldSelf in the "
                     'items of a list without keys: give it kcr.ListType("map"', id="items-without-keys"),
        pytest.param(Optional, "no policy has an optional oldSelf in a list or map: compare the whole", id="optional"),
        pytest.param(Escaped, "no policy has the escaped name in has(self.a__dash__b: put the rule on", id="escaped"),
        pytest.param(Empty, "Empty: it has no rules: declare some with validations=", id="no-rules"),
    ],
)  # fmt: skip
def test_rule_that_no_policy_can_have_is_an_error(kind: type[kcr.Resource], words: str) -> None:
    with pytest.raises(TypeError, match=re.escape(words)):
        policy_manifests(kind, "a")


def test_field_named_like_a_keyword_is_selected_as_it_is() -> None:
    class Named(
        kcr.Resource, api_version="v1", plural="ones", validations=(kcr.Validation("self.__namespace__ != ''"),)
    ):
        pass

    policy, _ = policy_manifests(Named, "a")
    assert policy["spec"]["validations"][0]["expression"] == "(object.namespace != '')"
