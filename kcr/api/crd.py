"""CustomResourceDefinitions of kinds that are declared as classes."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kcr.api.markers import CrdOptions, PrinterColumn
from kcr.api.meta import Resource
from kcr.api.structural import Schema, object_schema
from kcr.arguments import checked

_API_VERSION = "apiextensions.k8s.io/v1"
# The texts of kubectl explain for the fields that all kinds have.
_TYPE_META: dict[str, Schema] = {
    "apiVersion": {"description": "The group and version of the object's schema.", "type": "string"},
    "kind": {"description": "The kind of the object.", "type": "string"},
    "metadata": {"type": "object"},
}
_METADATA: Schema = {
    "type": "object",
    "properties": {
        "name": {"type": "string"}, "namespace": {"type": "string"}, "uid": {"type": "string"},
        "generation": {"type": "integer"}, "creationTimestamp": {"type": "string", "format": "date-time"},
        "deletionTimestamp": {"type": "string", "format": "date-time"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}  # fmt: skip
_STEP = re.compile(r"\.(\w[\w-]*)")
_SHARED = ("singular", "short_names", "categories")


@checked
def crd_manifest(*versions: type[Resource]) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind, as a manifest.

    ```python
    class Website(
        kcr.Resource, api_version="example.dev/v1", plural="websites", short_names=("web",),
        columns=(kcr.PrinterColumn("Ready", ".status.ready"),), scale=kcr.ScaleSubresource(),
    ):
        spec: WebsiteSpec
        status: WebsiteStatus = WebsiteStatus()

    await client.create_manifest(CustomResourceDefinition, kcr.crd_manifest(Website))
    ```

    A class with a field `status` has the status subresource. Descriptions are the first paragraphs of
    docstrings and their `Attributes:`; limits of values are `msgspec.Meta`.

    Keywords of a class for it: `singular`, `short_names`, `categories`, `columns` (`PrinterColumn`), `scale`
    (`ScaleSubresource`), `selectable_fields` (paths such as `.spec.color`), `validations` (`Validation`; also on each
    `kcr.Object`), and for a version `storage`, `served` and `deprecation_warning` (empty for the usual text).

    Args:
        versions: The class of the kind, or a class for each of its versions; of several, one has `storage=True`.

    Raises:
        TypeError: A class has no valid CustomResourceDefinition, or the classes do not belong together; the
            message names class, field and remedy.

    Source: sigs.k8s.io/controller-tools/pkg/crd/spec.go, NeedCRDFor.
    """
    stored = _storage(versions)
    first, options = stored.resource, _shared(versions)
    names: dict[str, Any] = {
        "kind": first.kind,
        "listKind": f"{first.kind}List",
        "plural": first.plural,
        "singular": options.singular or first.kind.lower(),
        "shortNames": list(options.short_names),
        "categories": list(options.categories),
    }
    ordered = sorted(versions, key=lambda one: one.resource.version)
    manifest = {
        "apiVersion": _API_VERSION,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{first.plural}.{first.group}"},
        "spec": {
            "group": first.group,
            "names": {name: said for name, said in names.items() if said},
            "scope": "Namespaced" if first.namespaced else "Cluster",
            "versions": [_version(one, is_stored=one is stored) for one in ordered],
        },
    }
    # Plain values of JSON, none of them shared: classes may say sequences as tuples.
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(manifest))
    return plain


def _storage(versions: tuple[type[Resource], ...]) -> type[Resource]:
    """Return the version that is stored; raise TypeError when the classes are no versions of one kind."""
    if not versions:
        raise TypeError("crd_manifest: name a class")
    for one in versions:
        if "." not in one.resource.group:
            raise TypeError(
                f"{one.__name__}: {one.resource.api_version} is Kubernetes' own: a kind of yours has a group with a "
                'dot, such as api_version="example.dev/v1"'
            )
    first = versions[0].resource
    for one in versions[1:]:
        if one.resource._replace(version=first.version) != first:
            raise TypeError(
                f"{one.__name__}: its group, kind, plural or scope is not that of {versions[0].__name__}: the versions "
                "of a kind have the same group, kind (kind=), plural and scope"
            )
    if len({one.resource.version for one in versions}) < len(versions):
        raise TypeError(f"{versions[0].__name__}: two classes have the version {first.version}: name each version once")
    stored = [one for one in versions if one.crd_options.storage or len(versions) == 1]
    if len(stored) != 1:
        names = ", ".join(one.__name__ for one in versions)
        raise TypeError(f"{names}: {len(stored)} of these versions are stored: give exactly one storage=True")
    return stored[0]


def _shared(versions: tuple[type[Resource], ...]) -> CrdOptions:
    """Return the names that the versions share; one that only some state holds for all."""
    shared = CrdOptions()
    for name in _SHARED:
        for one in versions:
            said, known = getattr(one.crd_options, name), getattr(shared, name)
            if said and known and said != known:
                raise TypeError(
                    f"{one.__name__}: its {name} is not that of another version: all versions have the same"
                )
            shared = shared._replace(**{name: known or said})
    return shared


def _version(kind: type[Resource], *, is_stored: bool) -> dict[str, Any]:
    options, schema = kind.crd_options, _root(kind)
    subresources: dict[str, Any] = {"status": {}} if "status" in schema["properties"] else {}
    if options.scale is not None:
        subresources["scale"] = _scale(kind, schema)
    version: dict[str, Any] = {
        "name": kind.resource.version,
        "served": options.served,
        "storage": is_stored,
        **_deprecation(options),
        "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
        "additionalPrinterColumns": [_column(kind, one, schema) for one in options.columns],
        "selectableFields": [{"jsonPath": _checked(kind, path, schema)} for path in options.selectable_fields],
    }
    return {name: said for name, said in version.items() if said not in ({}, [])}


def _deprecation(options: CrdOptions) -> dict[str, Any]:
    if options.deprecation_warning is None:
        return {}
    return {"deprecated": True} | (
        {"deprecationWarning": options.deprecation_warning} if options.deprecation_warning else {}
    )


def _root(kind: type[Resource]) -> Schema:
    """Return the schema of a whole object. Its status is written apart, so it is neither required nor defaulted."""
    schema = object_schema(kind)
    properties: dict[str, Schema] = schema.get("properties", {})
    if "status" in schema.get("required", ()):
        raise TypeError(
            f"{kind.__name__}.status: a new object has no status: give the field a default, such as `| None = None`"
        )
    if "status" in properties:
        properties["status"] = {name: said for name, said in properties["status"].items() if name != "default"}
    return schema | {"properties": {**_TYPE_META, **properties}}


def _scale(kind: type[Resource], schema: Schema) -> dict[str, str]:
    scale = kind.crd_options.scale
    assert scale is not None
    for path, root in ((scale.spec_path, ".spec."), (scale.status_path, ".status."), (scale.selector_path, ".")):
        if path and not path.startswith(root):
            raise TypeError(f"{kind.__name__}: scale: {path} does not begin with {root}: name a field below it")
    paths = {
        "specReplicasPath": scale.spec_path,
        "statusReplicasPath": scale.status_path,
        "labelSelectorPath": scale.selector_path,
    }
    return {name: _checked(kind, path, schema) for name, path in paths.items() if path}


def _column(kind: type[Resource], column: PrinterColumn, schema: Schema) -> dict[str, Any]:
    entry = {
        "name": column.name,
        "type": column.type or _column_type(_field_at(kind, column.json_path, schema)),
        "jsonPath": column.json_path,
        "description": column.description,
        "priority": column.priority,
        "format": column.format,
    }
    return {name: said for name, said in entry.items() if said}


def _column_type(found: Schema) -> str:
    if found.get("format") == "date-time":
        return "date"
    kind: str = found.get("type", "string")
    return kind if kind in ("boolean", "integer", "number") else "string"


def _checked(kind: type[Resource], path: str, schema: Schema) -> str:
    _field_at(kind, path, schema)
    return path


def _field_at(kind: type[Resource], path: str, schema: Schema) -> Schema:
    """Return the schema of the field at a JSONPath; of one that is reached through a filter, nothing is known.

    Raises:
        TypeError: The class has no such field.
    """
    found = schema | {"properties": {**schema["properties"], "metadata": _METADATA}}
    for name in _steps(path):
        if "properties" not in found:
            return found.get("additionalProperties", {})  # type: ignore[no-any-return]
        if name not in found["properties"]:
            raise TypeError(f"{kind.__name__}: it has no field {path}: name one such as .spec.replicas")
        found = found["properties"][name]
    return found if _STEP.sub("", path) == "" else {}


def _steps(path: str) -> Iterator[str]:
    place = 0
    while step := _STEP.match(path, place):
        yield step[1]
        place = step.end()
