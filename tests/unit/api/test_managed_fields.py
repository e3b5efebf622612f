"""Which field managers own the fields of an object."""

from datetime import UTC, datetime, timedelta

import msgspec

from kcr.api import codec
from kcr.api.managed_fields import ManagedObject

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def entry(manager: str, seconds: int | None, subresource: str = "status") -> dict[str, object]:
    time = {} if seconds is None else {"time": (NOON + timedelta(seconds=seconds)).isoformat()}
    return {"manager": manager, "operation": "Update", "fieldsV1": {"f:spec": {}}, "subresource": subresource, **time}


def test_writers_of_the_status_have_their_last_write() -> None:
    entries = [entry("a", 5), entry("a", 9), entry("a", 7), entry("b", 1), entry("c", None), entry("user", 20, "")]
    found = codec.decode(ManagedObject, msgspec.json.encode({"metadata": {"managedFields": entries}})).metadata
    assert found.status_writers == {"a": NOON + timedelta(seconds=9), "b": NOON + timedelta(seconds=1)}
    assert found.managed_fields[0].fields_v1 == {"f:spec": {}}
