"""`metadata.managedFields`: which field managers own which fields of an object, and by which operation.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/managedfields/internal/{managedfields,capmanagers}.go;
kubernetes/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/create.go, managerOrUserAgent.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.apply import fieldpath
from kcr_devcluster.apiserver.apply.fieldpath import FieldSet

APPLY, UPDATE = "Apply", "Update"
_LONGEST_MANAGER = 128
_MOST_UPDATE_MANAGERS = 10
_OLDEST_MANAGERS = "ancient-changes"


class ManagerEntry(NamedTuple):
    """The fields that one manager owns by one operation.

    Attributes:
        manager: The name of the field manager.
        operation: `Apply` or `Update`.
        api_version: The version of the object that the fields belong to.
        subresource: The subresource that it wrote, `""` for the object itself.
        time: When it last added fields; `""` for never.
        fields: The fields that it owns.
    """

    manager: str
    operation: str
    api_version: str
    subresource: str = ""
    time: str = ""
    fields: FieldSet = {}

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key of the entry: an applier keeps its fields when it applies another version."""
        version = "" if self.operation == APPLY else self.api_version
        return (self.operation, self.manager, version, self.subresource)

    def __str__(self) -> str:
        """Return the manager as the messages of conflicts show it."""
        name = fieldpath.quoted(self.manager)
        if self.subresource:
            name += f" with subresource {fieldpath.quoted(self.subresource)}"
        return name if self.operation == APPLY else f"{name} using {self.api_version}"


# By their keys, in any order.
Managed = Mapping[tuple[str, str, str, str], ManagerEntry]


def decode(given: Any) -> Managed:
    """Return the entries of an object's managedFields, decoded.

    Raises:
        ValueError: They are invalid.
    """
    managed: dict[tuple[str, str, str, str], ManagerEntry] = {}
    for member in given or ():
        entry = _decode_entry(member)
        managed[entry.key] = entry
    return managed


def _decode_entry(member: Mapping[str, Any]) -> ManagerEntry:
    if member.get("operation") not in (APPLY, UPDATE):
        raise ValueError("operation must be `Apply` or `Update`")
    if not member.get("apiVersion"):
        raise ValueError("apiVersion must not be empty")
    if member.get("fieldsType") != "FieldsV1":
        raise ValueError(f"invalid fieldsType {member.get('fieldsType')!r}")
    return ManagerEntry(
        member.get("manager") or "", member["operation"], member["apiVersion"], member.get("subresource") or "",
        member.get("time") or "", fieldpath.decode(member.get("fieldsV1") or {}),
    )  # fmt: skip


def encode(managed: Managed) -> list[dict[str, Any]]:
    """Return the managedFields of an object: appliers first, then by time."""
    ordered = sorted(
        managed.values(), key=lambda one: (one.operation, one.time, one.manager, one.api_version, one.subresource)
    )
    return [_encode_entry(entry) for entry in ordered]


def _encode_entry(entry: ManagerEntry) -> dict[str, Any]:
    members = {
        "manager": entry.manager, "operation": entry.operation, "apiVersion": entry.api_version, "time": entry.time,
        "fieldsType": "FieldsV1", "fieldsV1": fieldpath.encode(entry.fields), "subresource": entry.subresource,
    }  # fmt: skip
    return {name: value for name, value in members.items() if value != ""}


def is_reset(given: Any) -> bool:
    """Return whether managedFields that a client writes ask for an object without any: `[]` or `[{}]`."""
    return given in ([], [{}])


def cap(managed: Managed) -> Managed:
    """Return at most ten entries of updates: the oldest are merged into one per version."""
    updates = sorted((entry for entry in managed.values() if entry.operation == UPDATE), key=lambda one: one.time)
    surplus = len(updates) - _MOST_UPDATE_MANAGERS
    if surplus <= 0:
        return managed
    kept = dict(managed)
    for entry in updates:
        if not surplus:
            break
        del kept[entry.key]
        merged = entry._replace(manager=_OLDEST_MANAGERS, subresource="")
        if before := kept.get(merged.key):
            merged = merged._replace(fields=fieldpath.union(before.fields, merged.fields))
            surplus -= 1
        kept[merged.key] = merged
    return kept


def manager_name(field_manager: str, user_agent: str) -> str:
    """Return the name of the field manager: that of the request, or the first part of its User-Agent."""
    name = field_manager or "".join(filter(str.isprintable, user_agent.partition("/")[0]))
    return name.encode()[:_LONGEST_MANAGER].decode("utf-8", "ignore") or "unknown"
