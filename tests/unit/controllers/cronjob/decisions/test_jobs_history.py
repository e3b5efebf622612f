from itertools import permutations
from typing import Any

import pytest

from kcr.api.batch import Job
from kcr.controllers.cronjob.decisions.jobs import surplus
from tests.kit.cronjob_builders import cron, job
from tests.kit.cronjob_harness import at


def gone(*jobs: Job, **limits: Any) -> list[str]:
    return [job.metadata.name for job in surplus(cron(**limits), jobs)]


def test_oldest_successes_go_first() -> None:
    # Row 48.
    jobs = [job(f"j{hour}", end="Complete", started=at(f"0{hour}:00:00")) for hour in range(1, 6)]
    for order in permutations(jobs):
        assert gone(*order) == ["j1", "j2"]


def test_job_that_never_started_is_the_newest() -> None:
    # Row 49.
    jobs = [job("b", end="Failed"), job("a", end="Failed"), job("z", end="Failed", started=at("05:00:00"))]
    assert gone(*jobs) == ["z", "a"]


def test_jobs_of_one_moment_go_by_their_names() -> None:
    jobs = [job(name, end="Failed", started=at("05:00:00")) for name in ("b", "a", "B", "A-1")]
    assert gone(*jobs) == ["A-1", "B", "a"]


def test_successes_go_before_failures() -> None:
    jobs = [job("f", end="Failed", started=at("01:00:00")), job("s", end="Complete", started=at("02:00:00"))]
    assert gone(*jobs, successful_jobs_history_limit=0, failed_jobs_history_limit=0) == ["s", "f"]


@pytest.mark.parametrize(
    ("successful", "failed", "expected"),
    [
        pytest.param(None, None, [], id="no-limits"),
        pytest.param(None, 0, ["f1", "f2"], id="52-only-failures"),
        pytest.param(0, None, ["s1", "s2"], id="only-successes"),
        pytest.param(2, 2, [], id="exactly-as-many"),
        pytest.param(1, 1, ["s1", "f1"], id="one-too-many"),
    ],
)
def test_limit_says_how_many_are_kept(successful: int | None, failed: int | None, expected: list[str]) -> None:
    jobs = [
        job(f"{letter}{number}", end=end, started=at(f"0{number}:00:00"))
        for end, letter in (("Failed", "f"), ("Complete", "s"))
        for number in (1, 2)
    ]
    assert gone(*jobs, successful_jobs_history_limit=successful, failed_jobs_history_limit=failed) == expected


def test_running_job_is_never_surplus() -> None:
    jobs = [job("a"), job("b", end="Suspended"), job("c", end="SuccessCriteriaMet"), job("d", end="FailureTarget")]
    assert gone(*jobs, successful_jobs_history_limit=0, failed_jobs_history_limit=0) == []
