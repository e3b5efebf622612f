from collections.abc import Mapping
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, NewType, get_args
from uuid import UUID

import msgspec
import pytest
from msgspec import UNSET, Meta, Raw, UnsetType

import kcr
from kcr.api.meta import MicroTime, ObjectType
from kcr.api.selectors import LabelSelector
from kcr.api.structural import object_schema
from kcr_devcluster.apiserver.kinds.definitions.schema_rules import schema_errors

ONCE = "!oldSelf.hasValue() || self == oldSelf.value()"
Name = NewType("Name", str)
QUANTITY: Any = get_args(kcr.Quantity)[1]
INT = {"type": "integer", "format": "int64"}
TEXT = {"type": "string"}
INT_OR_STRING = {"anyOf": [{"type": "integer"}, TEXT], "x-kubernetes-int-or-string": True}


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Port(kcr.Object):
    """A port."""

    name: str
    number: int = 80
    weight: int | None = None


def schema_of(annotation: Any, **default: Any) -> dict[str, Any]:
    """Return the schema of a field with such an annotation, required unless a default is given."""
    made = ObjectType("Made", (kcr.Object,), {"__annotations__": {"field": annotation}} | default)
    found = object_schema(made)
    assert schema_errors(found, "", has_status=True) == []
    (schema,) = found["properties"].values()
    return schema if found.get("required") == ["field"] else {"optional": True, **schema}


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        pytest.param(str, TEXT, id="text"),
        pytest.param(Name, TEXT, id="new-type"),
        pytest.param(bool, {"type": "boolean"}, id="boolean"),
        pytest.param(int, INT, id="integer"),
        pytest.param(float, {"type": "number"}, id="number"),
        pytest.param(bytes, {"type": "string", "format": "byte"}, id="bytes"),
        pytest.param(datetime, {"type": "string", "format": "date-time"}, id="time"),
        pytest.param(MicroTime, {"type": "string", "format": "date-time"}, id="micro-time"),
        pytest.param(date, {"type": "string", "format": "date"}, id="date"),
        pytest.param(UUID, {"type": "string", "format": "uuid"}, id="uuid"),
        pytest.param(kcr.IntOrString, INT_OR_STRING, id="int-or-string"),
        pytest.param(Raw, {"x-kubernetes-preserve-unknown-fields": True}, id="raw"),
        pytest.param(Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, id="literal"),
        pytest.param(Literal[1, 2], {"type": "integer", "enum": [1, 2]}, id="literal-of-numbers"),
        pytest.param(
            Literal["a"] | Literal["b", "c"], {"type": "string", "enum": ["a", "b", "c"]}, id="union-of-literals"
        ),
        pytest.param(Color, {"type": "string", "enum": ["red", "blue"]}, id="enum"),
        pytest.param(int | None, {**INT, "nullable": True}, id="required-and-nullable"),
        pytest.param(tuple[int, ...], {"type": "array", "items": INT}, id="tuple"),
        pytest.param(list[str], {"type": "array", "items": TEXT}, id="list"),
        pytest.param(
            frozenset[str], {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}, id="set"
        ),
        pytest.param(Mapping[str, int], {"type": "object", "additionalProperties": INT}, id="map"),
        pytest.param(
            Mapping[str, Any], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, id="any-object"
        ),
        pytest.param(
            Mapping[str, tuple[str, ...]],
            {"type": "object", "additionalProperties": {"type": "array", "items": TEXT}},
            id="map-of-lists",
        ),
        pytest.param(
            Port,
            {
                "description": "A port.", "type": "object", "required": ["name"],
                "properties": {"name": TEXT, "number": {**INT, "default": 80}, "weight": INT},
            },
            id="object",
        ),
        pytest.param(
            kcr.ObjectMeta, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, id="metadata"
        ),
    ],
)  # fmt: skip
def test_type_has_its_schema(annotation: Any, schema: dict[str, Any]) -> None:
    assert schema_of(annotation) == schema


@pytest.mark.parametrize(
    ("annotation", "constraints"),
    [
        pytest.param(Annotated[int, Meta(ge=1, le=9)], {**INT, "minimum": 1, "maximum": 9}, id="limits"),
        pytest.param(
            Annotated[int, Meta(gt=1, lt=9, multiple_of=2)],
            {**INT, "minimum": 1, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": True, "multipleOf": 2},
            id="exclusive-limits",
        ),
        pytest.param(
            Annotated[str, Meta(min_length=1, max_length=63, pattern="^a")],
            {**TEXT, "minLength": 1, "maxLength": 63, "pattern": "^a"},
            id="text",
        ),
        pytest.param(
            Annotated[bytes, Meta(max_length=4)], {"type": "string", "format": "byte", "maxLength": 8}, id="base64"
        ),
        pytest.param(
            Annotated[tuple[str, ...], Meta(min_length=1), kcr.ListType("set")],
            {"type": "array", "items": TEXT, "minItems": 1, "x-kubernetes-list-type": "set"},
            id="set",
        ),
        pytest.param(
            Annotated[Mapping[str, str], Meta(max_length=2)],
            {"type": "object", "additionalProperties": TEXT, "maxProperties": 2},
            id="map",
        ),
        pytest.param(
            Annotated[str, Meta(title="A", description="Of it.", extra_json_schema={"format": "hostname"})],
            {**TEXT, "title": "A", "description": "Of it.", "format": "hostname"},
            id="anything-else",
        ),
        pytest.param(
            Annotated[str, kcr.Validation(ONCE, "is fixed", message_expression="self", optional_old_self=True)],
            {**TEXT, "x-kubernetes-validations": [
                {"rule": ONCE, "message": "is fixed", "messageExpression": "self", "optionalOldSelf": True},
            ]},
            id="rule",
        ),
        pytest.param(
            kcr.Quantity, {**INT_OR_STRING, "pattern": QUANTITY.extra_json_schema["pattern"]}, id="quantity"
        ),
        pytest.param(
            Annotated[Raw, Meta(extra_json_schema={"type": "object", "x-kubernetes-embedded-resource": True})],
            {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-embedded-resource": True},
            id="embedded-resource",
        ),
    ],
)  # fmt: skip
def test_constraint_is_in_the_schema(annotation: Any, constraints: dict[str, Any]) -> None:
    assert schema_of(annotation) == constraints


@pytest.mark.parametrize(
    ("annotation", "default", "schema"),
    [
        pytest.param(int, 1, {**INT, "default": 1}, id="number"),
        pytest.param(int, 0, {**INT, "default": 0}, id="zero"),
        pytest.param(bool, False, {"type": "boolean", "default": False}, id="false"),
        pytest.param(str, "", {**TEXT, "default": ""}, id="empty-text"),
        pytest.param(
            Annotated[str, Meta(pattern="^$|^a$")], "", {**TEXT, "pattern": "^$|^a$", "default": ""}, id="empty-match"
        ),
        pytest.param(bytes, b"", {"type": "string", "format": "byte"}, id="empty-bytes"),
        pytest.param(Annotated[str, Meta(min_length=1)], "", {**TEXT, "minLength": 1}, id="length-that-refuses-it"),
        pytest.param(Annotated[str, Meta(pattern="^a$")], "", {**TEXT, "pattern": "^a$"}, id="pattern-that-may"),
        pytest.param(
            Annotated[str, kcr.Validation("self == oldSelf")], "",
            {**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}, id="rule-that-may",
        ),
        pytest.param(Literal["", "a"], "", {**TEXT, "enum": ["", "a"], "default": ""}, id="empty-member"),
        pytest.param(int | None, None, INT, id="none"),
        pytest.param(tuple[int, ...], (), {"type": "array", "items": INT}, id="empty-list"),
        pytest.param(tuple[int, ...], (1, 2), {"type": "array", "items": INT, "default": [1, 2]}, id="list"),
        pytest.param(Raw | UnsetType, UNSET, {"x-kubernetes-preserve-unknown-fields": True}, id="unset"),
        pytest.param(Color, Color.RED, {"type": "string", "enum": ["red", "blue"], "default": "red"}, id="enum"),
        pytest.param(
            Mapping[str, str], {"a": "b"}, {"type": "object", "additionalProperties": TEXT, "default": {"a": "b"}},
            id="map",
        ),
    ],
)  # fmt: skip
def test_default_is_that_which_the_class_writes(annotation: Any, default: Any, schema: dict[str, Any]) -> None:
    assert schema_of(annotation, field=default) == {"optional": True, **schema}


def test_default_of_an_object_is_written_whole() -> None:
    assert schema_of(Port, field=Port(name="http"))["default"] == {"name": "http", "number": 80}


def test_conditions_are_a_map_by_type() -> None:
    found = schema_of(tuple[kcr.Condition, ...])
    assert found["x-kubernetes-list-map-keys"] == ["type"]
    assert found["items"]["required"] == ["lastTransitionTime", "message", "reason", "status", "type"]
    assert found["items"]["properties"].keys() == {*found["items"]["required"], "observedGeneration"}


def test_label_selector_is_atomic() -> None:
    assert schema_of(LabelSelector)["x-kubernetes-map-type"] == "atomic"


def test_names_are_those_on_the_wire() -> None:
    class Names(kcr.Object):
        cluster_ip: str = msgspec.field(default="", name="clusterIP")
        ready_replicas: int = 0

    assert list(object_schema(Names)["properties"]) == ["clusterIP", "readyReplicas"]


def test_rules_of_a_base_hold_for_its_classes() -> None:
    class Base(kcr.Object, validations=(kcr.Validation("a"),)):
        pass

    class Derived(Base, validations=(kcr.Validation("b"),)):
        pass

    assert object_schema(Derived)["x-kubernetes-validations"] == [{"rule": "a"}, {"rule": "b"}]
    assert object_schema(Base)["x-kubernetes-validations"] == [{"rule": "a"}]


class Recursive(kcr.Object):
    inner: "Recursive | None" = None


class Website(kcr.Resource, api_version="example.dev/v1", plural="websites"):
    pass


@pytest.mark.parametrize(
    ("annotation", "fault"),
    [
        pytest.param(Any, "Made.field: it has no type: give it one, or carry it as bytes with msgspec.Raw", id="any"),
        pytest.param(tuple, r"its items have no type: write tuple\[str, ...\]", id="tuple-of-anything"),
        pytest.param(dict, r"its values have no type: write Mapping\[str, str\]", id="dict-of-anything"),
        pytest.param(Recursive, "Recursive.inner: Recursive holds itself, .*: carry it as msgspec.Raw", id="recursive"),
        pytest.param(Website, "Website is a kind, and is encoded without apiVersion .*embedded-resource", id="kind"),
        pytest.param(str | bytes, r"str \| bytes is a union, .*: use an optional field for each", id="union"),
        pytest.param(Literal["a", 1], "its values are of several types", id="mixed-literal"),
        pytest.param(tuple[int, int], "a tuple of fixed length has no structural schema", id="fixed-tuple"),
        pytest.param(Mapping[int, str], "keys of maps are text", id="map-by-number"),
        pytest.param(timedelta, "timedelta has no schema: use a scalar", id="duration"),
        pytest.param(Annotated[int | str, Meta(min_length=1)], "min_length is for text", id="length-of-int-or-string"),
        pytest.param(Annotated[int, kcr.ListType("set")], "kcr.ListType is for lists", id="list-type-of-a-number"),
        pytest.param(Annotated[tuple[Port, ...], kcr.ListType("map")], "a list of type map has keys", id="map-list"),
        pytest.param(
            Annotated[tuple[Port, ...], kcr.ListType("map", keys=("nmae",))], "no field 'nmae': name one of",
            id="map-key",
        ),
        pytest.param(
            Annotated[tuple[Port, ...], kcr.ListType("map", keys=("weight",))], "the key 'weight' .* is optional",
            id="optional-map-key",
        ),
    ],
)  # fmt: skip
def test_what_no_schema_can_say_names_class_field_and_remedy(annotation: Any, fault: str) -> None:
    with pytest.raises(TypeError, match=fault):
        schema_of(annotation)


@pytest.mark.parametrize(
    ("namespace", "fault"),
    [
        pytest.param({"size": 1}, "Made.size: it has a value and no type, .*: write `size: int = …`", id="value"),
        pytest.param(
            {"__annotations__": {"size": "Missing"}}, "Made: .*'Missing' is not defined: import in", id="name"
        ),
    ],
)
def test_class_with_a_slip_is_told_its_remedy(namespace: dict[str, Any], fault: str) -> None:
    with pytest.raises(TypeError, match=fault):
        object_schema(ObjectType("Made", (kcr.Object,), {"__module__": __name__, **namespace}))


def test_constant_of_a_class_is_no_field() -> None:
    class Sized(kcr.Object):
        LIMIT = 5
        _unit = "m"
        shown: ClassVar[str] = "size"
        size: int = LIMIT

    assert list(object_schema(Sized)["properties"]) == ["size"]


@pytest.mark.parametrize(
    ("keyword", "given"),
    [
        pytest.param("short_names", "web", id="text"),
        pytest.param("columns", kcr.PrinterColumn("Age", ".metadata.creationTimestamp"), id="column"),
        pytest.param("validations", kcr.Validation("self.a > 0"), id="rule"),
        pytest.param("validations", ("self.a > 0",), id="rule-as-text"),
    ],
)
def test_tuple_without_its_comma_is_refused(keyword: str, given: object) -> None:
    with pytest.raises(
        TypeError, match=rf"^Made: {keyword}.* is .*: (put it into a tuple, \(…,\)|give it a kcr.Validation)"
    ):
        ObjectType("Made", (kcr.Object,), {}, **{keyword: given})
