"""Validation of values by a structural schema, with the messages of kube-openapi.

A schema is compiled into a check once, and a check is called with a value and its old value: an unchanged part is valid
even if the current schema would refuse it (validation ratcheting).

Source: k8s.io/kube-openapi/pkg/validation/validate/{schema,type}.go; kubernetes/staging/src/k8s.io/
apiextensions-apiserver/pkg/apiserver/validation/{validation,ratcheting}.go.
"""

import math
from collections.abc import Mapping
from typing import Any

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.protocol.field_errors import FieldError
from kcr_devcluster.apiserver.schema.extensions import INT_OR_STRING, Schema
from kcr_devcluster.apiserver.schema.formats import is_known
from kcr_devcluster.apiserver.schema.shape import ABSENT
from kcr_devcluster.apiserver.structural import checks, composites
from kcr_devcluster.apiserver.structural.checks import Check, not_in_enum, wrong_type

_TYPES: Mapping[type, str] = {
    bool: "boolean", str: "string", int: "integer", float: "number", list: "array", dict: "object", type(None): "null",
}  # fmt: skip
# The integers of Go end below it; of floats, those up to the other one are exact.
# The formats that Go's numbers have.
_GO_FORMATS = {"integer": "int64", "number": "float64"}
_BEYOND, _MOST_EXACT = 1 << 63, (1 << 53) - 1


def compile_schema(schema: Schema) -> Check:
    """Return the check of values by a schema; it is compiled for its first value: objects have few of many fields."""
    compiled: tuple[Check, ...] | None = None

    def parts() -> tuple[Check, ...]:
        # In upstream's order: so errors are listed.
        made = (
            _type(schema), composites.combinations(schema, compile_schema), checks.string(schema),
            checks.text_format(schema), checks.number(schema), composites.items(schema, compile_schema),
            checks.enum(schema), composites.properties(schema, compile_schema),
        )  # fmt: skip
        return tuple(part for part in made if part is not None)

    def check(value: Any, path: str, old: Any, errors: list[FieldError]) -> int:
        if old is not ABSENT and same_json(old, value):
            return 1
        if value is None:
            return _null(schema, path, errors)
        nonlocal compiled
        if compiled is None:
            compiled = parts()
        count = 1
        for part in compiled:
            count += part(value, path, old, errors)
        return count

    return check


def _null(schema: Schema, path: str, errors: list[FieldError]) -> int:
    wanted = _wanted(schema)
    if wanted and not schema.get("nullable"):
        errors.append(wrong_type(path, wanted, "null"))
        return 0
    enum = schema.get("enum")
    if enum and None not in enum:
        errors.append(not_in_enum(path, None, enum))
        return 0
    return 1


def _wanted(schema: Schema) -> str:
    return "integer,string" if schema.get(INT_OR_STRING) else schema.get("type") or ""


def _type(schema: Schema) -> Check | None:
    wanted = _wanted(schema)
    if not wanted:
        return None
    accepted = set(wanted.split(","))
    form = schema["format"] if schema.get("format") and is_known(wanted, schema["format"]) else ""
    # A string with a known format may stand for a value of another type, so it is accepted.
    any_text = bool(form) and accepted.isdisjoint({"number", "integer"})

    def check(value: Any, path: str, old: Any, errors: list[FieldError]) -> int:
        found = _TYPES[type(value)]
        if found == wanted and found != "integer":
            return 2
        if found == "integer" and not -_BEYOND <= value < _BEYOND:
            # Go decodes it as a float.
            found = "number"
        if found in accepted or (found == "integer" and "number" in accepted):
            return 2
        if found == "number" and "integer" in accepted and abs(value) <= _MOST_EXACT and value == math.floor(value):
            return 2
        if any_text and found in ("string", "array"):
            return 2
        # Upstream says of such a value how Go has it.
        shown = (form, _GO_FORMATS.get(found, "")) if form and found not in ("string", "array") else (wanted, found)
        errors.append(wrong_type(path, *shown))
        return 0

    return check
