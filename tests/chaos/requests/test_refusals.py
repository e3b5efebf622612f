"""Which refusals of an object that is written back as it was shown the schema of a version explains."""

from typing import Any

import pytest

from tests.chaos.requests.refusals import explains

_TEXT, _DEFAULTED = {"type": "string"}, {"type": "string", "default": "x"}
_ITEMS = {"type": "object", "properties": {"a": _TEXT, "b": _DEFAULTED}, "required": ["a"]}
_MAP = {"type": "array", "items": _ITEMS, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}


@pytest.mark.parametrize(
    ("known", "spec", "field", "expected"),
    [
        pytest.param({"b": _TEXT, "c": _DEFAULTED}, {}, "spec.b", True, id="a-default-changes-what-lacks-a-field"),
        pytest.param({"b": _TEXT, "c": _DEFAULTED}, {"c": ""}, "spec.b", False, id="what-did-not-change-is-valid"),
        pytest.param({"b": _TEXT, "c": _DEFAULTED}, {"b": ""}, "spec.b", False, id="the-field-is-there"),
        pytest.param({"b": _TEXT, "c": _DEFAULTED}, {}, "spec.c", False, id="the-field-is-filled-in"),
        pytest.param({"b": _TEXT, "c": _DEFAULTED}, {}, "spec.d", False, id="no-such-field-is-required"),
        pytest.param({"b": _MAP}, {"b": [{}, {"a": ""}]}, "spec.b[0].a", True, id="an-item-lacks-a-field"),
        pytest.param({"b": _MAP}, {"b": [{}, {"a": ""}]}, "spec.b[1].a", False, id="another-item-lacks-a-field"),
        pytest.param({"b": _MAP}, {"b": [{}, {"b": ""}]}, "spec.b[1].a", False, id="only-another-item-changed"),
        pytest.param({"b": {"x-kubernetes-embedded-resource": True}}, {"b": {}}, "spec.b.kind", True, id="embedded"),
        pytest.param({"b": {"enum": ["y"], "default": "x"}}, {}, "spec.b", True, id="a-default-that-is-not-listed"),
        pytest.param({"b": {"enum": ["y"]}}, {"b": "x"}, "spec.b", False, id="a-value-that-was-there-before"),
        pytest.param({"b": {"x-kubernetes-validations": [{}]}}, {"b": 1}, "spec.b", True, id="a-rule-at-its-place"),
        pytest.param({"b": {"x-kubernetes-validations": [{}]}}, {"b": 1}, "spec.c", False, id="a-rule-elsewhere"),
    ],
)
def test_schema_explains_the_refusals_it_demands(known: Any, spec: Any, field: str, expected: bool) -> None:
    schema = {"properties": {"spec": {"type": "object", "properties": known, "required": ["b"]}}}
    assert explains(schema, {"spec": spec}, [{"field": field}]) is expected


def test_refusal_is_explained_by_each_of_its_causes() -> None:
    schema = {"properties": {"spec": {"properties": {"b": _TEXT, "c": _DEFAULTED}, "required": ["b"]}}}
    assert explains(schema, {"spec": {}}, [{"field": "spec.b"}, {"field": "<nil>"}])
    assert not explains(schema, {"spec": {}}, [{"field": "spec.b"}, {"field": "spec.d"}])
    assert not explains(schema, {"spec": {}}, [{"field": "<nil>"}])
    assert not explains(schema, {"spec": {}}, None)
