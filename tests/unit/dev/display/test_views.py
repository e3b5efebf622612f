"""Views of events, and the bar of a Job."""

from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.core import Event, ObjectReference
from kcr.api.meta import Key
from kcr.cli.display import EventView
from kcr.controllers.job.commands.job_progress import JobView
from kcr_devcluster.dev.display.views import event_view, shares

RUNNING = JobView(Key("default", "pi"), 4, 0, 0, 0, 0, "Running", "", None, None)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param(RUNNING, (0, 0, 20), id="nothing-yet"),
        pytest.param(replace(RUNNING, active=2), (0, 10, 10), id="half-at-work"),
        pytest.param(replace(RUNNING, succeeded=2, active=2), (10, 10, 0), id="half-done"),
        pytest.param(replace(RUNNING, succeeded=4), (19, 0, 1), id="done-and-not-yet-complete"),
        pytest.param(replace(RUNNING, succeeded=4, state="Complete"), (20, 0, 0), id="complete"),
        pytest.param(replace(RUNNING, wanted=1000, succeeded=1, active=1), (1, 1, 18), id="small-shares-are-seen"),
        pytest.param(replace(RUNNING, wanted=None, succeeded=1, active=1), (10, 10, 0), id="work-queue"),
        pytest.param(replace(RUNNING, wanted=0), (0, 0, 20), id="nothing-wanted"),
    ],
)
def test_bar_is_shared_among_states(shown: JobView, expected: tuple[int, int, int]) -> None:
    assert shares(shown, 20) == expected


def event(reason: str, kind: str = "Normal", **fields: Any) -> Event:
    about = ObjectReference(kind="Pod", namespace="default", name="pi-x")
    return Event(involved_object=about, reason=reason, type=kind, **fields)


def test_event_is_one_line() -> None:
    posted = event("BackOff", "Warning", message="Back-off\nrestarting", count=3)
    assert event_view(posted) == EventView("pod/pi-x", "BackOff", "Back-off restarting (x3)", warning=True)


def test_steps_of_every_pod_are_not_shown() -> None:
    assert event_view(event("Pulled")) is None
    assert event_view(event("Started")) is not None
