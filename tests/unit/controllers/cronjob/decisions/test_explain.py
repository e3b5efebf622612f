"""The whole text of `kcr explain cronjob/NAME`, on facts alone."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from kcr.api.batch import CronJob, Job
from kcr.api.core import Event
from kcr.api.meta import Condition, Key
from kcr.cli.objects.explain import lines_of
from kcr.cli.objects.look import Shown
from kcr.cli.target import ObjectName
from kcr.controllers.cronjob.decisions.decide import decide
from kcr.controllers.cronjob.decisions.directives import offset_of
from kcr.controllers.cronjob.decisions.explain import CronJobEvidence, explain
from kcr.controllers.cronjob.decisions.plan import Facts
from tests.kit.cronjob_builders import cron, job
from tests.kit.cronjob_harness import at
from tests.kit.explanations import screen, text

TEN = at("10:00:00")
RUNNING = job("hello-29671800", started=TEN, run=TEN)


def explained(what: CronJob, now: str, jobs: Sequence[Job] = (), events: Sequence[Event] = ()) -> str:
    """Return what `kcr explain` prints of a CronJob, but for the events."""
    found = explain(Facts(cron=what, jobs=tuple(jobs), local=UTC, now=at(now)), CronJobEvidence(tuple(events)))
    return screen(lines_of(ObjectName(CronJob, "hello"), Key("default", "hello"), Shown(found, (), ()), at(now)))


def failed(name: str) -> Job:
    made = job(name, end="Failed", started=TEN, completed=TEN, run=TEN)
    condition = Condition(
        type="Failed", status="True", reason="BackoffLimitExceeded", last_transition_time=TEN,
        message="Job has reached the specified backoff limit",
    )  # fmt: skip
    return replace(made, status=replace(made.status, conditions=(condition,)))


@pytest.mark.parametrize(
    ("what", "now", "jobs", "expected"),
    [
        pytest.param(cron(last=TEN), "10:00:30", [], """
            cronjob default/hello: runs next in 30s, at 2026-06-01 10:01 UTC
              wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Allow
              present     0 running Jobs, last run 30s ago
              next        in 30s: starts a Job
        """, id="waiting"),
        pytest.param(
            cron("30 3 * * *", last=TEN, time_zone="Europe/Berlin", starting_deadline_seconds=90_000),
            "10:00:30", [], """
            cronjob default/hello: runs next in 15h, at 2026-06-02 03:30 Europe/Berlin
              wanted      schedule '30 3 * * *' in Europe/Berlin, concurrencyPolicy Allow,
                            startingDeadlineSeconds 90000
              present     0 running Jobs, last run 30s ago
              next        in 15h: starts a Job
        """, id="zone"),
        pytest.param(cron(last=TEN, suspend=True), "10:05:30", [], """
            cronjob default/hello: suspended
              wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Allow
              present     0 running Jobs, last run 5m30s ago
              next        when it is resumed: starts the run of 2026-06-01 10:05 UTC at once
              why         spec.suspend is true
              remedy      to resume it: kubectl -n default patch cronjob hello -p '{"spec":{"suspend":false}}'
        """, id="suspended"),
        pytest.param(cron("0 12 * * *", last=TEN, suspend=True), "10:05:30", [], """
            cronjob default/hello: suspended
              wanted      schedule '0 12 * * *' (no timeZone: taken for UTC), concurrencyPolicy Allow
              present     0 running Jobs, last run 5m30s ago
              next        when it is resumed: runs next at 2026-06-01 12:00 UTC
              why         spec.suspend is true
              remedy      to resume it: kubectl -n default patch cronjob hello -p '{"spec":{"suspend":false}}'
        """, id="suspended-before-its-time"),
        pytest.param(cron(deleted=TEN), "10:05:30", [], """
            cronjob default/hello: is being deleted
              wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Allow
              present     0 running Jobs, no run so far
        """, id="deleted"),
        pytest.param(cron(last=TEN), "10:05:30", [], """
            cronjob default/hello: has been due for 30s
              wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Allow
              present     0 running Jobs, last run 5m30s ago
              next        now: starts Job hello-29671805, due at 2026-06-01 10:05 UTC
                          in 30s: starts a Job
              remedy      see whether its controller runs: kube-controller-manager, or kcr run --controllers
                            cronjob --take-over
        """, id="no-controller"),
        pytest.param(cron(last=TEN), "12:05:30", [], """
            cronjob default/hello: has missed more than 100 runs: only the latest is started
              wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Allow
              present     0 running Jobs, last run 125m ago
              next        now: starts Job hello-29671925, due at 2026-06-01 12:05 UTC
                          in 30s: starts a Job
              why         TooManyMissedTimes: too many missed start times. Set or decrease
                            .spec.startingDeadlineSeconds or check clock skew
              remedy      see whether its controller was down or a clock is wrong; startingDeadlineSeconds
                            limits the look back
        """, id="missed-too-many"),
        pytest.param(cron("*/10 * * * *", last=TEN, starting_deadline_seconds=60), "10:35:00", [], """
            cronjob default/hello: runs next in 5m, at 2026-06-01 10:40 UTC; has missed a run
              wanted      schedule '*/10 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Allow,
                            startingDeadlineSeconds 60
              present     0 running Jobs, last run 35m ago
              next        in 5m: starts a Job
              why         the run of 2026-06-01 10:30 UTC was missed: startingDeadlineSeconds (60) was over
                            before it was started
              remedy      set a longer startingDeadlineSeconds
                          see whether its controller runs: kube-controller-manager, or kcr run --controllers
                            cronjob --take-over
        """, id="starting-deadline-over"),
        pytest.param(cron("0 0 30 2 *"), "10:00:30", [], """
            cronjob default/hello: never runs: no time fits its schedule
              wanted      schedule '0 0 30 2 *' (no timeZone: taken for UTC), concurrencyPolicy Allow
              present     0 running Jobs, no run so far
              why         InvalidSchedule: invalid schedule: 0 0 30 2 * : time difference between two schedules
                            is less than 1 second
              remedy      correct spec.schedule to times that there are, such as 0 0 28 2 *
        """, id="never"),
        pytest.param(cron(last=TEN, time_zone="Mars/Base"), "10:05:30", [], """
            cronjob default/hello: next run unknown: this machine does not know its time zone
              wanted      schedule '*/1 * * * *' in Mars/Base, concurrencyPolicy Allow
              present     0 running Jobs, last run 5m30s ago
              why         UnknownTimeZone: invalid timeZone: "Mars/Base": unknown time zone Mars/Base
              remedy      update the time zones of this machine, the system's package tzdata or pip install
                            --upgrade tzdata, and ask again
                          or set spec.timeZone to a name that it has, such as Europe/Berlin
        """, id="bad-zone"),
        pytest.param(cron("61 * * * *"), "10:05:30", [], """
            cronjob default/hello: never runs: its schedule cannot be parsed
              wanted      schedule '61 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Allow
              present     0 running Jobs, no run so far
              why         UnparseableSchedule: unparseable schedule: "61 * * * *" : end of range (61) above
                            maximum (59): 61
              remedy      correct spec.schedule: five fields, such as */5 * * * *
        """, id="bad-schedule"),
        pytest.param(
            cron(last=TEN, active=[RUNNING], concurrency_policy="Forbid"), "10:05:30", [RUNNING], """
            cronjob default/hello: skips the run that is due: another one runs (concurrencyPolicy Forbid)
              wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Forbid
              present     1 running Job: hello-29671800, last run 5m30s ago
              next        in 30s: starts a Job, unless hello-29671800 still runs (concurrencyPolicy Forbid)
              why         JobAlreadyActive: Not starting job because prior execution is running and concurrency
                            policy is Forbid
              remedy      shorten the run, lengthen the schedule, or set concurrencyPolicy to Allow or Replace
                          see what the run waits for: kcr explain -n default job/hello-29671800
        """, id="forbid-and-due"),
        pytest.param(
            cron(last=TEN, active=[RUNNING], concurrency_policy="Forbid"), "10:00:30", [RUNNING], """
            cronjob default/hello: runs next in 30s, at 2026-06-01 10:01 UTC
              wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Forbid
              present     1 running Job: hello-29671800, last run 30s ago
              next        in 30s: starts a Job, unless hello-29671800 still runs (concurrencyPolicy Forbid)
        """, id="forbid-and-running"),
        pytest.param(
            cron(last=TEN, active=[RUNNING], concurrency_policy="Replace"), "10:00:30", [RUNNING], """
            cronjob default/hello: runs next in 30s, at 2026-06-01 10:01 UTC
              wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Replace
              present     1 running Job: hello-29671800, last run 30s ago
              next        in 30s: starts a Job, and deletes hello-29671800 if still running (concurrencyPolicy
                            Replace)
        """, id="replace-and-running"),
        pytest.param(
            cron(last=TEN, active=[RUNNING], concurrency_policy="Replace"), "10:01:00", [RUNNING], """
            cronjob default/hello: starts Job hello-29671801 now
              wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Replace
              present     1 running Job: hello-29671800, last run 60s ago
              next        now: deletes hello-29671800, which it replaces
                          now: starts Job hello-29671801, due at 2026-06-01 10:01 UTC
                          in 60s: starts a Job
        """, id="replace-and-due"),
        pytest.param(
            cron(last=TEN, failed_jobs_history_limit=2), "10:00:30", [failed("hello-29671800")], """
            cronjob default/hello: runs next in 30s, at 2026-06-01 10:01 UTC; its latest Job failed
              wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Allow
              present     0 running Jobs, 1 Failed (keeps 2), last run 30s ago
              next        in 30s: starts a Job
              why         its latest Job, hello-29671800, failed 30s ago: BackoffLimitExceeded: Job has reached
                            the specified backoff limit
              remedy      see why it failed: kcr explain -n default job/hello-29671800
        """, id="latest-job-failed"),
    ],
)  # fmt: skip
def test_text_names_state_next_run_and_remedy(what: CronJob, now: str, jobs: list[Job], expected: str) -> None:
    assert explained(what, now, jobs) == text(expected)


QUOTA = "exceeded quota: jobs, requested: count/jobs.batch=1, used: count/jobs.batch=0, limited: count/jobs.batch=0"
FORBIDDEN = (
    'jobs.batch is forbidden: User "kcr-runner" cannot create resource "jobs" in API group "batch" '
    'in the namespace "default"'
)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(f'jobs.batch "hello-29671805" is forbidden: {QUOTA}', """
            cronjob default/hello: cannot create Jobs: a ResourceQuota is used up
              wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Allow
              present     0 running Jobs, last run 5m30s ago
              next        tries again to create Job hello-29671805, due at 2026-06-01 10:05 UTC, each time after
                            a longer wait
                          in 30s: starts a Job
              why         29s ago: Error creating job: jobs.batch "hello-29671805" is forbidden: exceeded quota:
                            jobs, requested: count/jobs.batch=1, used: count/jobs.batch=0, limited:
                            count/jobs.batch=0
              remedy      delete what uses it up, or raise it: kubectl -n default describe resourcequota jobs
        """, id="quota"),
        pytest.param(FORBIDDEN, """
            cronjob default/hello: cannot create Jobs: their controller has no right to create them
              wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Allow
              present     0 running Jobs, last run 5m30s ago
              next        tries again to create Job hello-29671805, due at 2026-06-01 10:05 UTC, each time after
                            a longer wait
                          in 30s: starts a Job
              why         29s ago: Error creating job: jobs.batch is forbidden: User "kcr-runner" cannot create
                            resource "jobs" in API group "batch" in the namespace "default"
              remedy      grant all that it needs:
                            kcr rbac generate --controllers cronjob --namespace default --name kcr-cronjob |
                            kubectl apply -f - &&
                            kubectl -n default create rolebinding kcr-cronjob --role=kcr-cronjob --user=kcr-runner
        """, id="no-right"),
    ],
)  # fmt: skip
def test_job_that_is_refused_has_cause_and_remedy(message: str, expected: str) -> None:
    told = Event(
        type="Warning", reason="FailedCreate", message=f"Error creating job: {message}", last_timestamp=at("10:05:01")
    )
    assert explained(cron(last=TEN), "10:05:30", events=[told]) == text(expected)


def test_refusal_is_over_once_a_job_was_created() -> None:
    told = Event(type="Warning", reason="FailedCreate", message="Error creating job: no", last_timestamp=TEN)
    made = Event(type="Normal", reason="SuccessfulCreate", message="Created job a", last_timestamp=at("10:00:05"))
    assert explained(cron(last=TEN), "10:05:30", events=[told, made]).startswith(
        "cronjob default/hello: has been due for 30s"
    )


def test_last_run_in_the_future_is_a_clock_that_was_set_back() -> None:
    command = "kubectl -n default patch cronjob hello --subresource=status"
    patch = '{"status":{"lastScheduleTime":null}}'
    assert explained(cron(last=at("12:00:00")), "10:05:30") == text(f"""
        cronjob default/hello: runs next in 115m, at 2026-06-01 12:01 UTC: its last run lies in the future
          wanted      schedule '*/1 * * * *' (no timeZone: taken for UTC), concurrencyPolicy Allow
          present     0 running Jobs, last run in 114m
          next        in 115m: starts a Job
          why         status.lastScheduleTime is 2026-06-01 12:00 UTC, in 114m: a clock was set back since,
                        or was ahead then; no run is due before that time
          remedy      see whether the clock of its controller is right, and that of this machine
                      if they are, to have it run before that time:
                        {command} -p '{patch}'
    """)


@pytest.mark.parametrize(("now", "is_said"), [("11:58:59", True), ("11:59:00", False)])
def test_clock_that_is_set_back_is_said_when_the_controller_says_it(now: str, is_said: bool) -> None:
    ahead = cron(last=at("12:00:00"))
    assert ("lies in the future" in explained(ahead, now)) is is_said
    assert bool(decide(Facts(cron=ahead, jobs=(), local=UTC, now=at(now))).announcements) is is_said


def annotated(what: CronJob, **texts: str) -> CronJob:
    annotations = {f"kcr.dev/{name.replace('_', '-')}": text for name, text in texts.items()}
    return replace(what, metadata=replace(what.metadata, annotations=annotations))


def test_spread_of_runs_is_shown_and_is_part_of_the_next_start() -> None:
    shown = explained(annotated(cron(last=TEN), spread="40s"), "10:00:30")
    offset = int(offset_of(annotated(cron(), spread="40s")).total_seconds())
    assert f"spread 40s: starts {offset}s after its schedule" in " ".join(shown.split())
    assert f"next        in {30 + offset}s: starts a Job" in shown


def test_change_of_the_clock_is_a_step_with_and_without_annotation() -> None:
    sunday = datetime(2026, 3, 29, 1, tzinfo=UTC)
    for days, is_shown in ((6, True), (8, False)):
        now = sunday - timedelta(days=days)
        what = cron("30 2 * * *", last=now - timedelta(minutes=10), time_zone="Europe/Berlin")
        steps = explain(Facts(cron=what, jobs=(), local=UTC, now=now)).steps
        assert [step.at for step in steps if "is set forward" in step.text] == ([sunday] if is_shown else [])
    later = annotated(what, clock_change_notice="240h")
    steps = explain(Facts(cron=later, jobs=(), local=UTC, now=now)).steps
    assert steps[-1].text.endswith("at 02:00: the run of 02:30 is skipped on that day")


def test_ignored_annotation_of_a_cronjob_is_a_reason() -> None:
    found = explain(Facts(cron=annotated(cron(last=TEN), spread="?"), jobs=(), local=UTC, now=at("10:00:30")))
    assert found.reasons[-1].startswith("annotation kcr.dev/spread: '?' is ignored: ")


@pytest.mark.parametrize(
    ("now", "expected"), [("10:01:09.999", "starts Job hello-29671801 now"), ("10:01:10", "has been due for 10s")]
)
def test_run_counts_as_late_after_ten_seconds(now: str, expected: str) -> None:
    assert explained(cron(last=TEN), now).splitlines()[0] == f"cronjob default/hello: {expected}"


SOURCES = "/usr/share/zoneinfo (2023c) and the Python package tzdata 2023.3"
UNKNOWN = Event(reason="UnknownTimeZone", message='invalid timeZone: "Mars/Base": unknown time zone Mars/Base')


@pytest.mark.parametrize(
    ("known", "headline", "where"),
    [
        pytest.param(CronJobEvidence(zones=SOURCES), "next run unknown: this machine", "of this machine", id="asked"),
        pytest.param(
            CronJobEvidence((UNKNOWN,), zones=SOURCES), "never runs: its controller", "of the controller's machine",
            id="asked-and-the-controller-says-so",
        ),
        pytest.param(
            CronJobEvidence(zones=SOURCES, is_own=True), "never runs: its controller", "of this machine", id="own"
        ),
    ],
)  # fmt: skip
def test_unknown_zone_names_the_zones_of_the_machine(known: CronJobEvidence, headline: str, where: str) -> None:
    found = explain(Facts(cron=cron(last=TEN, time_zone="Mars/Base"), jobs=(), local=UTC, now=TEN), known)
    assert found.headline.startswith(headline)
    assert found.reasons[0] == f"the time zones of this machine are from {SOURCES}"
    assert where in found.remedies[0]
