"""`metadata.managedFields`: which field managers own the fields of an object, and when they wrote them.

`ObjectMeta` leaves them out, for they are larger than the rest of most objects. The types here are for the few places
that ask who else writes an object.

Source: apimachinery/pkg/apis/meta/v1/types.go, ManagedFieldsEntry.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kcr.api.meta import Object, ObjectMeta


class ManagedFieldsEntry(Object):
    """The fields that one manager owns by one operation, the time of the last addition, and the written subresource."""

    manager: str = ""
    subresource: str = ""
    time: datetime | None = None
    fields_v1: Mapping[str, Any] = {}


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
