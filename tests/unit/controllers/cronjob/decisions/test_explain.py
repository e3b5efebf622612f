"""Why a CronJob is where it is, on facts alone: what `kcr explain cronjob/NAME` is made of."""

from collections.abc import Sequence
from datetime import UTC

import pytest

from kcr.api.batch import CronJob, Job
from kcr.api.explanation import Explanation
from kcr.controllers.cronjob.decisions.explain import explain
from kcr.controllers.cronjob.decisions.plan import Facts
from tests.kit.cronjob_builders import cron, job
from tests.kit.cronjob_harness import at

TEN = at("10:00:00")
RUNNING = job("hello-29671800", started=TEN, run=TEN)
RESUME = 'to resume it: kubectl -n default patch cronjob hello --type merge -p \'{"spec":{"suspend":false}}\''
ABSENT = "see whether its controller runs: kube-controller-manager, or kcr run --controllers cronjob --take-over"
SKEW = "see whether its controller was down or a clock is wrong; startingDeadlineSeconds limits the look back"
TOO_MANY = (
    "TooManyMissedTimes: too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
)
NEVER = "time difference between two schedules is less than 1 second"
FORBID = "JobAlreadyActive: Not starting job because prior execution is running and concurrency policy is Forbid"


def explained(cron: CronJob, now: str, jobs: Sequence[Job] = ()) -> Explanation:
    return explain(Facts(cron=cron, jobs=tuple(jobs), local=UTC, now=at(now)))


@pytest.mark.parametrize(
    ("what", "now", "headline", "reasons", "remedies"),
    [
        pytest.param(cron(last=TEN), "10:00:30", "runs next in 30s", (), (), id="waiting"),
        pytest.param(cron(last=TEN, suspend=True), "10:05:30", "suspended", (), (RESUME,), id="suspended"),
        pytest.param(cron(deleted=TEN), "10:05:30", "is being deleted", (), (), id="deleted"),
        pytest.param(cron(last=TEN), "10:05:30", "is due for 30s", (), (ABSENT,), id="no-controller"),
        pytest.param(
            cron(last=TEN), "12:05:30", "has missed more than 100 runs: only the latest is started", (TOO_MANY,),
            (SKEW,), id="missed-too-many",
        ),
        pytest.param(
            cron("0 0 30 2 *"), "10:00:30", "never runs: no time fits its schedule",
            (f"InvalidSchedule: invalid schedule: 0 0 30 2 * : {NEVER}",), ("correct spec.schedule",), id="never",
        ),
        pytest.param(
            cron(last=TEN, time_zone="Mars/Base"), "10:05:30", "never runs: its time zone is unknown",
            ("UnknownTimeZone: invalid timeZone: \"Mars/Base\": unknown time zone Mars/Base",),
            ("set spec.timeZone to a name of the IANA database, such as Europe/Berlin",), id="bad-zone",
        ),
        pytest.param(
            cron("61 * * * *"), "10:05:30", "never runs: its schedule cannot be parsed",
            ('UnparseableSchedule: unparseable schedule: "61 * * * *" : end of range (61) above maximum (59): 61',),
            ("correct spec.schedule: five fields, such as */5 * * * *",), id="bad-schedule",
        ),
    ],
)  # fmt: skip
def test_headline_names_cause_and_remedy(
    what: CronJob, now: str, headline: str, reasons: tuple[str, ...], remedies: tuple[str, ...]
) -> None:
    found = explained(what, now)
    assert (found.headline, found.reasons, found.remedies) == (headline, reasons, remedies)


def test_forbidden_run_waits_for_the_one_that_runs() -> None:
    found = explained(cron(last=TEN, active=[RUNNING], concurrency_policy="Forbid"), "10:05:30", [RUNNING])
    assert found.headline == "skips a run that is due: another one is running, and concurrencyPolicy is Forbid"
    assert found.reasons == (FORBID,)
    assert found.present == "1 running Job: hello-29671800, last run 5m30s ago"
    assert [(step.text, step.at and step.at.isoformat()[:19]) for step in found.next] == [
        ("starts a Job", "2026-06-01T10:06:00")
    ]


@pytest.mark.parametrize(
    "what",
    [
        pytest.param(cron(last=TEN, suspend=True), id="suspended"),
        pytest.param(cron(last=TEN, deleted=TEN), id="deleted"),
        pytest.param(cron(last=TEN, time_zone="Mars/Base"), id="bad-zone"),
    ],
)
def test_nothing_is_next_for_a_stopped_schedule(what: CronJob) -> None:
    assert explained(what, "10:05:30").next == ()


def test_due_run_is_the_next_thing_to_happen() -> None:
    found = explained(cron(last=TEN, active=[RUNNING], concurrency_policy="Replace"), "10:01:00", [RUNNING])
    assert found.wanted == "schedule '*/1 * * * *' in the time zone of its controller, concurrencyPolicy Replace"
    assert [step.text for step in found.next] == [
        "deletes hello-29671800, which it replaces", "starts Job hello-29671801, due at 2026-06-01T10:01:00Z",
        "starts a Job",
    ]  # fmt: skip
