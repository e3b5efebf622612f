import pytest

from kcr.dependents import EventEmitter
from kcr.dependents.emitter import summary
from kcr.errors import Cause, ForbiddenError
from kcr.testing import FakeRecorder
from tests.kit.owners import website


def test_each_of_three_gets_an_event_of_its_own() -> None:  # EX-30
    recorder = FakeRecorder()
    EventEmitter(recorder, "pod").created(website(), ["a", "b", "c"])
    assert [str(event) for event in recorder.events] == [
        "Normal SuccessfulCreate Created pod: a",
        "Normal SuccessfulCreate Created pod: b",
        "Normal SuccessfulCreate Created pod: c",
    ]


def test_more_than_three_are_summarised() -> None:  # EX-30, EX-31
    recorder = FakeRecorder()
    EventEmitter(recorder, "pod").deleted(website(), ["a", "b", "c", "d", "e"])
    assert len(recorder.events) == 4
    assert str(recorder.events[-1]) == "Normal SuccessfulDelete Deleted 2 more pods: d, e"


@pytest.mark.parametrize("count", [1, 40, 200, 5000])
def test_summary_fits_into_an_event_and_counts_the_rest(count: int) -> None:  # EX-30
    names = [f"website-{number:05}" for number in range(count)]
    text = summary("Created", "pod", names)
    assert len(text.encode()) <= 1024
    shown = text.count("website-")
    assert shown == count or text.endswith(f"… and {count - shown} others")


def test_failures_are_told_one_by_one_and_the_first_returned() -> None:  # EX-30
    recorder = FakeRecorder()
    errors = [ForbiddenError(403, "Forbidden", f"quota {number}") for number in range(5)]
    assert EventEmitter(recorder, "pod").not_created(website(), errors) is errors[0]
    assert [event.message for event in recorder.events] == [f"Error creating: quota {n}" for n in range(5)]


def test_namespace_that_goes_away_is_no_failure() -> None:  # EX-20, EX-30
    recorder = FakeRecorder()
    ending = ForbiddenError(403, "Forbidden", "no", causes=(Cause(reason="NamespaceTerminating"),))
    assert EventEmitter(recorder, "pod").not_created(website(), [ending]) is None
    assert recorder.events == []
