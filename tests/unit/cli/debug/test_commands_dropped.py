"""The list of `kcr debug dropped`."""

import msgspec

from kcr.cli.debug.commands import dropped_lines
from kcr.serving.debug.state import DroppedState
from tests.kit.debug_states import controller_state, debug_state

DROPPED = DroppedState(
    kind="websites.example.dev", predicate="generation_changed", count=12,
    last=("etl/a 41→42, 3s ago", "etl/b 7→9, 5s ago", *(f"etl/{number} created, 9s ago" for number in range(20))),
)  # fmt: skip
STATE = debug_state(
    msgspec.structs.replace(controller_state(name="site"), dropped=(DROPPED,)), controller_state(name="quiet")
)


def test_dropped_events_are_listed_by_predicate() -> None:
    first, *events = dropped_lines(STATE)
    assert first == "site: generation_changed dropped 12 events of websites.example.dev"
    assert events[:2] == ["  etl/a 41→42, 3s ago", "  etl/b 7→9, 5s ago"]
    assert len(events) == 10


def test_events_of_one_object_are_listed() -> None:
    assert list(dropped_lines(STATE, ["etl/b"])) == [
        "site: generation_changed dropped 12 events of websites.example.dev", "  etl/b 7→9, 5s ago",
    ]  # fmt: skip


def test_no_dropped_event_is_said_in_one_line() -> None:
    assert list(dropped_lines(debug_state(controller_state()))) == ["no predicate has dropped an event"]
    assert list(dropped_lines(STATE, ["etl/z"])) == ["no predicate has dropped an event of these objects lately"]
