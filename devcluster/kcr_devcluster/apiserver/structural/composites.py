"""Checks of lists, of objects, and of combinations of schemas.

Source: k8s.io/kube-openapi/pkg/validation/validate/{schema_props,slice_validator,object_validator}.go;
kubernetes/staging/src/k8s.io/apiserver/pkg/cel/common/equality.go, CorrelatedObject.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcr_devcluster.apiserver.protocol.field_errors import FieldError, required, too_many
from kcr_devcluster.apiserver.schema.extensions import LIST_MAP_KEYS, LIST_TYPE, MAP_TYPE, Schema
from kcr_devcluster.apiserver.schema.shape import ABSENT
from kcr_devcluster.apiserver.structural.checks import Check, in_body, whole

Compile = Callable[[Schema], Check]


def combinations(schema: Schema, compile_schema: Compile) -> Check | None:
    """Return the check of the schemas that restrict one: anyOf, oneOf, allOf and not."""
    checks = [
        combine([compile_schema(one) for one in schema[name]])
        for name, combine in (("anyOf", _any_of), ("oneOf", _one_of), ("allOf", _all_of))
        if schema.get(name)
    ]
    if schema.get("not") is not None:
        checks.append(_not(compile_schema(schema["not"])))
    if not checks:
        return None
    return lambda value, path, old, errors: sum(check(value, path, old, errors) for check in checks)


def _attempts(checks: Sequence[Check], value: Any, path: str) -> list[tuple[int, list[FieldError]]]:
    """Return, for each alternative, how much of it is valid, and its errors."""
    found = []
    for check in checks:
        errors: list[FieldError] = []
        found.append((check(value, path, ABSENT, errors), errors))
    return found


def _best(attempts: Sequence[tuple[int, list[FieldError]]]) -> tuple[int, list[FieldError]]:
    return max(attempts, key=lambda attempt: attempt[0])


def _any_of(checks: Sequence[Check]) -> Check:
    def check(value: Any, path: str, old: Any, errors: list[FieldError]) -> int:
        attempts = _attempts(checks, value, path)
        for count, found in attempts:
            if not found:
                return count
        errors.append(whole(f'"{path}" must validate at least one schema (anyOf)'))
        count, found = _best(attempts)
        errors += found
        return count

    return check


def _one_of(checks: Sequence[Check]) -> Check:
    def check(value: Any, path: str, old: Any, errors: list[FieldError]) -> int:
        attempts = _attempts(checks, value, path)
        valid = [count for count, found in attempts if not found]
        if len(valid) == 1:
            return valid[0]
        why = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
        errors.append(whole(f'"{path}" must validate one and only one schema (oneOf). {why}'))
        if valid:
            return 0
        count, found = _best(attempts)
        errors += found
        return count

    return check


def _all_of(checks: Sequence[Check]) -> Check:
    def check(value: Any, path: str, old: Any, errors: list[FieldError]) -> int:
        attempts = _attempts(checks, value, path)
        for _, found in attempts:
            errors += found
        valid = sum(not found for _, found in attempts)
        if valid < len(attempts):
            why = "" if valid else ". None validated"
            errors.append(whole(f'"{path}" must validate all the schemas (allOf){why}'))
        return sum(count for count, _ in attempts)

    return check


def _not(unwanted: Check) -> Check:
    def check(value: Any, path: str, old: Any, errors: list[FieldError]) -> int:
        found: list[FieldError] = []
        unwanted(value, path, ABSENT, found)
        if not found:
            errors.append(whole(f'"{path}" must not validate the schema (not)'))
        return 0

    return check


def items(schema: Schema, compile_schema: Compile) -> Check | None:
    """Return the check of a list: its items, and how many there are."""
    inner, least, most = schema.get("items"), schema.get("minItems"), schema.get("maxItems")
    if not inner and least is None and most is None:
        return None
    check_item = compile_schema(inner) if inner else None

    def check(value: Any, path: str, old: Any, errors: list[FieldError]) -> int:
        if type(value) is not list:
            return 0
        count = 1
        if check_item is not None:
            before = correlation(schema, old)
            for position, one in enumerate(value):
                count += check_item(one, f"{path}[{position}]", before(one), errors)
        if least is not None and len(value) < least:
            errors.append(in_body(path, len(value), f"should have at least {least} items"))
        if most is not None and len(value) > most:
            errors.append(too_many(path, len(value), most))
        return count

    return check


def correlation(schema: Schema, old: Any) -> Callable[[Any], Any]:
    """Return a function from an item of a list to the item that it was before; `ABSENT` where it cannot be correlated.

    Only the items of lists of type `map` keep their identity while others come and go.

    Args:
        schema: The schema of the list.
        old: The list of before.
    """
    if schema.get(LIST_TYPE) != "map" or type(old) is not list:
        return lambda item: ABSENT
    keys = schema.get(LIST_MAP_KEYS) or ()
    by_key = {map_key(keys, item): item for item in reversed(old)}
    return lambda item: by_key.get(map_key(keys, item), ABSENT)


def map_key(keys: Sequence[str], item: Any) -> tuple[str, ...]:
    """Return the key that identifies an item of a list of type `map`."""
    return tuple(repr(item.get(key)) for key in keys) if isinstance(item, dict) else ()


def properties(schema: Schema, compile_schema: Compile) -> Check | None:
    """Return the check of an object: its fields, those that it must have, and how many there are."""
    fields = {name: compile_schema(one) for name, one in (schema.get("properties") or {}).items()}
    other = schema.get("additionalProperties")
    check_other = compile_schema(other) if isinstance(other, Mapping) else None
    needed = schema.get("required") or ()
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if not (fields or check_other or needed) and least is None and most is None:
        return None
    is_correlated = schema.get(MAP_TYPE) != "atomic"

    def check(value: Any, path: str, old: Any, errors: list[FieldError]) -> int:
        if type(value) is not dict:
            return 0
        if least is not None and len(value) < least:
            errors.append(in_body(path, len(value), f"should have at least {least} properties"))
        if most is not None and len(value) > most:
            errors.append(too_many(path, len(value), most))
        before = old if is_correlated and type(old) is dict else {}
        prefix, count = f"{path}." if path else "", 1
        for name, one in value.items():
            check_field = fields.get(name, check_other)
            if check_field is not None:
                count += check_field(one, prefix + name, before.get(name, ABSENT), errors)
        if needed:
            errors += [required(prefix + name) for name in needed if name not in value]
        return count

    return check
