"""Values of custom resources as expressions see them, and the types that CEL has for schemas.

Numbers are doubles even where their text is an integer, and fields whose names are no identifiers of CEL have escaped
names. Other values are passed unchanged.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/cel/common/{values,schemas}.go, pkg/cel/escaping.go.
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from kcr.api.durations import parse_duration
from kcr_devcluster.apiserver.structural.shapes import INT_OR_STRING, PRESERVES, Schema

_SCALARS: Mapping[str, str] = {"string": "string", "integer": "int", "number": "double", "boolean": "bool"}
_STRINGS: Mapping[str, str] = {"byte": "bytes", "date": "timestamp", "date-time": "timestamp", "duration": "duration"}
_RESERVED = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[./-]")

Converter = Callable[[Any], Any]


def type_of(schema: Schema) -> str:
    """Return the CEL type of values, `dyn` for objects with fields and for values that may be of several types."""
    if schema.get(INT_OR_STRING) or schema.get("nullable") or schema.get(PRESERVES):
        return "dyn"
    inner = schema.get("additionalProperties")
    match schema.get("type"):
        case "array":
            return f"list({_inner_type(schema.get('items') or {})})"
        case "object" if isinstance(inner, Mapping) and not schema.get("properties"):
            return f"map(string, {_inner_type(inner)})"
        case "string":
            return _STRINGS.get(schema.get("format", ""), "string")
        case name:
            return _SCALARS.get(name or "", "dyn")


def _inner_type(schema: Schema) -> str:
    # In lists and maps, times and durations stay the texts that they are.
    found = type_of(schema)
    return "string" if found in ("timestamp", "duration") else found


def escape(name: str) -> str:
    """Return the name of a field as expressions write it."""
    return f"__{name}__" if name in _RESERVED else _ESCAPED.sub(lambda found: _ESCAPES[found[0]], name)


def temporal(value: Any) -> datetime | timedelta | None:
    """Return the time or duration that a text stands for, None for none."""
    if isinstance(value, datetime | timedelta):
        return value
    with suppress(ValueError, TypeError, OverflowError):
        if re.match(r"\d{4}-", value):
            moment = datetime.fromisoformat(value.upper())
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return timedelta(microseconds=parse_duration(value) / 1000)
    return None


def converter(schema: Schema) -> Converter | None:
    """Return the function that converts a value for expressions; None where values need no conversion."""
    if schema.get(INT_OR_STRING):
        return None
    match schema.get("type"):
        case "number":
            return lambda value: float(value) if type(value) is int else value
        case "string" if schema.get("format") == "byte":
            return _bytes
        case "array":
            return _list_converter(converter(schema.get("items") or {}))
        case "object":
            return _object_converter(schema)
    return None


def scalar_converter(schema: Schema) -> Converter | None:
    """Return the converter of the value of a rule's own schema, which decodes times and durations as well."""
    if type_of(schema) in ("timestamp", "duration"):
        return lambda value: found if (found := temporal(value)) is not None else value
    return converter(schema)


def _bytes(value: Any) -> Any:
    with suppress(Base64Error, ValueError, TypeError):
        return b64decode(value, validate=True)
    return value


def _list_converter(inner: Converter | None) -> Converter | None:
    if inner is None:
        return None
    return lambda value: [inner(one) for one in value] if type(value) is list else value


def _object_converter(schema: Schema) -> Converter | None:
    other = schema.get("additionalProperties")
    if isinstance(other, Mapping):
        inner = converter(other)
        if inner is None:
            return None
        return lambda value: {name: inner(one) for name, one in value.items()} if type(value) is dict else value
    fields = schema.get("properties") or {}
    converters = {name: made for name, one in fields.items() if (made := converter(one)) is not None}
    renamed = {name: escape(name) for name in fields if escape(name) != name}
    if not converters and not renamed:
        return None

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            return value
        found = {name: converters[name](one) if name in converters else one for name, one in value.items()}
        for name, escaped in renamed.items():
            if name in found:
                found[escaped] = found.pop(name)
        return found

    return convert
