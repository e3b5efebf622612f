"""The live picture, drawn on a terminal made of text."""

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from kcr.api.meta import Key
from kcr.cli.live import LiveDisplay
from kcr.cli.view import EventView, JobView

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Noon:
    def now(self) -> datetime:
        return NOON


def view(name: str, state: str, **fields: Any) -> JobView:
    base = JobView(Key("default", name), 4, 2, 0, 0, 0, 0, state, "", NOON - timedelta(seconds=7), None)
    return base._replace(**fields)


def drawn(*views: JobView, height: int = 20, width: int = 140, log: str = "") -> str:
    text = StringIO()
    console = Console(file=text, width=width, height=height, force_terminal=True, color_system=None)
    with LiveDisplay(Noon(), "kubectl get jobs", console) as display:
        if log:
            display.log(log)
        for one in views:
            display.job(one)
        display.event(EventView("pod/pi-x", "Started", "Started container pi", warning=False))
        display.event(EventView("job/pi", "Completed", "Job completed", warning=False))
    return text.getvalue()


def test_running_job_has_bar_counters_and_age() -> None:
    picture = drawn(view("pi", "Running", succeeded=2, active=2, ready=1, failed=1))
    assert "━" * 30 in picture
    assert "2/4" in picture
    assert "2 active  1 ready  1 failed" in picture
    assert "7s" in picture


def test_events_stand_in_columns() -> None:
    picture = drawn()
    assert "pod/pi-x  Started    Started container pi" in picture
    assert "job/pi    Completed  Job completed" in picture


def test_empty_cluster_says_so() -> None:
    assert "no Jobs yet" in drawn()


def test_failed_job_says_why() -> None:
    picture = drawn(view("pi", "Failed", why="BackoffLimitExceeded: Job has reached the specified backoff limit"))
    assert "✗" in picture
    assert "BackoffLimitExceeded" in picture


def test_ended_jobs_give_way_to_running_ones() -> None:
    ended = [view(f"old-{number}", "Complete") for number in range(30)]
    picture = drawn(*ended, view("new", "Running"), height=10)
    assert "new" in picture
    assert "… and 29 more" in picture


def test_narrow_terminal_keeps_every_column() -> None:
    picture = drawn(view("a-job-with-a-name-that-is-far-too-long", "Suspended", succeeded=2, failed=3), width=80)
    assert "a-job-with-a-name…" in picture
    assert "0 active 0 ready 3 failed" in picture
    assert "Suspended" in picture


def test_hint_appears_when_logs_push_talk_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert "kubectl get jobs" not in drawn(view("pi", "Running"))
    assert "kubectl get jobs" in drawn(view("pi", "Running"), log="3.14")
