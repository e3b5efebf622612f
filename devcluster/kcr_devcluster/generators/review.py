"""Silent traps of a CustomResourceDefinition: fields that a conversion drops, rules that fail on an absent field.

The API server accepts both, and the author learns of them by lost data or by a refused object.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Schema = Mapping[str, Any]

_KEEPS_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
# Text in a rule, in which nothing is selected.
_LITERAL = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_SELECTION = re.compile(r"\b(self|oldSelf)((?:\.\w+)+)")
# Every object has these.
_TYPE_META = frozenset({"apiVersion", "kind", "metadata"})


class Loss(NamedTuple):
    """Fields that an update through a version drops, as long as versions are converted by renaming alone.

    Attributes:
        version: The version that has the fields.
        other: The version that has not.
        fields: Their paths, such as `spec.hosts[].port`; with their type where only that differs.
        is_stored: Whether `other` is the stored version: each write drops them then, else an update through `other`.
    """

    version: str
    other: str
    fields: tuple[str, ...]
    is_stored: bool


class Unguarded(NamedTuple):
    """A rule that fails where a field is absent: CEL has no empty value for it.

    Attributes:
        version: The version.
        place: The path of the object or field that has the rule; empty for the whole object.
        rule: The expression.
        selection: The field, as the rule selects it: `self.hosts`.
    """

    version: str
    place: str
    rule: str
    selection: str


def losses(manifest: Mapping[str, Any]) -> Iterator[Loss]:
    """Yield the fields that requests through the served versions of a definition drop.

    Args:
        manifest: A CustomResourceDefinition; one with a conversion webhook loses nothing here.

    Source: apiextensions-apiserver/pkg/apiserver/conversion/nop_converter.go, Convert.
    """
    spec = manifest["spec"]
    if (spec.get("conversion") or {}).get("strategy", "None") != "None":
        return
    schemas = {one["name"]: one["schema"]["openAPIV3Schema"] for one in spec["versions"]}
    stored = next(one["name"] for one in spec["versions"] if one["storage"])
    for served in (one["name"] for one in spec["versions"] if one["served"] and one["name"] != stored):
        for version, other in ((served, stored), (stored, served)):
            fields = tuple(_lost(schemas[version], schemas[other], ""))
            if fields:
                yield Loss(version, other, fields, is_stored=other == stored)


def _lost(schema: Schema, other: Schema, path: str) -> Iterator[str]:
    """Yield the paths of fields that one schema has and the other lacks."""
    if other.get(_KEEPS_UNKNOWN):
        return
    if _type(schema) != _type(other):
        yield f"{path} as {_type(schema)}"
        return
    known, values = other.get("properties") or {}, other.get("additionalProperties")
    for name, one in (schema.get("properties") or {}).items():
        below = f"{path}.{name}".lstrip(".")
        if name in known:
            yield from _lost(one, known[name], below)
        elif not values:
            yield below
    for member, step in (("items", "[]"), ("additionalProperties", ".*")):
        inner, others = schema.get(member), other.get(member)
        if isinstance(inner, Mapping) and isinstance(others, Mapping):
            yield from _lost(inner, others, f"{path}{step}")


def _type(schema: Schema) -> str:
    kind: str = schema.get("type", "any value")
    return "integer or string" if schema.get("x-kubernetes-int-or-string") else kind


def unguarded(manifest: Mapping[str, Any]) -> Iterator[Unguarded]:
    """Yield the rules that select an optional field without a default, and never ask for it with `has()`."""
    for version in manifest["spec"]["versions"]:
        for place, rule, selection in _unguarded(version["schema"]["openAPIV3Schema"], ""):
            yield Unguarded(version["name"], place, rule, selection)


def _unguarded(schema: Schema, place: str) -> Iterator[tuple[str, str, str]]:
    for rule in schema.get("x-kubernetes-validations") or ():
        expression = _LITERAL.sub("''", rule["rule"])
        guards = set(re.findall(r"\bhas\(\s*([\w.]+)\s*\)", expression))
        selections = {f"{root}{steps}": None for root, steps in _SELECTION.findall(expression)}
        found = {one for text in selections for one in _absent(schema, text, guards)}
        yield from ((place, rule["rule"], one) for one in sorted(found))
    for name, one in (schema.get("properties") or {}).items():
        yield from _unguarded(one, f"{place}.{name}".lstrip("."))
    for member, step in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(member), Mapping):
            yield from _unguarded(schema[member], f"{place}{step}")


def _absent(schema: Schema, selection: str, guards: set[str]) -> Iterator[str]:
    """Yield the first part of a selection that may be absent, and that no guard asks for."""
    root, *steps = selection.split(".")
    taken = root
    for step in steps:
        fields = schema.get("properties") or {}
        if step not in fields:
            # A function, an entry of a map, or metadata, which no schema describes.
            return
        taken, is_always = f"{taken}.{step}", step in schema.get("required", ()) or "default" in fields[step]
        if not is_always and taken not in guards and not (taken.count(".") == 1 and step in _TYPE_META):
            yield taken
            return
        schema = fields[step]
