"""metadata.managedFields as values. Source: apimachinery/pkg/util/managedfields/internal/*_test.go."""

from typing import Any

import pytest

from kcr_devcluster.apiserver.apply import managed_fields
from kcr_devcluster.apiserver.apply.fieldpath import LEAF
from kcr_devcluster.apiserver.apply.managed_fields import APPLY, UPDATE, ManagerEntry

ENTRY = {
    "manager": "m", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {"f:a": {}}},
}  # fmt: skip


def test_entries_are_read_and_written() -> None:
    given = [ENTRY, {**ENTRY, "operation": "Update", "subresource": "status"}]
    assert managed_fields.encode(managed_fields.decode(given)) == given


def test_appliers_come_first_and_then_the_oldest() -> None:
    # AS 8.8
    given = [
        {**ENTRY, "operation": "Update", "manager": "a"},
        {**ENTRY, "time": "2026-01-02T00:00:00Z", "manager": "b"},
        {**ENTRY, "manager": "d"},
        {**ENTRY, "manager": "c"},
    ]
    assert [entry["manager"] for entry in managed_fields.encode(managed_fields.decode(given))] == ["c", "d", "b", "a"]


def test_appliers_are_the_same_in_every_version() -> None:
    # AS 11.3
    one, other = ManagerEntry("m", APPLY, "v1"), ManagerEntry("m", APPLY, "v2")
    assert one.key == other.key
    assert one._replace(operation=UPDATE).key != other._replace(operation=UPDATE).key
    assert one.key != one._replace(subresource="status").key


@pytest.mark.parametrize(
    "change",
    [
        {"operation": "Patch"}, {"operation": ""}, {"apiVersion": ""}, {"fieldsType": ""}, {"fieldsType": "FieldsV2"},
        {"fieldsV1": {"x": {}}},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_entries_are_refused(change: Any) -> None:
    with pytest.raises(ValueError, match=r"operation|apiVersion|fieldsType|path element"):
        managed_fields.decode([{**ENTRY, **change}])


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        pytest.param(ManagerEntry("m", APPLY, "v1"), '"m"', id="apply"),
        pytest.param(ManagerEntry("m", UPDATE, "v1"), '"m" using v1', id="update"),
        pytest.param(
            ManagerEntry("m", UPDATE, "v1", "scale"), '"m" with subresource "scale" using v1', id="subresource"
        ),
    ],
)
def test_managers_are_shown_as_in_conflicts(entry: ManagerEntry, shown: str) -> None:
    # AS 11.4
    assert str(entry) == shown


def test_oldest_updates_are_merged_beyond_ten() -> None:
    entries = [ManagerEntry(f"m{n:02}", UPDATE, "v1", time=f"{n:02}", fields={f"f:{n}": LEAF}) for n in range(13)]
    kept = managed_fields.cap({entry.key: entry for entry in [*entries, ManagerEntry("a", APPLY, "v1")]})
    assert sorted(entry.manager for entry in kept.values()) == [
        "a",
        "ancient-changes",
        *(f"m{n:02}" for n in range(4, 13)),
    ]
    assert kept[(UPDATE, "ancient-changes", "v1", "")].fields == {f"f:{n}": LEAF for n in range(4)}


@pytest.mark.parametrize(
    ("field_manager", "user_agent", "name"),
    [
        pytest.param("me", "kubectl/v1", "me", id="said"),
        pytest.param("", "kubectl/v1.36.2 (linux/amd64)", "kubectl", id="user-agent"),
        pytest.param("", "", "unknown", id="nothing"),
        pytest.param("", "a\tb/1", "ab", id="unprintable"),
        pytest.param("", "é" * 100, "é" * 64, id="128-bytes"),
    ],
)
def test_writers_are_named(field_manager: str, user_agent: str, name: str) -> None:
    # AS 8.8
    assert managed_fields.manager_name(field_manager, user_agent) == name
