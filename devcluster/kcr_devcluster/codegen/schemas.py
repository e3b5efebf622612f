"""A structural schema of one value: its scalar type, the limits that msgspec checks, and the rest."""

import re
import warnings
from collections.abc import Mapping
from typing import Any

from kcr_devcluster.codegen import model
from kcr_devcluster.codegen.model import CallExpr, Expr

Schema = Mapping[str, Any]

_OPAQUE, _INT_OR_STRING = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"
_SCALARS: Mapping[tuple[str, str], str] = {
    ("string", "date-time"): "datetime", ("string", "byte"): "bytes", ("integer", "int64"): "int",
}  # fmt: skip
_PLAIN: Mapping[str, str] = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
# Keywords that types, defaults and docstrings express.
_TOLD = {
    "type", "properties", "required", "items", "additionalProperties", "description", "default", "nullable", "enum",
    "title", _OPAQUE, _INT_OR_STRING,
}  # fmt: skip
_NUMBER = {"minimum": "ge", "maximum": "le", "multipleOf": "multiple_of"}
_EXCLUSIVE = {"exclusiveMinimum": ("minimum", "ge", "gt"), "exclusiveMaximum": ("maximum", "le", "lt")}
_TEXT = {"minLength": "min_length", "maxLength": "max_length", "pattern": "pattern"}
# The limits that msgspec checks, by the type of a value.
_LIMITS: Mapping[str, Mapping[str, str]] = {
    "int": _NUMBER,
    "float": _NUMBER,
    "str": _TEXT,
    "array": {"minItems": "min_length", "maxItems": "max_length"},
    "object": {"minProperties": "min_length", "maxProperties": "max_length"},
}


def is_opaque(schema: Schema) -> bool:
    """Return whether values may have fields that the schema does not name, or be anything at all."""
    named = "type" in schema or schema.get(_INT_OR_STRING)
    return not named or bool(schema.get(_OPAQUE) or schema.get("x-kubernetes-embedded-resource"))


def scalar(schema: Schema) -> str:
    """Return the type of a value without fields or items; empty for lists, maps and objects with fields."""
    if schema.get(_INT_OR_STRING):
        return "IntOrString"
    if is_opaque(schema):
        return "msgspec.Raw"
    kind = schema["type"]
    return _SCALARS.get((kind, schema.get("format", ""))) or _PLAIN.get(kind, "")


def enumerated(schema: Schema) -> Expr:
    """Return the type of one of some values; empty where there is no such type."""
    values = [one for one in schema["enum"] if one is not None]
    plain = all(isinstance(one, str | int) for one in values)
    return CallExpr("Literal", tuple(model.literal(one) for one in values), "[]") if values and plain else ""


def constraints(schema: Schema, of: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the keywords of a schema beside its type: arguments of msgspec.Meta, and the rest as it stands.

    Args:
        schema: Of the value.
        of: The type whose limits msgspec checks: a scalar type, `array` or `object`; empty for none.
    """
    known = _LIMITS.get(of, {})
    limits = {"title": schema["title"]} if "title" in schema else {}
    extra = {}
    for name, said in schema.items():
        if name in known and _is_checked(name, said, of):
            limits[known[name]] = said
        elif name not in _TOLD and not _is_told(name, said, schema, of):
            extra[name] = said
    if is_opaque(schema) and "type" in schema:
        # A list needs a schema of its items, whatever they are.
        extra |= {name: schema[name] for name in ("items", "type") if name in schema}
    if "enum" in schema and not enumerated(schema):
        extra["enum"] = schema["enum"]
    return _exclusive(limits, extra), extra


def _is_told(name: str, said: Any, schema: Schema, of: str) -> bool:
    """Return whether the type says it already."""
    if name == "format":
        return (of, said) in (("datetime", "date-time"), ("bytes", "byte"), ("int", "int64"))
    return name == "anyOf" and bool(schema.get(_INT_OR_STRING))


def _is_checked(name: str, said: Any, of: str) -> bool:
    """Return whether msgspec can check a limit."""
    if name == "pattern":
        try:
            # Go has classes such as [[:alpha:]], of which Python only warns.
            with warnings.catch_warnings(action="error"):
                re.compile(said)
        except (re.error, Warning):
            return False
    return not (of == "int" and isinstance(said, float) and not said.is_integer())


def _exclusive(limits: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    for name, (_, inclusive, exclusive) in _EXCLUSIVE.items():
        if extra.get(name) and inclusive in limits:
            limits[exclusive] = limits.pop(inclusive)
        if name in extra and (exclusive in limits or not extra[name]):
            del extra[name]
    return limits
