"""Shapes of structural schemas: what server-side apply and the engine read of them."""

from typing import Any

from kcr_devcluster.apiserver.schema.builtin import type_shape
from kcr_devcluster.apiserver.schema.shape import ABSENT
from kcr_devcluster.apiserver.structural.shapes import StructuralShape, default_of, shape_of

TEXT: dict[str, Any] = {"type": "string"}
SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": TEXT,
        "ports": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object",
                "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
        "args": {"type": "array", "items": TEXT},
        "selector": {
            "type": "object", "x-kubernetes-map-type": "atomic", "properties": {"app": TEXT},
        },
        "labels": {"type": "object", "additionalProperties": TEXT},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "size": {"x-kubernetes-int-or-string": True},
        "defaulted": {
            "type": "object", "default": {"a": 1},
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        },
    },
}  # fmt: skip
SHAPE = shape_of({"type": "object", "properties": {"spec": SPEC}}, "Widget", "v1")


def test_lists_merge_as_their_types_say() -> None:
    fields = SHAPE.fields["spec"].type.shape.fields  # type: ignore[union-attr]  # the spec has a shape
    assert (fields["ports"].list_type, fields["ports"].list_map_keys) == ("map", ("port", "protocol"))
    assert (fields["tags"].list_type, fields["args"].list_type) == ("set", "atomic")
    item = fields["ports"].type.items
    assert item is not None
    assert item.shape is not None
    assert item.shape.fields["protocol"].default == "TCP"
    assert fields["name"].required


def test_maps_are_atomic_where_they_say_so() -> None:
    fields = SHAPE.fields["spec"].type.shape.fields  # type: ignore[union-attr]  # the spec has a shape
    assert (fields["selector"].map_type, fields["labels"].map_type) == ("atomic", "granular")
    selector = fields["selector"].type.shape
    assert selector is not None
    assert selector.is_atomic


def test_nothing_is_known_of_what_is_preserved() -> None:
    fields = SHAPE.fields["spec"].type.shape.fields  # type: ignore[union-attr]  # the spec has a shape
    free = fields["free"].type
    assert (free.shape, free.items, free.field("a")) == (None, None, None)
    open_shape = shape_of({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, "Widget", "v1")
    assert open_shape.preserves_unknown
    assert list(open_shape.unknown({"a": 1, "metadata": {"b": 1}})) == ["metadata.b"]
    assert open_shape.knows({"a": {"b": 1}, "metadata": {"name": "a"}})
    assert not open_shape.knows({"a": 1, "metadata": {"b": 1}})


def test_metadata_are_those_of_every_kind() -> None:
    assert SHAPE.fields["metadata"].type.shape is type_shape("meta.v1.ObjectMeta")
    assert {"apiVersion", "kind"} <= SHAPE.fields.keys()


def test_defaults_are_made_anew_each_time() -> None:
    spec = SHAPE.fields["spec"].type.shape
    assert isinstance(spec, StructuralShape)
    field = spec.fields["defaulted"]
    made = default_of(field)
    assert made == {"a": 1, "b": 2}
    made["a"] = 9
    assert default_of(field) == {"a": 1, "b": 2}
    assert spec.fields["size"].default is ABSENT


def test_value_of_the_wrong_type_is_left_to_validation() -> None:
    value = {"spec": {"ports": {"a": 1}, "labels": [1], "name": 5}}
    SHAPE.conform(value)
    assert value == {"spec": {"ports": {"a": 1}, "labels": [1], "name": 5, "defaulted": {"a": 1, "b": 2}}}
