"""Validation of structural schemas: each value has one type, and the junctors (allOf, anyOf, …) only restrict it.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/{validation,complete}.go.
"""

from collections.abc import Iterator, Mapping, Sequence

from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden, invalid, required
from kcr_devcluster.apiserver.schema.extensions import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_MAP_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVES,
    RULES,
    Schema,
)
from kcr_devcluster.apiserver.schema.patterns import PatternError, compile_matcher

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS = ("anyOf", "allOf", "oneOf")
# Where a type may be missing in words.
_PLACES = {"root": "at the root", "item": "for specified array items", "field": "for specified object fields"}
# Keywords that are forbidden in a schema that restricts another one, each with its message.
_NOT_IN_NESTED: Mapping[str, str] = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    PRESERVES: "must be false to be structural",
    EMBEDDED: "must be false to be structural",
    INT_OR_STRING: "must be false to be structural",
    LIST_MAP_KEYS: "must be empty to be structural",
    LIST_TYPE: "must be undefined to be structural",
    MAP_TYPE: "must be undefined to be structural",
    RULES: "must be empty to be structural",
}


def structural_errors(schema: Schema, path: str) -> list[FieldError]:
    """Return why a schema is not structural, in order of the messages' text.

    Args:
        schema: The `openAPIV3Schema`.
        path: Its path in the definition.
    """
    found = [*_invariants(schema, path, "root"), *_completeness(schema, schema, path, path)]
    return sorted(found, key=lambda error: f"{error.field}: {error.message}")


def _invariants(schema: Schema, path: str, level: str) -> Iterator[FieldError]:
    if schema.get("type") == "array" and not isinstance(schema.get("items"), Mapping):
        yield required(f"{path}.items", "must be specified")
    for name, inner in _inner(schema):
        yield from _invariants(inner, path + name, "item" if name == ".items" else "field")
    if level == "root" and schema.get("additionalProperties") is not None:
        yield forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if schema.get(INT_OR_STRING):
        for name in (PRESERVES, EMBEDDED):
            if schema.get(name):
                yield invalid(f"{path}.{name}", True, f"must be false if {INT_OR_STRING} is true")
    yield from _validations(schema, path, exempt=True)
    yield from _type_errors(schema, path, level)
    yield from _resource_errors(schema, path, is_root=level == "root")


def _inner(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the schemas of items, properties and additional properties, with the rest of their paths."""
    if isinstance(schema.get("items"), Mapping):
        yield ".items", schema["items"]
    for name, inner in (schema.get("properties") or {}).items():
        yield f".properties[{name}]", inner
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield ".additionalProperties", schema["additionalProperties"]


def _type_errors(schema: Schema, path: str, level: str) -> Iterator[FieldError]:
    type_name = schema.get("type") or ""
    if schema.get(EMBEDDED):
        words = f"must be object if {EMBEDDED} is true"
        if not type_name:
            yield required(f"{path}.type", words)
        elif type_name != "object":
            yield invalid(f"{path}.type", type_name, words)
    elif not type_name and not schema.get(INT_OR_STRING) and not schema.get(PRESERVES):
        yield required(f"{path}.type", f"must not be empty {_PLACES[level]}")
    if level == "root" and type_name not in ("", "object"):
        yield invalid(f"{path}.type", type_name, "must be object at the root")


def _resource_errors(schema: Schema, path: str, *, is_root: bool) -> Iterator[FieldError]:
    """Yield the errors of a schema that contradicts the standard fields `kind`, `apiVersion` and `metadata`."""
    fields, embedded = schema.get("properties") or {}, bool(schema.get(EMBEDDED))
    if embedded and schema.get("additionalProperties") is not None:
        yield forbidden(f"{path}.additionalProperties", f"must not be used if {EMBEDDED} is set")
    if is_root or embedded:
        for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            if name in fields and fields[name].get("type") != wanted:
                yield invalid(f"{path}.properties[{name}].type", fields[name].get("type", ""), f"must be {wanted}")
    if is_root and "metadata" in fields:
        given = {name: value for name, value in fields["metadata"].items() if name not in ("type", "default")}
        if given.get("properties") and given["properties"].keys() <= {"name", "generateName"}:
            del given["properties"]
        if any(value is not False for value in given.values()):
            words = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield forbidden(f"{path}.properties[metadata]", words)
    if embedded and not schema.get(PRESERVES) and not fields:
        words = f"must not be empty if {EMBEDDED} is true without {PRESERVES}"
        yield required(f"{path}.properties", words)


def _validations(schema: Schema, path: str, *, exempt: bool) -> Iterator[FieldError]:
    """Yield the errors of the schemas that restrict one; `exempt` allows the types of an int-or-string."""
    for name in _JUNCTORS:
        nested: Sequence[Schema] = schema.get(name) or ()
        if exempt and name == "anyOf" and nested == _INT_OR_STRING:
            continue
        for position, one in enumerate(nested):
            first = exempt and name == "allOf" and position == 0
            yield from _nested(one, f"{path}.{name}[{position}]", exempt=first)
    if schema.get("not") is not None:
        yield from _nested(schema["not"], f"{path}.not", exempt=False)
    if pattern := schema.get("pattern"):
        try:
            compile_matcher(pattern)
        except PatternError as error:
            yield invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")


def _nested(schema: Schema, path: str, *, exempt: bool) -> Iterator[FieldError]:
    yield from _validations(schema, path, exempt=exempt)
    for name, inner in _inner(schema):
        if name != ".additionalProperties":
            yield from _nested(inner, path + name, exempt=False)
    for name, words in _NOT_IN_NESTED.items():
        if schema.get(name) not in (None, "", False, [], ()):
            yield forbidden(f"{path}.{name}", words)
    if "metadata" in (schema.get("properties") or {}):
        yield forbidden(f"{path}.properties[metadata]", "must not be specified in a nested context")


def _completeness(nested: Schema, schema: Schema | None, path: str, where: str) -> Iterator[FieldError]:
    """Yield errors for the parts that a restriction names and the schema itself lacks."""
    restrictions = [(f"{name}[{at}]", one) for name in _JUNCTORS for at, one in enumerate(nested.get(name) or ())]
    if nested.get("not") is not None:
        restrictions.append(("not", nested["not"]))
    for name, one in restrictions:
        yield from _complete(one, schema, path, f"{where}.{name}")


def _complete(nested: Schema, schema: Schema | None, path: str, where: str) -> Iterator[FieldError]:
    if schema is None:
        yield required(path, f"because it is defined in {where}")
        return
    yield from _completeness(nested, schema, path, where)
    known = dict(_inner(schema))
    for name, one in _inner(nested):
        if name != ".additionalProperties":
            yield from _complete(one, known.get(name), path + name, where + name)


def visit(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Yield the schema and all in it, restrictions as well, with their paths."""
    stack = [(path, schema)]
    while stack:
        path, schema = stack.pop()
        yield path, schema
        inner = [(path + name, one) for name, one in _inner(schema)]
        for name in _JUNCTORS:
            inner += [(f"{path}.{name}[{position}]", one) for position, one in enumerate(schema.get(name) or ())]
        if schema.get("not") is not None:
            inner.append((f"{path}.not", schema["not"]))
        stack += reversed(inner)
