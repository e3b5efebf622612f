"""A judge beside the server's validation: which fields the schema of a custom resource refuses in what was shown.

Written back as it was shown, an object changes only by the defaults of the version that it is written in: reading fills
in those of the storage version alone. A part that stays as it was is valid, whatever the schema says of it today
(validation ratcheting), except for what upstream does not ratchet: embedded resources and validation rules.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/ratcheting.go.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

Schema = Mapping[str, Any]
_EMBEDDED, _RULES = "x-kubernetes-embedded-resource", "x-kubernetes-validations"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool,
}  # fmt: skip
# No value of before: all of a value is new.
_NEW = object()


def explains(schema: Schema, shown: Mapping[str, Any], causes: Sequence[Mapping[str, str]] | None) -> bool:
    """Return whether a schema refuses all the fields that the causes of a 422 name, when `shown` is written back."""
    # The root is named for what no single field breaks, such as rules that were not checked for other errors.
    named = {_normal(cause.get("field", "")) for cause in causes or ()} - {"<nil>"}
    return bool(named) and named <= set(_refused(schema, _defaulted(schema, shown), shown, ""))


def _normal(field: str) -> str:
    """Return a path with keys and positions as steps: validations write the entries of maps in two ways."""
    return field.replace("[", ".").replace("]", "")


def _defaulted(schema: Schema, value: Any) -> Any:
    if isinstance(value, list):
        return [_defaulted(schema.get("items") or {}, one) for one in value]
    if not isinstance(value, dict):
        return value
    fields, other = schema.get("properties") or {}, schema.get("additionalProperties")
    absent = {name: deepcopy(one["default"]) for name, one in fields.items() if "default" in one and name not in value}
    inner = {**fields, **({name: other for name in value if name not in fields} if isinstance(other, Mapping) else {})}
    return {name: _defaulted(inner.get(name, {}), one) for name, one in (value | absent).items()}


def _refused(schema: Schema, value: Any, old: Any, path: str) -> Iterator[str]:
    """Yield the paths at which a schema refuses a value; `old` is what is stored, or `_NEW`."""
    if schema.get(_RULES):
        # What a rule says is not judged here: at its own place, it may.
        yield path
    if schema.get(_EMBEDDED) and isinstance(value, dict):
        yield from (_step(path, name) for name in ("apiVersion", "kind", "metadata") if not value.get(name))
    is_changed = old is _NEW or value != old
    if is_changed and _breaks(schema, value):
        yield path
    if isinstance(value, list):
        # Defaults neither add nor move items, and those of lists of type `map` are known by their keys.
        is_map = schema.get("x-kubernetes-list-type") == "map" and isinstance(old, list)
        for position, one in enumerate(value):
            before = one if not is_changed else old[position] if is_map else _NEW
            yield from _refused(schema.get("items") or {}, one, before, _step(path, str(position)))
    elif isinstance(value, dict):
        yield from _refused_fields(schema, value, old, path)


def _refused_fields(schema: Schema, value: Mapping[str, Any], old: Any, path: str) -> Iterator[str]:
    is_changed = old is _NEW or value != old
    if is_changed:
        yield from (_step(path, name) for name in schema.get("required") or () if name not in value)
    atomic = schema.get("x-kubernetes-map-type") == "atomic" and is_changed
    fields, other = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, one in value.items():
        inner = fields.get(name, other if isinstance(other, Mapping) else {})
        before = _NEW if atomic or not isinstance(old, dict) else old.get(name, _NEW)
        yield from _refused(inner, one, before, _step(path, name))


def _step(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _breaks(schema: Schema, value: Any) -> bool:
    """Return whether a value, apart from those in it, breaks its schema."""
    if value is None:
        return bool(schema.get("type") or schema.get(_INT_OR_STRING)) and not schema.get("nullable")
    wanted = (int, str) if schema.get(_INT_OR_STRING) else _TYPES.get(schema.get("type", ""), object)
    if not isinstance(value, wanted) or (isinstance(value, bool) and wanted not in (bool, object)):
        return True
    if "enum" in schema and value not in schema["enum"]:
        return True
    if isinstance(value, str):
        too_long = not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        # Formats are not judged: text that has one may be refused.
        return too_long or "format" in schema or not re.search(schema.get("pattern", ""), value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        outside = not schema.get("minimum", value) <= value <= schema.get("maximum", value)
        return outside or bool(schema.get("multipleOf") and value % schema["multipleOf"])
    return False
