"""Pairs of definitions: how a field of a spec is changed, an object of the old one, and what breaks.

What breaks was seen on kube-apiserver 1.36.2: `read`, the object has other values; `write`, a write of another field is
refused; `create`, the same object is refused when it is new, or has other values. An empty set: nothing.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.kit.custom_resources import Json, definition, version

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
LIST = {"type": "array", "items": TEXT}
UNKNOWN = "x-kubernetes-preserve-unknown-fields"
RULES = "x-kubernetes-validations"
ITEMS = {"type": "array", "items": {"type": "object", "properties": {"k": TEXT, "v": TEXT}}}
KEYED = {**ITEMS, "items": {**ITEMS["items"], "required": ["k"]}, "x-kubernetes-list-type": "map",  # type: ignore[dict-item]
         "x-kubernetes-list-map-keys": ["k"]}  # fmt: skip
BOTH = {"x-kubernetes-int-or-string": True}


class Pair(NamedTuple):
    """How the field `spec.a` changes.

    Attributes:
        old: Its schema; None for no such field.
        new: Its new schema; None for no such field.
        value: Of the object; None for no value.
        breaks: What breaks.
        required: Whether the new definition requires it.
    """

    old: Json | None
    new: Json | None
    value: Any
    breaks: frozenset[str] = frozenset()
    required: bool = False


def broken(*what: str) -> frozenset[str]:
    """Return what breaks."""
    return frozenset(what)


PAIRS: Mapping[str, Pair] = {
    "nothing": Pair(TEXT, TEXT, "x"),
    "description": Pair(TEXT, {**TEXT, "description": "said"}, "x"),
    "added": Pair(None, TEXT, None),
    "added with a default": Pair(None, {**TEXT, "default": "y"}, None),
    "removed": Pair(TEXT, None, "x", broken("read")),
    "removed, in free fields": Pair({"type": "object", "properties": {"b": TEXT}},
                                    {"type": "object", "additionalProperties": TEXT}, {"b": "x"}),
    "free keys removed": Pair({"type": "object", "additionalProperties": TEXT},
                              {"type": "object", "properties": {"b": TEXT}}, {"c": "x"}, broken("read")),
    "required": Pair(TEXT, TEXT, None, broken("write", "create"), required=True),
    "required with a default": Pair(TEXT, {**TEXT, "default": "y"}, None, required=True),
    "integer to number": Pair(NUMBER, {"type": "number"}, 3),
    "number to integer": Pair({"type": "number"}, NUMBER, 2.5, broken("create")),
    "integer to both": Pair(NUMBER, BOTH, 3),
    "string to both": Pair(TEXT, BOTH, "x"),
    "both to integer": Pair(BOTH, NUMBER, "x", broken("create")),
    "string to integer": Pair(TEXT, NUMBER, "x", broken("create")),
    "string to list": Pair(TEXT, LIST, "x", broken("create")),
    "maximum": Pair(NUMBER, {**NUMBER, "maximum": 2}, 3, broken("create")),
    "maximum raised": Pair({**NUMBER, "maximum": 3}, {**NUMBER, "maximum": 9}, 3),
    "maximum lowered": Pair({**NUMBER, "maximum": 9}, {**NUMBER, "maximum": 2}, 3, broken("create")),
    "maximum removed": Pair({**NUMBER, "maximum": 3}, NUMBER, 3),
    "minimum raised": Pair({**NUMBER, "minimum": 1}, {**NUMBER, "minimum": 4}, 3, broken("create")),
    "minimum lowered": Pair({**NUMBER, "minimum": 2}, {**NUMBER, "minimum": 1}, 3),
    "exclusive maximum": Pair({**NUMBER, "maximum": 3}, {**NUMBER, "maximum": 3, "exclusiveMaximum": True}, 3,
                              broken("create")),
    "multiple": Pair(NUMBER, {**NUMBER, "multipleOf": 2}, 3, broken("create")),
    "shorter text": Pair(TEXT, {**TEXT, "maxLength": 2}, "xxx", broken("create")),
    "longer text": Pair({**TEXT, "maxLength": 3}, {**TEXT, "maxLength": 9}, "xxx"),
    "pattern": Pair(TEXT, {**TEXT, "pattern": "^y"}, "x", broken("create")),
    "pattern removed": Pair({**TEXT, "pattern": "^x"}, TEXT, "x"),
    "format": Pair(TEXT, {**TEXT, "format": "date-time"}, "x", broken("create")),
    "enum": Pair(TEXT, {**TEXT, "enum": ["y"]}, "x", broken("create")),
    "enum takes more": Pair({**TEXT, "enum": ["x"]}, {**TEXT, "enum": ["x", "y"]}, "x"),
    "enum takes less": Pair({**TEXT, "enum": ["x", "y"]}, {**TEXT, "enum": ["y"]}, "x", broken("create")),
    "fewer items": Pair(LIST, {**LIST, "maxItems": 1}, ["x", "y"], broken("create")),
    "items": Pair(LIST, {"type": "array", "items": {**TEXT, "maxLength": 1}}, ["xx"], broken("create")),
    "list is a set": Pair(LIST, {**LIST, "x-kubernetes-list-type": "set"}, ["x", "x"], broken("create")),
    "list is a map": Pair(ITEMS, KEYED, [{"k": "x"}, {"k": "x"}], broken("create")),
    "null": Pair({**TEXT, "nullable": True}, TEXT, None, broken("create")),
    "default removed": Pair({**TEXT, "default": "x"}, TEXT, None, broken("create")),
    "default changed": Pair({**TEXT, "default": "x"}, {**TEXT, "default": "y"}, None, broken("create")),
    "unknown fields": Pair({"type": "object", UNKNOWN: True}, {"type": "object"}, {"b": 1}, broken("read")),
    "rule": Pair(TEXT, {**TEXT, RULES: [{"rule": "self != 'x'"}]}, "x", broken("create")),
    "rule of the new": Pair(
        TEXT, {**TEXT, RULES: [{"rule": "oldSelf.hasValue() || self != 'x'", "optionalOldSelf": True}]}, "x",
        broken("create")),
    "rule removed": Pair({**TEXT, RULES: [{"rule": "self == 'x'"}]}, TEXT, "x"),
    "any of": Pair(TEXT, {**TEXT, "anyOf": [{"enum": ["y"]}, {"enum": ["z"]}]}, "x", broken("create")),
}  # fmt: skip


def definition_of(field: Json | None, *, plural: str, is_new: bool, required: bool = False) -> Json:
    """Return the definition of a pair; the new one has a default by which it is known to be in effect."""
    spec: Json = {"type": "object", "properties": {"other": TEXT, **({} if field is None else {"a": field})}}
    if required:
        spec["required"] = ["a"]
    marker = {"marker": {**TEXT, "default": "new"}} if is_new else {"marker": TEXT}
    schema = {"type": "object", "properties": {"spec": spec, **marker}}
    return definition(version("v1", schema), plural=plural, kind=plural.title())
