"""The tables of `kcr shards`."""

from datetime import UTC, datetime, timedelta

from kcr.cli.objects.shards import as_json, lines_of
from kcr.scopes.sharding.leases import LeaseState, Overview, ReplicaView, ShardView

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
FOUND = Overview(
    (
        ShardView(0, 2, 0, 31, "node-1_a", NOW - 90 * SECOND, NOW - SECOND, LeaseState.HELD),
        ShardView(1, 2, 32, 63),
    ),
    (ReplicaView("node-1_a", (0,), NOW - SECOND, LeaseState.HELD),),
)


def test_columns_are_as_wide_as_their_longest_cell() -> None:
    assert list(lines_of(FOUND, NOW)) == [
        "SHARD  SLOTS  HOLDER    SINCE    RENEWED  STATE",
        "0      0-31   node-1_a  90s ago  1s ago   held",
        "1      32-63  -         -        -        free",
        "",
        "REPLICA   COUNT  SHARDS  RENEWED  STATE",
        "node-1_a  1      0       1s ago   held",
    ]


def test_json_has_every_shard_and_replica() -> None:
    found = as_json("web", "ops", FOUND)
    assert found["name"], found["namespace"] == ("web", "ops")
    assert found["shards"][1]["state"] == "free"  # type: ignore[index]  # a list
    assert found["replicas"][0]["shards"] == (0,)  # type: ignore[index]  # a list
