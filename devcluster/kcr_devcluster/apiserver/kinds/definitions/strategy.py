"""The strategy of CustomResourceDefinitions: defaults, fields that only the server sets, validation.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition/{strategy,etcd}.go;
pkg/apis/apiextensions/v1/defaults.go.
"""

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.kinds.definitions.schema_rules import format_warnings, set_warnings
from kcr_devcluster.apiserver.kinds.definitions.validation import definition_errors, schema_of, update_errors
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import FieldError
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.extensions import Schema

CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


class CustomResourceDefinitionStrategy(Strategy):
    """Definitions of custom resources; `definitions` serves their kinds and sets their status."""

    has_generation = True
    stored_as = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")

    def __init__(self, *, caps_names: bool = False, warns_of_sets: bool = False) -> None:
        """Take the traits of the version of Kubernetes, see `Traits`.

        Args:
            caps_names: Whether names have a length in the estimate of costs.
            warns_of_sets: Whether there is a warning about sets of objects and lists.
        """
        self._caps_names, self._warns_of_sets = caps_names, warns_of_sets

    def default(self, obj: Manifest) -> None:
        """Fill in names and conversion."""
        super().default(obj)
        spec: Manifest = obj.setdefault("spec", {})
        names: Manifest = spec.setdefault("names", {})
        kind = names.get("kind", "")
        if kind:
            names["singular"] = names.get("singular") or kind.lower()
            names["listKind"] = names.get("listKind") or f"{kind}List"
        conversion: Manifest = spec.setdefault("conversion", {"strategy": "None"})
        if service := ((conversion.get("webhook") or {}).get("clientConfig") or {}).get("service"):
            service.setdefault("port", 443)
        for version in spec.get("versions") or ():
            # Go holds them by value.
            version.setdefault("served", False)
            version.setdefault("storage", False)

    def prepare_create(self, obj: Manifest) -> None:
        """Reset the status: nothing is accepted, the storage version is stored."""
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": []}
        _add_stored_version(obj)

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status, but for a storage version that is new."""
        super().prepare_update(new, old)
        _add_stored_version(new)

    def prepare_delete(self, obj: Manifest) -> None:
        """Add the finalizer that holds a definition while there are objects."""
        finalizers = obj["metadata"].get("finalizers") or []
        if CLEANUP_FINALIZER not in finalizers:
            obj["metadata"]["finalizers"] = [*finalizers, CLEANUP_FINALIZER]

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new definition."""
        return definition_errors(obj, caps_names=self._caps_names)

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of a changed definition."""
        return [] if same_json(new["spec"], old["spec"]) else update_errors(new, old, caps_names=self._caps_names)

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return warnings about the schemas; on an update, without those of the version before."""
        found, before = self._warnings(new), [] if old is None else self._warnings(old)
        return [text for text in found if text not in before]

    def _warnings(self, crd: Manifest) -> list[str]:
        schemas = _schemas(crd)
        found = [text for schema in schemas for text in format_warnings(schema)]
        if self._warns_of_sets:
            found += sorted({text for schema in schemas for text in set_warnings(schema)})
        return list(dict.fromkeys(found))


def _schemas(crd: Manifest) -> list[Schema]:
    return [schema_of(version) for version in crd["spec"].get("versions") or ()]


def _add_stored_version(crd: Manifest) -> None:
    """Add the storage version to those that objects may be stored in."""
    status: Manifest = crd.setdefault("status", {})
    stored = status.get("storedVersions") or []
    name = next((one.get("name", "") for one in crd["spec"].get("versions") or () if one.get("storage")), None)
    if name is not None and name not in stored:
        crd["status"] = {**status, "storedVersions": [*stored, name]}
