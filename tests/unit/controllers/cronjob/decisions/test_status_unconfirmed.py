from datetime import timedelta

from msgspec.structs import replace

from kcr.api.meta import ObjectMeta
from kcr.controllers.cronjob.decisions.jobs import SCHEDULED_AT
from kcr.controllers.cronjob.decisions.status import Run, absent, forgotten, restored, unlisted
from tests.kit.cronjob_builders import cron, job, listed
from tests.kit.cronjob_harness import at

TEN = at("10:00:00")
MINUTE = timedelta(minutes=1)
LATER = at("10:30:00")


def test_running_job_that_is_not_listed_is_in_doubt() -> None:
    running, other, ended = job("a"), job("b"), job("c", end="Complete")
    assert unlisted(cron(active=[running]), [running, other, ended]) == (other,)


def test_listed_job_that_the_store_lacks_is_in_doubt() -> None:
    running = job("a")
    what = cron(active=[running, job("b")])
    assert [reference.name for reference in absent(what, [running])] == ["b"]


def test_started_run_that_the_status_lacks_is_forgotten() -> None:
    made = job("hello-29671800", run=TEN)
    assert forgotten(cron(), [made], LATER) == (Run(TEN, made),)
    assert forgotten(cron(last=TEN - MINUTE), [made], LATER) == (Run(TEN, made),)


def test_run_on_record_is_not_forgotten() -> None:
    made = job("hello-29671800", run=TEN)
    assert forgotten(cron(active=[made]), [made], LATER) == ()
    assert forgotten(cron(last=TEN), [made], LATER) == ()
    assert forgotten(cron(last=TEN + MINUTE), [made], LATER) == ()


def test_run_still_to_come_is_not_forgotten() -> None:
    made = job("hello-29671800", run=TEN)
    assert forgotten(cron(), [made], TEN - MINUTE) == ()
    assert forgotten(cron(), [made], TEN) == (Run(TEN, made),)


def test_job_of_somebody_else_is_no_run() -> None:
    # Rows 34 and 36: made by hand, under whatever name; or the run of an earlier CronJob of the same name.
    made = job("hello-29671800", run=TEN)
    earlier = replace(cron(), metadata=replace(cron().metadata, uid="uid-before"))
    for other in (
        job("hello-29671800"),
        job("stray", run=TEN),
        job("hello-29671801", run=TEN),
        job("hello-29671800", run=TEN, owner=earlier),
        replace(made, metadata=ObjectMeta(name="hello-29671800", annotations=made.metadata.annotations)),
        replace(made, metadata=replace(made.metadata, annotations={SCHEDULED_AT: "?"})),
        replace(
            made,
            metadata=replace(made.metadata, annotations={SCHEDULED_AT: "2026-06-01T10:00:00"}),
        ),
    ):
        assert forgotten(cron(), [other], LATER) == ()


def test_recalled_runs_are_on_record_as_they_would_have_been() -> None:
    earlier, later = job("hello-29671800", run=TEN), job("hello-29671801", run=TEN + MINUTE, end="Complete")
    before = cron(active=[job()])
    status = restored(before.status, forgotten(before, [later, earlier], LATER))
    assert listed(status) == ["hello-a", "hello-29671800", "hello-29671801"]
    assert status.last_schedule_time == TEN + MINUTE


def test_recalled_job_is_listed_once_and_with_its_version() -> None:
    made = job("hello-29671800", run=TEN)
    status = restored(cron().status, [Run(TEN, made)])
    (last,) = status.active
    assert (last.kind, last.api_version, last.namespace, last.name, last.uid, last.resource_version) == (
        "Job", "batch/v1", "default", "hello-29671800", "u-hello-29671800", "9",
    )  # fmt: skip
    assert restored(status, [Run(TEN + MINUTE, made)]).active == status.active


def test_nothing_forgotten_leaves_the_status_as_it_is() -> None:
    status = cron(active=[job()]).status
    assert restored(status, ()) is status
