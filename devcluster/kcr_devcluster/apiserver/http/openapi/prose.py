"""Descriptions of built-in types and fields, from Kubernetes' published document where it is installed.

The document is the package `kubernetes-validate` (the extra `schema`). It is read when the first OpenAPI document is
asked for, and is not needed for anything else. Without it the metadata that custom kinds have is described, shorter.
"""

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

from kcr_devcluster.apiserver.schema.builtin import document_path
from kcr_devcluster.versions import KubernetesVersion

# Descriptions of fields that are easily misused, even without the document.
_WARNINGS: Mapping[tuple[str, str], str] = {
    ("io.k8s.api.batch.v1.JobSpec", "selector"): (
        "A label query over pods that should match the pod count. It is generated; one that is written by hand and is "
        "not unique takes the orphaned pods of other Jobs."
    ),
    ("io.k8s.api.batch.v1.JobSpec", "manualSelector"): (
        "Leave it unset unless you are certain what you are doing: when true, the selector is yours, and one that is "
        "not unique makes this and other Jobs malfunction."
    ),
}


_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_METADATA_FIELDS: Mapping[str, str] = {
    "annotations": "Annotations are a map of text for tools and libraries; objects cannot be selected by them.",
    "creationTimestamp": "CreationTimestamp is a timestamp of the server: when the object was created. Read-only.",
    "deletionGracePeriodSeconds": "Seconds that the object has to terminate. Read-only.",
    "deletionTimestamp": "DeletionTimestamp is the time after which the object is deleted, once it has no finalizers. "
    "Read-only.",
    "finalizers": "Names of components that have work left before the object may be deleted.",
    "generateName": "GenerateName is a prefix, to which the server adds a suffix where no name is given.",
    "generation": "A number that grows with each change of the desired state. Read-only.",
    "labels": "Map of names and values by which objects are selected.",
    "managedFields": "The fields that each manager has set, for server-side apply.",
    "name": "Name is unique within a namespace, and never changes.",
    "namespace": "Namespace is the space within which the name is unique; empty for objects of the cluster.",
    "ownerReferences": "The objects that this one depends on: it is garbage collected when they are all deleted.",
    "resourceVersion": "An opaque version for watches and optimistic concurrency. Read-only.",
    "selfLink": "Deprecated: it is no longer set.",
    "uid": "UID is unique among all objects that there have ever been. Read-only.",
}


class Description(msgspec.Struct):
    """The prose of a type or a field."""

    description: str = ""


class TypeDescription(Description):
    """The prose of a type, and of its fields."""

    properties: Mapping[str, Description] = {}


class _Document(msgspec.Struct):
    definitions: Mapping[str, TypeDescription] = msgspec.field(name="$defs")


class Prose:
    """The descriptions of types and fields."""

    def __init__(self, types: Mapping[str, TypeDescription]) -> None:
        """Describe types by their full names, such as `io.k8s.api.batch.v1.Job`."""
        self._types = types

    def of_type(self, full_name: str) -> str:
        """Return the description of a type, `""` for none."""
        known = self._types.get(full_name)
        return known.description if known is not None else ""

    def of_field(self, full_name: str, field: str) -> str:
        """Return the description of a field of a type, `""` for none."""
        known = self._types.get(full_name)
        if known is None or field not in known.properties:
            return _WARNINGS.get((full_name, field), "")
        return known.properties[field].description


def own_prose() -> Prose:
    """Return the few descriptions that cannot be done without."""
    fields = {name: Description(text) for name, text in _METADATA_FIELDS.items()}
    return Prose({_METADATA: TypeDescription("ObjectMeta is the metadata of a stored object.", fields)})


@cache
def installed_prose(version: KubernetesVersion) -> Prose:
    """Return the descriptions of a version's installed document; without it, those of `own_prose`."""
    # Found and not imported: it imports a validator, for a tenth of a second on the event loop.
    package = find_spec("kubernetes_validate")
    for folder in (package and package.submodule_search_locations) or ():
        document = Path(folder, document_path(version))
        # It is missing where the package is another version than that which the table was made of.
        if document.exists():
            return Prose(msgspec.json.decode(document.read_bytes(), type=_Document).definitions)
    return own_prose()
