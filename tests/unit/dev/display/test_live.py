"""The live picture, drawn on a terminal made of text."""

import re
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from kcr.api.batch import CronJob, CronJobSpec, CronJobStatus
from kcr.api.core import Container, ContainerStatus, Pod, PodSpec, PodStatus
from kcr.api.meta import Key, ObjectMeta
from kcr.cli.display import EventView, View
from kcr.controllers.job.commands.job_progress import JobView
from kcr_devcluster.dev.display.live import LiveDisplay
from kcr_devcluster.dev.display.views import cronjob_view, pod_view
from tests.kit.clocks import FixedClock

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def view(name: str, state: str, **fields: Any) -> JobView:
    base = JobView(Key("default", name), 4, 0, 0, 0, 0, state, "", NOON - timedelta(seconds=7), None)
    return replace(base, **fields)


def drawn(*views: View, height: int = 20, width: int = 140, log: str = "") -> str:
    text = StringIO()
    console = Console(file=text, width=width, height=height, force_terminal=True, color_system=None)
    with LiveDisplay(FixedClock(NOON), console) as display:
        if log:
            display.log(log)
        for one in views:
            display.show(one)
        display.event(EventView("pod/pi-x", "Started", "Started container pi", warning=False))
        display.event(EventView("job/pi", "Completed", "Job completed", warning=False))
        display.refresh()
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


def test_job_that_waits_says_what_for() -> None:
    picture = drawn(view("pi", "Waiting", active=1, why="no node has room for pod default/pi-x"))
    assert "! pi: no node has room for pod default/pi-x" in picture
    assert "Running" not in picture


def test_ended_jobs_give_way_to_running_ones() -> None:
    ended = [view(f"old-{number}", "Complete") for number in range(30)]
    picture = drawn(*ended, view("new", "Running"), height=9)
    assert "new" in picture
    assert "… and 29 more" in picture


LONG = "a-job-with-a-name-that-is-quite-long"


@pytest.mark.parametrize(
    ("width", "bar", "name"),
    [
        pytest.param(140, 30, LONG, id="wide"),
        pytest.param(100, 18, LONG, id="shorter-bar"),
        pytest.param(84, 0, LONG, id="no-bar"),
        pytest.param(70, 0, "a-job-with-a-name-that-i…", id="shorter-name"),
    ],
)
def test_bar_is_shortened_before_names_and_words(width: int, bar: int, name: str) -> None:
    picture = drawn(view(LONG, "Suspended", succeeded=2, failed=3), width=width)
    assert max(map(len, re.findall("━*", picture))) == bar
    assert f" {name} " in picture
    assert re.search(r"2/4 +0 active +0 ready +3 failed +7s +Suspended", picture)


def test_names_are_as_wide_in_all_tables() -> None:
    picture = drawn(view(LONG, "Running"), cronjob())
    assert f" {LONG}  ━" in picture
    assert f" {'hello':<{len(LONG)}}  */5 " in picture


def test_last_job_that_is_deleted_leaves_no_jobs() -> None:
    text = StringIO()
    console = Console(file=text, width=140, height=20, force_terminal=True, color_system=None)
    with LiveDisplay(FixedClock(NOON), console) as display:
        display.show(cronjob())
        display.show(view("pi", "Complete"))
        display.refresh()
        assert "no Jobs" not in text.getvalue()
        display.gone("job", Key("default", "pi"))
        display.refresh()
    assert "no Jobs\n" in text.getvalue()


def test_control_characters_are_escaped_in_the_picture() -> None:
    forged = "\x1b[2J\x1b]0;title\x07 done"
    picture = drawn(view("pi", "Failed", why=forged), cronjob(schedule=f"@every {forged}"))
    assert picture.count(r"\x1b[2J\x1b]0;title\x07 done") in (2, 4)
    assert "\x07" not in picture


def test_announced_line_appears_when_logs_push_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    text = StringIO()
    console = Console(file=text, width=140, height=20, force_terminal=True, color_system=None)
    with LiveDisplay(FixedClock(NOON), console) as display:
        display.announce("page http://127.0.0.1")
        display.log("3.14")
        display.show(view("pi", "Running"))
        display.refresh()
    assert text.getvalue().count("page http://127.0.0.1") == 2
    assert "page http" not in text.getvalue().rpartition("pi")[2]


def cronjob(**fields: Any) -> View:
    metadata = ObjectMeta(name="hello", namespace="default", creation_timestamp=NOON - timedelta(hours=1))
    status = CronJobStatus(last_schedule_time=NOON - timedelta(seconds=40))
    spec = CronJobSpec(**{"schedule": "*/5 * * * *", **fields})
    return cronjob_view(CronJob(metadata=metadata, spec=spec, status=status), UTC)


def test_cronjob_shows_schedule_last_and_next_run() -> None:
    picture = drawn(cronjob())
    assert re.search(r"↻  hello  \*/5 \* \* \* \*  0 active  last 40s ago  next in 5m  Scheduled", picture)
    assert "no Jobs yet" not in picture
    assert re.search(r"‖  hello .* next none  Suspended", drawn(cronjob(suspend=True)))
    assert "next in 20s" in drawn(cronjob(schedule="@every 1m"))


def test_bare_pod_shows_its_state() -> None:
    metadata = ObjectMeta(name="bare", namespace="default", creation_timestamp=NOON - timedelta(seconds=9))
    status = PodStatus(phase="Running", container_statuses=(ContainerStatus(ready=True, restart_count=2),))
    picture = drawn(pod_view(Pod(metadata=metadata, spec=PodSpec(containers=(Container(name="main"),)), status=status)))
    assert re.search(r"bare  1/1 ready  2 restarts  9s  Running", picture)


def test_running_jobs_come_before_cronjobs_where_room_is_short() -> None:
    picture = drawn(cronjob(), *(view(f"job-{number}", "Running") for number in range(5)), height=12)
    assert "job-4" in picture
    assert "hello" not in picture


def test_warning_begins_as_every_other_warning() -> None:
    text = StringIO()
    console = Console(file=text, width=140, height=20, force_terminal=True, color_system=None)
    with LiveDisplay(FixedClock(NOON), console) as display:
        display.event(EventView("pod/pi-x", "BackOff", "Back-off restarting", warning=True))
        display.event(EventView("job/pi", "Completed", "Job completed", warning=False))
        display.warn("some logs have not ended")
    assert "Warning: pod/pi-x  BackOff    Back-off restarting" in text.getvalue()
    assert "         job/pi    Completed  Job completed" in text.getvalue()
    assert "Warning: some logs have not ended" in text.getvalue()
