"""The versions in which managers own fields: where a webhook converts, each manager's fields are of its own version.

A manager that applied `spec.host` in version 1 owns it there, whatever field holds the value in version 2. So two
versions of an object are compared in the version of each manager, and fields that a manager no longer applies are
pruned in the version in which it applied them. Without a webhook all versions have the same fields, and nothing is
converted.

Source: sigs.k8s.io/structured-merge-diff, merge/update.go, update, prune and addBackOwnedItems;
kubernetes/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/versionconverter.go.
"""

from collections.abc import Mapping
from functools import reduce

from kcr_devcluster.apiserver.apply.fieldpath import FieldSet, difference, union
from kcr_devcluster.apiserver.apply.managed_fields import Managed, ManagerEntry
from kcr_devcluster.apiserver.apply.merge import prune
from kcr_devcluster.apiserver.apply.typed import Comparison, all_paths, compare
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.schema.shape import Field, Shape

MANAGED_FIELDS = "managedFields"


class FieldVersions:
    """The fields of a kind in the version that is written, and in those of the managers.

    Attributes:
        shape: The fields in the version that is written.
        field: The same as a field.
    """

    def __init__(self, kind: Kind, shape: Shape | None = None) -> None:
        """Take the fields of a kind.

        Args:
            kind: The kind.
            shape: Those of its fields that requests may have; None for all.
        """
        self._kind = kind
        self.shape: Shape = shape or kind.shape
        self.field: Field = Field(self.shape.type)

    def known(self, managed: Managed) -> Managed:
        """Return the managers whose versions exist; the fields of the others have no owner."""
        converter = self._kind.converter
        if converter is None:
            return managed
        return {key: one for key, one in managed.items() if _version(one.api_version) in converter.kinds}

    def is_written(self, managed: Managed) -> bool:
        """Return whether all managers own fields of the version that is written, or of one with the same fields."""
        own = self._kind.type.api_version
        return self._kind.converter is None or all(entry.api_version == own for entry in managed.values())

    def defaulted(self, manifest: Manifest) -> Manifest:
        """Set the defaults in an object of the version that is written, and return it; `{}` if it is no object."""
        kind, conversion = self._kind.written, self._kind.conversion
        try:
            if conversion is not None and self._kind.custom is None:
                conversion.to_hub(manifest)
            kind.strategy.default(manifest)
            if conversion is not None and self._kind.custom is None:
                conversion.from_hub(manifest)
        except StatusError:
            return {}
        return manifest

    def shown(self, manifest: Manifest, api_version: str) -> tuple[Field, Manifest]:
        """Return an object in a version, and the fields of that version.

        Raises:
            PendingError: The webhook has to be called.
            StatusError: 500, the webhook failed.
        """
        converter = self._kind.converter
        if converter is None or manifest.get("apiVersion", api_version) == api_version:
            found = self._kind if converter is None else converter.kinds[_version(api_version)]
            return Field(found.shape.type), manifest
        metadata = {name: value for name, value in manifest["metadata"].items() if name != MANAGED_FIELDS}
        (converted,) = converter.converted([{**manifest, "metadata": metadata}], _version(api_version))
        return Field(converter.kinds[_version(api_version)].shape.type), converted

    def changes(self, managed: Managed, before: Manifest, new: Manifest) -> Mapping[str, Comparison]:
        """Return how two versions of an object differ, by the apiVersion of each manager."""
        found: dict[str, Comparison] = {}
        if self.is_written(managed):
            change = compare(self.field, before, new)
            return {entry.api_version: change for entry in managed.values()}
        for entry in managed.values():
            if entry.api_version not in found:
                field, after = self.shown(new, entry.api_version)
                found[entry.api_version] = compare(field, self.shown(before, entry.api_version)[1], after)
        return found

    def pruned(self, manifest: Manifest, last: ManagerEntry, owners: Managed) -> Manifest:
        """Return a merged object without the fields that a manager applied before and no manager owns now.

        Args:
            manifest: The merged object; it is not changed.
            last: The manager with the fields that it applied before.
            owners: All managers with the fields that they own now.
        """
        if self.is_written({**owners, last.key: last}):
            return prune(self.field, manifest, last.fields, _fields_of(owners))  # type: ignore[no-any-return]
        field, merged = self.shown(manifest, last.api_version)
        pruned: Manifest = prune(field, merged, last.fields, _fields_of(owners, last.api_version))
        for version in dict.fromkeys(entry.api_version for entry in owners.values()):
            if version == last.api_version:
                continue
            # Removed fields that this version's managers own are added again.
            field, merged = self.shown(manifest, version)
            removed = difference(all_paths(field, merged), all_paths(field, self.shown(pruned, version)[1]))
            pruned = prune(field, merged, removed, _fields_of(owners, version))
        return self.shown(pruned, self._kind.type.api_version)[1]


def _fields_of(managed: Managed, api_version: str = "") -> FieldSet:
    found = (entry.fields for entry in managed.values() if api_version in ("", entry.api_version))
    none: FieldSet = {}
    return reduce(union, found, none)


def _version(api_version: str) -> str:
    return api_version.rpartition("/")[2]
