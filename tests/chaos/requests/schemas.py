"""Structural schemas, values that fit them, and CustomResourceDefinitions, drawn at random."""

from collections.abc import Mapping
from copy import deepcopy
from random import Random
from typing import Any

from tests.kit.custom_resources import Json

GROUP = "ex.io"
# The plurals of the kinds that stories define, with kind and scope.
CUSTOM: Mapping[str, tuple[str, str]] = {
    "widgets": ("Widget", "Namespaced"),
    "gadgets": ("Gadget", "Namespaced"),
    "things": ("Thing", "Cluster"),
}
VERSIONS = ("v1", "v2", "v1beta1")
_FORMATS = {"date-time": "2026-01-01T00:00:00Z", "byte": "YWJj", "ipv4": "10.0.0.1", "uuid": "", "duration": "1h"}
_RULES: Mapping[str, tuple[str, ...]] = {
    "object": ("has(self.a) || !has(self.a)", "self == oldSelf || true", "!has(self.b) || self.b == self.b"),
    "array": ("self.size() < 100", "self.all(one, one == one)"),
    "string": ("self.size() < 100", "self == oldSelf", "self != 'text'"),
    "integer": ("self < 1000", "self >= oldSelf"),
    "number": ("self < 1e9", "double(self) == self"),
    "boolean": ("self || !self",),
}
_WRONG_RULES = ("self.none.such > 1", "1 +", "self", "self.all(x, x", "", "size(self) < 'a'", "oldSelf.x")
_STRING_FACTS: tuple[Json, ...] = (
    {}, {}, {"enum": ["a", "b"]}, {"maxLength": 3}, {"minLength": 1}, {"pattern": "^[a-z]*$"},
    *({"format": name} for name in _FORMATS),
)  # fmt: skip
_INTEGER_FACTS: tuple[Json, ...] = ({}, {"minimum": 0}, {"maximum": 9}, {"multipleOf": 2}, {"format": "int32"})
_PRESERVES = "x-kubernetes-preserve-unknown-fields"
_COLUMNS: tuple[Json, ...] = (
    {"name": "A", "type": "string", "jsonPath": ".spec.a"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "N", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1},
    {"name": "B", "type": "boolean", "jsonPath": ".spec.b[0].a"},
)


class SchemaDraw:
    """Draws schemas, values and definitions from one source of chance."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def schema(self, depth: int) -> Json:
        """Return a structural schema; objects and lists are at most `depth` deep."""
        draw = self._random
        names = ["string", "string", "integer", "number", "boolean", "int-or-string", "any"]
        name = draw.choice([*names, *(("object", "object", "map", "array", "array", "embedded") if depth else ())])
        found = self._of_type(name, depth)
        if draw.random() < 0.15:
            found["nullable"] = True
        if found.get("type") in _RULES and draw.random() < 0.1:
            found["x-kubernetes-validations"] = [{"rule": draw.choice(_RULES[found["type"]])}]
        if name != "embedded" and draw.random() < 0.2:
            found["default"] = self.value(found)
        return found

    def _of_type(self, name: str, depth: int) -> Json:
        draw = self._random
        match name:
            case "object":
                return self._object(depth)
            case "map":
                return {"type": "object", "additionalProperties": self.schema(depth - 1)}
            case "embedded":
                return {"type": "object", "x-kubernetes-embedded-resource": True, _PRESERVES: True}
            case "array":
                return self._array(depth)
            case "string":
                return {"type": "string", **deepcopy(draw.choice(_STRING_FACTS))}
            case "integer":
                return {"type": "integer", **draw.choice(_INTEGER_FACTS)}
            case "int-or-string":
                return {"x-kubernetes-int-or-string": True}
            case "any":
                return {"type": "object", _PRESERVES: True} if draw.random() < 0.5 else {_PRESERVES: True}
        return {"type": name}

    def _object(self, depth: int) -> Json:
        draw = self._random
        names = draw.sample("abcd", draw.randint(0, 3))
        found: Json = {"type": "object", "properties": {name: self.schema(depth - 1) for name in names}}
        if names and draw.random() < 0.3:
            found["required"] = draw.sample(names, 1)
        if draw.random() < 0.1:
            found[_PRESERVES] = True
        if draw.random() < 0.1:
            found["x-kubernetes-map-type"] = draw.choice(("atomic", "granular"))
        return found

    def _array(self, depth: int) -> Json:
        draw = self._random
        match draw.choice(("", "atomic", "set", "map")):
            case "set":
                return {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
            case "map":
                keys = draw.choice((["a"], ["a", "b"]))
                members: Json = {name: {"type": draw.choice(("string", "integer"))} for name in keys}
                if draw.random() < 0.3:
                    members[keys[-1]]["default"] = "" if members[keys[-1]]["type"] == "string" else 0
                needed = [name for name in keys if "default" not in members[name]]
                items = {"type": "object", "properties": {**members, "c": self.schema(depth - 1)}}
                if needed:
                    items["required"] = needed
                kept = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
                return {"type": "array", "items": items, **kept}
            case "atomic":
                return {"type": "array", "items": self.schema(depth - 1), "x-kubernetes-list-type": "atomic"}
        return {"type": "array", "items": self.schema(depth - 1)}

    def value(self, schema: Mapping[str, Any]) -> Any:
        """Return a value that nearly always fits a schema."""
        draw = self._random
        if schema.get("nullable") and draw.random() < 0.2:
            return None
        if "enum" in schema:
            return draw.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return draw.choice((1, "1Gi", "a"))
        match schema.get("type"):
            case "object":
                return self._fields(schema)
            case "array":
                return self._items(schema)
        return self._scalar(schema)

    def _scalar(self, schema: Mapping[str, Any]) -> Any:
        draw = self._random
        match schema.get("type"):
            case "string":
                least, most = schema.get("minLength", 0), schema.get("maxLength", 4)
                return _FORMATS.get(schema.get("format", ""), draw.choice("ab") * draw.randint(least, most))
            case "integer":
                return draw.choice((0, 2, 4, 8))
            case "number":
                return draw.choice((0, 0.5, 1.0, 3))
            case "boolean":
                return draw.choice((True, False))
        return draw.choice(({"x": [1, {"y": None}]}, {"properties": 1, "oneOf": []}, "text", 1, [{}], True))

    def _fields(self, schema: Mapping[str, Any]) -> Any:
        draw, needed = self._random, schema.get("required", ())
        if schema.get("x-kubernetes-embedded-resource"):
            inner = {"name": draw.choice("ab"), "labels": {"app": "x"}}
            return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": inner, "data": {"a": 1}}
        if "additionalProperties" in schema:
            return {name: self.value(schema["additionalProperties"]) for name in draw.sample("pqr", draw.randint(0, 2))}
        known = schema.get("properties") or {}
        found = {name: self.value(one) for name, one in known.items() if name in needed or draw.random() < 0.6}
        if schema.get(_PRESERVES) or draw.random() < 0.05:
            found["unknown"] = {"x": [1, None]}
        return found

    def _items(self, schema: Mapping[str, Any]) -> Any:
        found = [self.value(schema["items"]) for _ in range(self._random.randint(0, 3))]
        if schema.get("x-kubernetes-list-type") == "map" and self._random.random() < 0.95:
            keys = schema["x-kubernetes-list-map-keys"]
            return list({tuple(repr(one.get(key)) for key in keys): one for one in found}.values())
        return [one for position, one in enumerate(found) if one not in found[:position]]

    def version(self, name: str, *, storage: bool) -> Json:
        """Return one version of a definition, with subresources and all that it may have."""
        draw = self._random
        spec = self._object(3)
        spec["properties"]["replicas"] = {"type": "integer", "minimum": 0}
        known: Json = {"spec": spec, "status": {"type": "object", "properties": {"phase": {"type": "string"}}}}
        if draw.random() < 0.3:
            known["extra"] = self.schema(2)
        schema: Json = {"type": "object", "properties": known}
        if draw.random() < 0.15:
            schema[_PRESERVES] = True
        if draw.random() < 0.1:
            rule = draw.choice(_WRONG_RULES) if draw.random() < 0.5 else draw.choice(_RULES["string"])
            spec["properties"]["e"] = {"type": "string", "x-kubernetes-validations": [{"rule": rule}]}
        found: Json = {
            "name": name, "served": storage or draw.random() < 0.8, "storage": storage,
            "schema": {"openAPIV3Schema": schema},
        }  # fmt: skip
        if draw.random() < 0.6:
            found["subresources"] = self._subresources()
        if draw.random() < 0.4:
            found["additionalPrinterColumns"] = deepcopy(draw.sample(_COLUMNS, draw.randint(1, 3)))
        if draw.random() < 0.3:
            spec["properties"]["color"] = {"type": "string"}
            found["selectableFields"] = [{"jsonPath": ".spec.color"}]
        if draw.random() < 0.1:
            found["deprecated"] = True
        return found

    def _subresources(self) -> Json:
        paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
        scale = {**paths, "labelSelectorPath": ".status.selector"} if self._random.random() < 0.5 else paths
        return self._random.choice(({"status": {}}, {"scale": scale}, {"status": {}, "scale": scale}))

    def definition(self, plural: str) -> Json:
        """Return a definition of one of the kinds."""
        draw = self._random
        kind, scope = CUSTOM[plural]
        versions = draw.sample(VERSIONS, draw.choice((1, 1, 2, 3)))
        drawn = [self.version(name, storage=not position) for position, name in enumerate(versions)]
        if draw.random() < 0.5:
            # With one schema for all versions, objects are shown as they are stored.
            for one in drawn:
                one["schema"] = drawn[0]["schema"]
                one.pop("selectableFields", None)
        names: Json = {"plural": plural, "kind": kind}
        if draw.random() < 0.5:
            names |= {"shortNames": [plural[:2]], "categories": ["all"]}
        if draw.random() < 0.05:
            names["kind"] = "Widget"
        return {
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {"group": GROUP, "scope": scope, "names": names, "versions": drawn},
        }  # fmt: skip
