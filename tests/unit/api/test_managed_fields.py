"""Which field managers own the fields of an object."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kcr.api import codec
from kcr.api.managed_fields import ManagedFieldsEntry, ManagedObject, with_updates_applied

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def entry(manager: str, seconds: int | None, subresource: str = "status") -> dict[str, object]:
    time = {} if seconds is None else {"time": (NOON + timedelta(seconds=seconds)).isoformat()}
    return {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {}}, "subresource": subresource, **time}


def test_writers_of_the_status_have_their_last_write() -> None:
    entries = [entry("a", 5), entry("a", 9), entry("a", 7), entry("b", 1), entry("c", None), entry("user", 20, "")]
    found = codec.decode(ManagedObject, msgspec.json.encode({"metadata": {"managedFields": entries}})).metadata
    assert found.status_writers == {"a": NOON + timedelta(seconds=9), "b": NOON + timedelta(seconds=1)}
    assert found.managed_fields[0].fields_v1 == {"f:spec": {}}


def owned(operation: str, *paths: str, manager: str = "site", subresource: str = "") -> ManagedFieldsEntry:
    """Return the entry of a manager that owns some paths, such as `spec/image`."""
    fields: dict[str, Any] = {}
    for path in paths:
        place = fields
        for name in path.split("/"):
            place = place.setdefault(name if name == "." or ":" in name else f"f:{name}", {})
    return ManagedFieldsEntry(
        manager=manager, operation=operation, api_version="v1", fields_v1=fields, subresource=subresource
    )


OTHER = owned("Update", "spec/replicas", manager="scaler")


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param(
            [owned("Update", "data/.", "data/a", "data/b"), OTHER, owned("Apply", "data/a", "data/c")],
            [owned("Apply", "data/a", "data/c", "data/.", "data/b"), OTHER],
            id="fields-that-it-created",
        ),
        pytest.param(
            [
                owned("Apply", 'ports/k:{"port":1}/name'),
                owned("Update", 'ports/k:{"port":1}/.', 'ports/k:{"port":1}/name'),
            ],
            [owned("Apply", 'ports/k:{"port":1}/name', 'ports/k:{"port":1}/.')],
            id="items-of-lists",
        ),
        pytest.param(
            [owned("Apply", "spec/a"), owned("Update", "spec")],
            [owned("Apply", "spec/.", "spec/a")],
            id="whole-and-part",
        ),
        pytest.param(
            [owned("Apply", "spec/a"), owned("Update", "spec/a", "metadata/finalizers/v:x", "status/ready", "spec/b")],
            [owned("Apply", "spec/a", "spec/b"), owned("Update", "status/ready", "metadata/finalizers/v:x")],
            id="without-finalizers-and-status",
        ),
        pytest.param(
            [owned("Apply", "metadata/finalizers/v:x"), owned("Update", "metadata/finalizers/v:x", "spec/a")],
            None,
            id="finalizers-alone",
        ),
        pytest.param(
            [owned("Apply", "metadata/labels/a"), owned("Update", "metadata/labels/.", "metadata/labels/b")],
            None,
            id="patched-beside-the-applied-ones",
        ),
        pytest.param([owned("Apply", "spec/a"), owned("Update", "spec/a", manager="b")], None, id="of-another-manager"),
        pytest.param(
            [owned("Apply", "spec/a"), owned("Update", "spec/a", subresource="scale")], None, id="subresource"
        ),
        pytest.param([owned("Update", "spec/a"), OTHER], None, id="never-applied"),
        pytest.param(
            [replace(owned("Apply", "spec/a"), api_version="v2"), owned("Update", "spec/a")], None, id="other-version"
        ),
        pytest.param([owned("Apply", "spec/a"), OTHER], None, id="never-updated"),
    ],
)
def test_updates_of_a_manager_that_applies_become_applied(
    entries: list[ManagedFieldsEntry], expected: list[ManagedFieldsEntry] | None
) -> None:
    """Source: client-go/util/csaupgrade/upgrade.go."""
    made = with_updates_applied(entries, "site")
    assert made == (None if expected is None else tuple(expected))
    assert made is None or with_updates_applied(made, "site") is None
