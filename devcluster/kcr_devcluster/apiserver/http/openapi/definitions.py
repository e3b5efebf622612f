"""Schemas of types as OpenAPI documents have them: of built-in types, and of custom kinds.

Source: the documents that kube-apiserver publishes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from kcr_devcluster.apiserver.http.openapi.custom import published
from kcr_devcluster.apiserver.http.openapi.prose import installed_prose
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.schema.builtin import LIST, MAP, FieldFacts, type_facts, type_of_kind, type_shape
from kcr_devcluster.apiserver.schema.defaults import DEFAULTS
from kcr_devcluster.versions import KubernetesVersion

Definition = Mapping[str, Any]

METADATA = "meta.v1.ObjectMeta"
# Where the types of a package are, other than in `io.k8s.api`.
_PACKAGES: Mapping[str, str] = {
    "meta": "io.k8s.apimachinery.pkg.apis",
    "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis",
    "apiregistration": "io.k8s.kube-aggregator.pkg.apis",
}
_INLINE: Mapping[str, Definition] = {
    "any": {"type": "object"},
    "bool": {"type": "boolean"},
    "bytes": {"type": "string", "format": "byte"},
    "float64": {"type": "number", "format": "double"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "string": {"type": "string"},
}
# Scalars with a name of their own: that name, and the schema.
_NAMED: Mapping[str, tuple[str, Definition]] = {
    "int-or-string": (
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
        {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    ),
    "microtime": ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", {"type": "string", "format": "date-time"}),
    "quantity": (
        "io.k8s.apimachinery.pkg.api.resource.Quantity",
        {"oneOf": [{"type": "string"}, {"type": "number"}]},
    ),
    "time": ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", {"type": "string", "format": "date-time"}),
}


def full_name(type_name: str) -> str:
    """Return the name in documents of a type of the table: `io.k8s.api.core.v1.Pod` for `core.v1.Pod`."""
    return f"{_PACKAGES.get(type_name.partition('.')[0], 'io.k8s.api')}.{type_name}"


def custom_name(kind: Kind) -> str:
    """Return the name in documents of a custom kind: `dev.example.v1.Website` for `example.dev/v1` and `Website`."""
    return ".".join([*reversed(kind.type.group.split(".")), kind.type.version, kind.type.kind])


def definitions_of(kinds: Iterable[Kind], version: KubernetesVersion, *, in_v2: bool = False) -> dict[str, Definition]:
    """Return the definitions of kinds, and of all types that they need, by their full names.

    Args:
        kinds: The kinds.
        version: The version of Kubernetes whose fields built-in kinds have.
        in_v2: Whether the schemas of custom kinds are for the second version of OpenAPI.
    """
    found: dict[str, Definition] = {}
    for kind in kinds:
        known = type_of_kind(kind.type.api_version, kind.type.kind)
        if kind.openapi_schema is not None:
            tag = {"x-kubernetes-group-version-kind": [_group_version_kind(kind)]}
            found[custom_name(kind)] = {**published(kind.openapi_schema, in_v2=in_v2), **tag}
            _add_type(found, METADATA, version)
        elif known is not None:
            _add_type(found, known, version)
            tag = {"x-kubernetes-group-version-kind": [_group_version_kind(kind)]}
            found[full_name(known)] = {**found[full_name(known)], **tag}
    return dict(sorted(found.items()))


def _group_version_kind(kind: Kind) -> dict[str, str]:
    return {"group": kind.type.group, "kind": kind.type.kind, "version": kind.type.version}


def _add_type(found: dict[str, Definition], name: str, version: KubernetesVersion) -> None:
    """Add the definition of a type and of those that its fields have, each once."""
    full = full_name(name)
    if full in found:
        return
    # Before its fields are read, because types may contain themselves.
    found[full] = _object(name, version)
    for inner in {_innermost(one.type) for one in type_facts(name, version).values()}:
        if inner in _NAMED:
            scalar, definition = _NAMED[inner]
            found[scalar] = {**_described(installed_prose(version).of_type(scalar)), **definition}
        elif inner not in _INLINE:
            _add_type(found, inner, version)


def _innermost(written: str) -> str:
    while written.startswith((LIST, MAP)):
        written = written.removeprefix(LIST) if written.startswith(LIST) else written.removeprefix(MAP)
    return written


def _object(name: str, version: KubernetesVersion) -> Definition:
    full, facts, defaults = full_name(name), type_facts(name, version), DEFAULTS.get(name, {})
    prose = installed_prose(version)
    made: dict[str, Any] = _described(prose.of_type(full))
    if required := [field for field, one in facts.items() if one.required]:
        made["required"] = required
    made |= {"type": "object", "properties": {}}
    for field, one in facts.items():
        said: dict[str, Any] = _described(prose.of_field(full, field))
        if defaults.get(field) is not None:
            said["default"] = defaults[field]
        made["properties"][field] = _with(_schema(one.type), said | _extensions(one))
    if type_shape(name).is_atomic:
        made["x-kubernetes-map-type"] = "atomic"
    return made


def _schema(written: str) -> dict[str, Any]:
    if written.startswith(LIST):
        return {"type": "array", "items": _schema(written.removeprefix(LIST))}
    if written.startswith(MAP):
        return {"type": "object", "additionalProperties": _schema(written.removeprefix(MAP))}
    if written in _INLINE:
        return dict(_INLINE[written])
    return _reference(_NAMED[written][0] if written in _NAMED else full_name(written))


def _with(schema: dict[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema with more to say; beside a reference nothing else may stand."""
    return {"allOf": [schema], **said} if said and "$ref" in schema else {**said, **schema}


def _extensions(facts: FieldFacts) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if facts.type.startswith(LIST):
        found["x-kubernetes-list-type"] = facts.list_type
    if facts.list_map_keys:
        found["x-kubernetes-list-map-keys"] = facts.list_map_keys
    if facts.map_type != "granular":
        found["x-kubernetes-map-type"] = facts.map_type
    if facts.patch_merge_key is not None:
        found["x-kubernetes-patch-strategy"] = "merge"
        if facts.patch_merge_key:
            found["x-kubernetes-patch-merge-key"] = facts.patch_merge_key
    return found


def _reference(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _described(prose: str) -> dict[str, Any]:
    return {"description": prose} if prose else {}
