"""Jobs as rows, from outside: those that need attention first."""

from datetime import timedelta
from typing import Any

import click
import pytest
from msgspec.structs import replace

from kcr.api.batch import Job, JobStatus
from kcr.api.core import ContainerState, ContainerStateWaiting, ContainerStatus, Event, ObjectReference, Pod
from kcr.api.meta import Condition
from kcr.controllers.job.commands.jobs import (
    SORTS,
    JobEvidence,
    JobRow,
    changed,
    lines_of,
    needs_events,
    needs_pods,
    rows_of,
    summary_of,
)
from tests.kit.builders import NOW, ago, job, pod

QUOTA = 'Error creating: pods "pi-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1'


def named(name: str, *, namespace: str = "default", created: float = 60, **fields: Any) -> Job:
    """A Job whose uid is `uid-` and its name."""
    status = fields.pop("status", JobStatus(start_time=ago(created), active=1))
    made = job(parallelism=fields.pop("parallelism", 1), **fields)
    metadata = replace(
        made.metadata, name=name, namespace=namespace, uid=f"uid-{name}", creation_timestamp=ago(created)
    )
    return replace(made, metadata=metadata, status=status)


def refused(about: Job, seconds: float = 30) -> Event:
    reference = ObjectReference(kind="Job", name=about.metadata.name, uid=about.metadata.uid)
    return Event(involved_object=reference, reason="FailedCreate", message=QUOTA, last_timestamp=ago(seconds))


def without_image(owner: Job) -> Pod:
    state = ContainerState(waiting=ContainerStateWaiting(reason="ErrImagePull"))
    one = pod("x", "Pending", owner=owner)
    return replace(one, status=replace(one.status, container_statuses=(ContainerStatus(name="c", state=state),)))


def ended(name: str, kind: str, reason: str) -> Job:
    conditions = (Condition(type=kind, status="True", reason=reason),)
    return named(name, status=JobStatus(start_time=ago(60), conditions=conditions, succeeded=1, failed=2))


STARTED = JobStatus(start_time=ago(60))


@pytest.mark.parametrize(
    ("what", "known", "expected"),
    [
        pytest.param(named("a"), JobEvidence(), ("running", ""), id="pods-not-read"),
        pytest.param(named("a"), JobEvidence([without_image(named("a"))]), ("cannot_start", "image"), id="image"),
        pytest.param(named("a"), JobEvidence([without_image(named("b"))]), ("running", ""), id="pod-of-another"),
        pytest.param(
            named("a", parallelism=2, completions=2, status=JobStatus(start_time=ago(60), active=2)),
            JobEvidence([without_image(named("a"))]), ("running", ""), id="one-runs",
        ),
        pytest.param(
            named("a", status=STARTED), JobEvidence(events=[refused(named("a"))]), ("cannot_start", "quota"),
            id="refused",
        ),
        pytest.param(
            named("a"), JobEvidence(events=[refused(named("a"))]), ("running", ""), id="let-in-since"
        ),
        pytest.param(
            named("a", status=STARTED), JobEvidence(events=[refused(named("a"), 700)]), ("pending", ""),
            id="refused-long-ago",
        ),
        pytest.param(
            named("a", status=JobStatus(start_time=ago(60), failed=1)), JobEvidence(), ("backing_off", "failures"),
            id="backs-off",
        ),
        pytest.param(named("a", status=JobStatus()), JobEvidence(), ("pending", "no_controller"), id="no-controller"),
        pytest.param(named("a", status=JobStatus(), created=2), JobEvidence(), ("pending", ""), id="new"),
        pytest.param(named("a", suspend=True, status=JobStatus()), JobEvidence(), ("suspended", ""), id="suspended"),
        pytest.param(
            named("a", completions=None, status=JobStatus(start_time=ago(60), succeeded=1, failed=1)),
            JobEvidence(), ("pending", ""), id="work-queue-is-done",
        ),
        pytest.param(
            ended("a", "Failed", "DeadlineExceeded"), JobEvidence(), ("failed", "DeadlineExceeded"), id="failed"
        ),
    ],
)  # fmt: skip
def test_state_of_a_row(what: Job, known: JobEvidence, expected: tuple[str, str]) -> None:
    (row,) = rows_of([what], known, NOW)
    assert (row.state, row.cause) == expected


def test_jobs_that_need_attention_come_first() -> None:
    jobs = [
        ended("done", "Complete", "CompletionsReached"), ended("broken", "Failed", "BackoffLimitExceeded"),
        named("idle", suspend=True), named("b-runs"), named("a-runs"), named("z", namespace="a", status=STARTED),
        named("stuck", status=STARTED),
    ]  # fmt: skip
    rows = rows_of(jobs, JobEvidence(events=[refused(jobs[-1])]), NOW)
    assert [row.name for row in rows] == ["stuck", "z", "a-runs", "b-runs", "idle", "broken", "done"]
    assert summary_of(rows) == (
        "7 Jobs: 1 cannot start (quota), 1 pending, 2 running, 1 suspended, 1 failed, 1 complete"
    )
    assert summary_of([]) == "no Jobs"


def test_cells_have_progress_and_age() -> None:
    (row,) = rows_of([ended("a", "Failed", "BackoffLimitExceeded")], JobEvidence(), NOW)
    assert row.cells(NOW) == ("default", "a", "failed", "BackoffLimitExceeded", "1/1", "0", "2", "60s")
    queue = JobRow("default", "q", "cannot_start", "", None, 0, 3, 0, None, None, None, "")
    assert queue.cells(NOW) == ("default", "q", "cannot start", "-", "0", "3", "0", "-")
    assert queue.cells(NOW, wide=True)[-2:] == ("-", "-")
    wide = replace(row, started=NOW - timedelta(minutes=5), ended=NOW - timedelta(minutes=2), owner="CronJob/report")
    assert wide.cells(NOW, wide=True)[-2:] == ("3m", "CronJob/report")
    assert replace(wide, ended=None).cells(NOW, wide=True)[-2] == "5m"


def test_rows_are_sorted_by_each_column() -> None:
    rows = [
        JobRow("a", "z", "running", "", 1, 0, 2, 1, NOW, None, None, ""),
        JobRow("b", "y", "running", "", 1, 1, 1, 3, NOW - timedelta(hours=1), None, None, ""),
        JobRow("b", "x", "running", "", 1, 2, 3, 2, None, None, None, ""),
    ]
    found = {name: "".join(row.name for row in sorted(rows, key=order)) for name, order in SORTS.items()}
    assert found == {"namespace": "zxy", "name": "xyz", "done": "xyz", "active": "xzy", "failed": "yxz", "age": "yzx"}


def test_states_have_colours_and_columns_stay_in_line() -> None:
    rows = rows_of([ended("a", "Failed", "x"), named("failed")], JobEvidence(), NOW)
    header, *lines = lines_of(rows, NOW)
    plain = [click.unstyle(line) for line in lines]
    assert [line for line in lines if "\x1b[31mfailed\x1b[0m" in line] == [lines[-1]]
    assert all(line[header.index("STATE") :].startswith(row.state) for row, line in zip(rows, plain, strict=True))


@pytest.mark.parametrize("columns", [3, 25, 40])
def test_lines_fit_a_narrow_terminal(columns: int) -> None:
    rows = rows_of([ended("a", "Failed", "x"), named("failed")], JobEvidence(), NOW)
    whole = [click.unstyle(line) for line in lines_of(rows, NOW)]
    assert [click.unstyle(line) for line in lines_of(rows, NOW, columns=columns)] == [line[:columns] for line in whole]


def test_pods_and_events_are_read_only_where_they_say_something() -> None:
    ready = named("a", status=JobStatus(start_time=ago(60), active=1, ready=1))
    assert [needs_pods(named("a")), needs_pods(ready), needs_pods(ended("a", "Failed", "x"))] == [True, False, False]
    waiting = named("a", status=STARTED)
    assert [needs_events(waiting), needs_events(ready), needs_events(replace(waiting, status=JobStatus()))] == [
        True, False, True,
    ]  # fmt: skip
    assert not needs_events(named("a", suspend=True, status=JobStatus()))


def test_only_changed_rows_are_shown_again() -> None:
    before = rows_of([named("a"), named("b")], JobEvidence(), NOW)
    after = rows_of([named("a"), named("b", suspend=True), named("c")], JobEvidence(), NOW + timedelta(seconds=5))
    assert [row.name for row in changed(before, after)] == ["c", "b"]
    assert list(changed(after, after)) == []
