"""What the logs of replicas show of hand-overs."""

import json
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("psutil", reason="of the extra bench")

from bench.shards_replica import held_at, parse_shards, read_log

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def line(second: int, event: str, shards: str) -> str:
    time = (NOON + timedelta(seconds=second)).isoformat()
    return json.dumps({"shards": shards, "event": event, "level": "info", "timestamp": time})


@pytest.mark.parametrize(("text", "shards"), [("", set()), ("7", {7}), ("0-3, 7", {0, 1, 2, 3, 7})])
def test_shards_are_read_as_messages_name_them(text: str, shards: set[int]) -> None:
    assert parse_shards(text) == shards


def test_log_shows_the_shards_that_were_held_at_a_moment() -> None:
    log = "\n".join(
        ["no JSON", line(1, "shards are active", "0-7"), line(5, "handing over shards", "4-7"), line(6, "other", "x")]
    )
    lines = list(read_log(log))
    assert held_at(lines, NOON) == frozenset()
    assert held_at(lines, NOON + timedelta(seconds=2)) == frozenset(range(8))
    assert held_at(lines, NOON + timedelta(seconds=9)) == frozenset(range(4))
