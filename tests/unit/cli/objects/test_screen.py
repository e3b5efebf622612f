"""An explanation fits one screen, and its commands can be copied."""

from datetime import UTC, datetime

import pytest

from kcr.api.core import Event, EventSeries
from kcr.api.meta import MicroTime, ObjectMeta
from kcr.cli.objects.screen import COLUMNS, LINES, condensed, fitted, is_part_of

LONG = "word " * 200


def test_long_text_is_wrapped_and_cut() -> None:
    lines = list(fitted("it waits", [("why", [LONG])]))
    assert len(lines) == 5
    assert max(map(len, lines)) <= COLUMNS
    assert lines[1].startswith("  why         word word")
    assert lines[-1].endswith("word …")


def test_command_is_never_broken() -> None:
    command = "kubectl -n default patch job " + "x" * 90
    assert list(fitted("it waits", [("remedy", [f"to resume it: {command}"])]))[1:] == [
        "  remedy      to resume it:", f"                {command}",
    ]  # fmt: skip


def test_commands_of_one_remedy_are_lines_that_a_shell_joins() -> None:
    first, second = "kubectl create role " + "x" * 60, "kubectl create rolebinding y"
    assert list(fitted("it waits", [("remedy", [f"grant it: {first} && {second}"])]))[1:] == [
        "  remedy      grant it:", f"                {first} &&", f"                {second}",
    ]  # fmt: skip


def test_oldest_events_are_left_out_first() -> None:
    rows = [("why", [f"reason {number}" for number in range(15)]), ("events", [f"event {n}" for n in range(20)])]
    lines = list(fitted("it waits", rows))
    assert len(lines) == LINES
    assert lines[-9:-7] == ["              reason 14", "  events      event 12"]
    assert lines[-1] == "              event 19"


def test_warnings_that_differ_in_a_generated_name_are_one() -> None:
    def event(name: str, kind: str, message: str, count: int = 0) -> Event:
        return Event(metadata=ObjectMeta(name=name), type=kind, reason="R", message=message, count=count)

    found = condensed(
        [
            event("a", "Warning", 'pods "pi-x8k2p" is forbidden'), event("b", "Normal", "Created pod: pi-aaaaa"),
            event("c", "Normal", "Created pod: pi-bbbbb"), event("d", "Warning", 'pods "pi-zzzzz" is forbidden', 3),
        ]
    )  # fmt: skip
    assert [(one.metadata.name, one.count) for one in found] == [("b", 0), ("c", 0), ("d", 4)]


def test_series_of_warnings_are_added_up() -> None:
    def event(name: str, count: int) -> Event:
        series = EventSeries(count=count, last_observed_time=MicroTime(2026, 1, 1, 0, count, tzinfo=UTC))
        return Event(metadata=ObjectMeta(name=name), type="Warning", reason="R", message="no room", series=series)

    (found,) = condensed([event("a", 2), event("b", 5)])
    assert (found.times, found.last_seen) == (7, datetime(2026, 1, 1, 0, 5, tzinfo=UTC))


def test_control_characters_of_messages_reach_no_terminal() -> None:
    lines = list(fitted("it \x1b[2Jwaits", [("why", ["\x9b2J"]), ("events", ["a\x1b]0;title\x07"])]))
    assert lines == ["it \\x1b[2Jwaits", "  why         \\x9b2J", "  events      a\\x1b]0;title\\x07"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param('pods "pi-x2k4f" is forbidden', True, id="another-generated-name"),
        pytest.param('pods  "pi-x2k4f"\nis forbidden', True, id="other-white-space"),
        pytest.param("is denied", False, id="another-text"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_text_is_found_in_what_is_said(text: str, *, expected: bool) -> None:
    assert is_part_of(text, ["why", '5s ago: Error creating: pods "pi-z9b7q" is forbidden: quota']) is expected
