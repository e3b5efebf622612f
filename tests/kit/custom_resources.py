"""CustomResourceDefinitions and their objects."""

from collections.abc import Mapping
from typing import Any

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/ex.io/v1/namespaces/default/widgets"
Json = dict[str, Any]

CONDITIONS: Json = {
    "type": "array",
    "items": {"type": "object", "properties": {name: {"type": "string"} for name in ("type", "status", "reason")}},
}


def spec_schema(fields: Mapping[str, Any], **more: Any) -> Json:
    """Return the schema of objects whose spec has some fields."""
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields, **more}}}


def version(name: str, schema: Json, **more: Any) -> Json:
    """Return a version that is served, and stored unless `storage` is false."""
    return {"name": name, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **more}


def definition(*versions: Json, plural: str = "widgets", kind: str = "Widget", **names: Any) -> Json:
    """Return a definition in the group ex.io."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.ex.io"},
        "spec": {
            "group": "ex.io",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": list(versions),
        },
    }


def widget(name: str, spec: Any = None, **more: Any) -> Json:
    """Return a Widget of ex.io/v1."""
    found: Json = {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": name}, **more}
    return found if spec is None else {**found, "spec": spec}


def conditions_of(obj: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return status and reason of the conditions of an object."""
    return {one["type"]: (one["status"], one["reason"]) for one in obj["status"].get("conditions") or ()}
