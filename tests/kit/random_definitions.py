"""A grammar of definitions and objects, valid and broken, drawn from a seed."""

from random import Random
from typing import Any

from tests.kit.custom_resources import Json, definition, version

_TYPES = ("object", "array", "string", "integer", "number", "boolean")
_NAMES = "abcxyz"
_EVERYWHERE: dict[str, tuple[Any, ...]] = {
    "nullable": (True,), "enum": (["a", 1, None], [{"a": 1}]), "title": ("t",),
    "x-kubernetes-validations": tuple([{"rule": rule}] for rule in ("self == self", "true", "size(self) > 0")),
}  # fmt: skip
_OF_TYPES: dict[str, dict[str, tuple[Any, ...]]] = {
    "object": {
        "required": (["a"], ["a", "b"]), "maxProperties": (1, 2), "x-kubernetes-map-type": ("atomic", "granular"),
        "x-kubernetes-preserve-unknown-fields": (True,), "x-kubernetes-validations": ([{"rule": "has(self.a)"}],),
    },
    "array": {"minItems": (1,), "maxItems": (1,), "x-kubernetes-list-type": ("set", "atomic")},
    "string": {
        "minLength": (1,), "maxLength": (2,), "pattern": ("^a", "(?i)A", r"\d"),
        "format": ("date-time", "ipv4", "duration", "byte", "x"),
        "x-kubernetes-validations": ([{"rule": "self == oldSelf"}],),
    },
    "integer": {"minimum": (0,), "maximum": (3,), "multipleOf": (2, 0), "format": ("int32",)},
    "number": {"minimum": (1.5,), "exclusiveMinimum": (True,), "multipleOf": (0.1,)},
    "boolean": {},
}  # fmt: skip
_BROKEN: dict[str, tuple[Any, ...]] = {
    "minimum": ("a",), "minLength": (-1,), "required": ("a",), "pattern": ("(", "a{2,1}"), "uniqueItems": (True,),
    "x-kubernetes-preserve-unknown-fields": (False,), "x-kubernetes-embedded-resource": (True,),
    "x-kubernetes-list-type": ("map",), "x-kubernetes-validations": ([{"rule": "1"}], [{"rule": ""}], "a"),
    "type": ("null", "", 5), "items": ([], True, 5), "additionalProperties": ("a", False),
}  # fmt: skip


def random_value(random: Random, depth: int = 0) -> Any:
    """Return a value of any type."""
    kind = random.randrange(9 if depth < 3 else 7)
    if kind < 7:
        return (None, True, 0, -1.5, "a", "", "2026-01-01T00:00:00Z")[kind]
    inner = [random_value(random, depth + 1) for _ in range(random.randrange(3))]
    return inner if kind == 7 else {random.choice(_NAMES): one for one in inner}


def random_schema(random: Random, depth: int = 1) -> Json:
    """Return a schema, structural more often than not."""
    kind = random.choice(_TYPES) if depth > 1 else "object"
    made: Json = {"type": kind}
    keywords = _EVERYWHERE | _OF_TYPES[kind]
    for keyword in random.sample(sorted(keywords), random.randrange(3)):
        made[keyword] = random.choice(keywords[keyword])
    if kind == "object" and random.random() < 0.8:
        inner = range(random.randrange(1, 4) if depth < 4 else 0)
        made["properties"] = {random.choice(_NAMES): random_schema(random, depth + 1) for _ in inner}
    elif kind == "object":
        made["additionalProperties"] = random_schema(random, depth + 1) if depth < 4 else True
    if kind == "array":
        made["items"] = random_schema(random, depth + 1) if depth < 4 else {"type": "string"}
    if random.random() < 0.05:
        made[random.choice(("anyOf", "oneOf", "allOf"))] = [{"minLength": 1}, {"minimum": 1}]
    if random.random() < 0.05:
        made["default"] = random_value(random)
    if random.random() < 0.01:
        keyword = random.choice(sorted(_BROKEN))
        made[keyword] = random.choice(_BROKEN[keyword])
    return made


def random_definition(random: Random) -> Json:
    """Return a definition of Widgets."""
    root = {"type": "object", "properties": {"spec": random_schema(random), "status": random_schema(random, 2)}}
    status: Json = {"subresources": {"status": {}}} if random.random() < 0.5 else {}
    versions = [version("v1", root, **status)]
    if random.random() < 0.3:
        other = {"type": "object", "properties": {"spec": random_schema(random)}}
        versions.append(version("v2", random.choice((root, other)), storage=False))
    made = definition(*versions)
    if random.random() < 0.1:
        made["spec"][random.choice(sorted(made["spec"]))] = random_value(random)
    return made


def random_widget(random: Random, name: str, served: str) -> Json:
    """Return a Widget of a version."""
    spec = random_value(random) if random.random() < 0.5 else {one: random_value(random, 1) for one in _NAMES[:3]}
    made: Json = {"apiVersion": f"ex.io/{served}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}
    return {**made, "status": random_value(random)} if random.random() < 0.3 else made
