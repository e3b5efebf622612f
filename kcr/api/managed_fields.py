"""`metadata.managedFields`: which field managers own the fields of an object, and when they wrote them.

`ObjectMeta` leaves them out, for they are larger than the rest of most objects. The types here are for the few places
that ask who else writes an object.

Source: apimachinery/pkg/apis/meta/v1/types.go, ManagedFieldsEntry.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from kcr.api.meta import Object, ObjectMeta


class ManagedFieldsEntry(Object):
    """The fields that one manager owns by one operation, the time of the last addition, and the written subresource."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: datetime | None = None
    fields_type: str = ""
    fields_v1: Mapping[str, Any] = {}
    subresource: str = ""


class ManagedObjectMeta(ObjectMeta):
    """Metadata with the managed fields."""

    managed_fields: tuple[ManagedFieldsEntry, ...] = ()

    @property
    def status_writers(self) -> Mapping[str, datetime]:
        """The field managers of the status, and when each of them last wrote it."""
        found: dict[str, datetime] = {}
        for entry in self.managed_fields:
            if entry.subresource == "status" and entry.time is not None:
                found[entry.manager] = max(entry.time, found.get(entry.manager, entry.time))
        return found


class ManagedObject(Object):
    """An object of any kind, reduced to its metadata."""

    metadata: ManagedObjectMeta = ManagedObjectMeta()


class ManagedObjectList(Object):
    """A list of objects of any kind, reduced to their metadata."""

    items: tuple[ManagedObject, ...] = ()


Fields = Mapping[str, Any]


def with_updates_applied(entries: Sequence[ManagedFieldsEntry], manager: str) -> tuple[ManagedFieldsEntry, ...] | None:
    """Return managed fields in which a manager has applied what it created and updated before it began to apply.

    Then its next apply removes those of these fields that it no longer states; as long as its Update entry owns them as
    well, they stay for ever. Finalizers and the status stay in that entry: programs patch them beside their applies.

    Args:
        entries: The managed fields after an apply.
        manager: The field manager that has applied.

    Returns:
        None when there is nothing to change: the manager has no Update entry of the applied version, or none of the
        fields in it is applied as well. Fields that it patches beside those that it applies are left alone.

    Source: client-go/util/csaupgrade/upgrade.go, UpgradeManagedFields.
    """
    own = {entry.operation: entry for entry in entries if entry.manager == manager and not entry.subresource}
    applied, updated = own.get("Apply"), own.get("Update")
    if applied is None or updated is None or applied.api_version != updated.api_version:
        return None
    moved, kept = _split(updated.fields_v1)
    if not _overlap(moved, applied.fields_v1):
        return None
    applied = replace(applied, fields_v1=_union(applied.fields_v1, moved))
    others = [entry for entry in entries if entry not in own.values()]
    return (applied, *others, *([replace(updated, fields_v1=kept)] if kept else ()))


def _split(fields: Fields) -> tuple[Fields, Fields]:
    metadata = dict(fields.get("f:metadata", {}))
    finalizers = metadata.pop("f:finalizers", None)
    moved = {name: inner for name, inner in fields.items() if name not in ("f:metadata", "f:status")}
    if metadata:
        moved["f:metadata"] = metadata
    kept = {"f:status": fields["f:status"]} if "f:status" in fields else {}
    return moved, kept if finalizers is None else {**kept, "f:metadata": {"f:finalizers": finalizers}}


def _overlap(one: Fields, other: Fields) -> bool:
    """Return whether two sets have a field in common; `.`, a map or an item itself, is none."""
    return any(
        name != "." and name in other and (not inner or not other[name] or _overlap(inner, other[name]))
        for name, inner in one.items()
    )


def _union(one: Fields, other: Fields) -> Fields:
    both = {name: _joined(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}


def _joined(one: Fields, other: Fields) -> Fields:
    if one and other:
        return _union(one, other)
    # A path without paths below it is a member itself.
    return {".": {}, **one, **other} if one or other else {}
