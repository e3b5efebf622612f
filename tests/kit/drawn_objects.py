"""Objects drawn at random from schemas: of built-in types by the table, of other kinds by their structural schema."""

from collections.abc import Mapping
from importlib import resources
from random import Random
from typing import Any

import msgspec

from kcr_devcluster.apiserver.schema.builtin import type_facts
from kcr_devcluster.versions import DEFAULT

_TABLE = msgspec.json.decode((resources.files("kcr_devcluster.apiserver.schema") / "kubernetes.json").read_bytes())
# The types of all built-in kinds of the oldest version by apiVersion and kind, such as `batch/v1 Job`.
KIND_TYPES: Mapping[str, str] = {
    name: known if isinstance(known, str) else known["type"] for name, known in _TABLE["kinds"].items()
}
_SCALARS: Mapping[str, tuple[Any, ...]] = {
    "string": ("", "text", "ünï"), "bool": (True, False), "int32": (0, -1, 2**31 - 1), "int64": (0, 2**63 - 1),
    "float64": (0.5, 2.0), "bytes": ("YWJj",), "time": ("2026-01-01T00:00:00Z",),
    "microtime": ("2026-01-01T00:00:00.000001Z",), "quantity": ("500m", 2), "int-or-string": (0, "http", "25%"),
    "any": ({"a": [1, None, {}]}, "text", 1, []),
}  # fmt: skip
_SCHEMA: Mapping[str, Any] = {"type": "string", "maxLength": 0}
_SCHEMA_OR: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(("additionalItems", "additionalProperties"), (_SCHEMA, True, False)),
    "items": (_SCHEMA, [_SCHEMA, {}]), "dependencies": ({"a": _SCHEMA}, {"a": ["b", "c"]}),
}  # fmt: skip
_FORMATS: Mapping[str, str] = {"date-time": "2026-01-01T00:00:00Z", "byte": "YWJj"}
# Types that hold themselves end here.
_DEEPEST = 12


def fields_of(type_name: str) -> dict[str, str]:
    """Return the types in the fields of a built-in type, without the lists and maps around them; empty for scalars."""
    try:
        found = type_facts(type_name)
    except KeyError:
        return {}
    return {name: one.type.rpartition("]")[2] for name, one in found.items()}


def builtin_object(type_name: str, random: Random, *, depth: int = 0, version: str = DEFAULT) -> dict[str, Any]:
    """Return an object of a built-in type, all of whose fields the type has; lists and maps in it are not empty.

    Args:
        type_name: The type.
        random: The source of its values.
        depth: How deep it is in another one: the deeper, the fewer fields it has.
        version: The version of Kubernetes whose fields it has, `ALL` for those of all.
    """
    if type_name == "meta.v1.ObjectMeta":
        return {"name": "a", "labels": {"k": "v"}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    found = {}
    for name, facts in type_facts(type_name, version).items():
        if facts.required or depth == 0 or random.random() < 2 / (depth + 2):
            found[name] = _builtin_value(facts.type, random, depth, version)
    if type_name == "apiextensions.v1.JSONSchemaProps":
        # The table has no types that are one thing or another.
        found |= {name: random.choice(_SCHEMA_OR[name]) for name in _SCHEMA_OR if name in found}
    return {name: one for name, one in found.items() if one is not None}


def _builtin_value(written: str, random: Random, depth: int, version: str) -> Any:
    if written.startswith("[]"):
        items = [_builtin_value(written[2:], random, depth + 1, version) for _ in range(random.randint(1, 2))]
        return None if None in items else items
    if written.startswith("map[string]"):
        value = _builtin_value(written.removeprefix("map[string]"), random, depth + 1, version)
        return None if value is None else {"k": value}
    if written in _SCALARS:
        return random.choice(_SCALARS[written])
    return builtin_object(written, random, depth=depth + 1, version=version) if depth < _DEEPEST else None


def structural_value(schema: Mapping[str, Any], random: Random) -> Any:
    """Return a value that fits a structural schema, all of whose fields are there with even chance."""
    if "enum" in schema:
        return random.choice(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return random.choice((1, "1Gi"))
    match schema.get("type"):
        case "object" if "properties" in schema:
            required = schema.get("required", ())
            names = [name for name in schema["properties"] if name in required or random.random() < 0.5]
            return {name: structural_value(schema["properties"][name], random) for name in names}
        case "object" if "additionalProperties" in schema:
            return {"k": structural_value(schema["additionalProperties"], random)}
        case "array":
            return [structural_value(schema["items"], random)]
        case "string":
            least = schema.get("minLength", 0)
            return _FORMATS.get(schema.get("format", ""), "a" * max(least, random.randint(0, 3)))
        case "integer":
            return max(schema.get("minimum", -(2**40)), min(schema.get("maximum", 2**40), random.randint(-5, 5)))
        case "number":
            return random.choice((0.5, 1.0))
        case "boolean":
            return random.choice((True, False))
    return {"any": [1, {"deep": None}]}
