"""Open defects of kube-controller-manager, each with the story or test that shows that kcr has it not."""

from typing import NamedTuple


class UpstreamDefect(NamedTuple):
    """A defect of upstream.

    Attributes:
        what: What happens there, with the rule of the specification or the issue.
        here: What shows its absence here: a row of the card, or a test.
    """

    what: str
    here: str


def _test(path: str, name: str) -> str:
    return f"[`{name}`](../tests/{path})"


DEFECTS: tuple[UpstreamDefect, ...] = (
    UpstreamDefect(
        "a Job made again under its name waits for pods of the old one (k8s#142142, k8s#131917)",
        f"row `names`, {_test('chaos/test_recreate_race.py', 'test_jobs_made_again_in_a_hurry_all_run')}",
    ),
    UpstreamDefect(
        "a Job made again inherits the backoff of the old one (k8s#132042)",
        _test("controllers/job/scenarios/test_namesakes.py", "test_old_end_and_delay_hold_nothing_back"),
    ),
    UpstreamDefect(
        "a status in backoff has more ready than active pods, and is refused (k8s#139428)",
        "law `no_status_is_invalid` in all rows",
    ),
    UpstreamDefect(
        "a crash between the success policy and the end counts pods as failed",
        f"row `crash`, scenario `success-policy`, "
        f"{_test('controllers/job/scenarios/test_success_policy.py', 'test_success_that_is_recorded_stands')}",
    ),
    UpstreamDefect(
        "finalizers of pods outlive the Job that is deleted unseen",
        f"law `no_pod_is_held` in all rows, "
        f"{_test('controllers/job/scenarios/test_ownership.py', 'test_no_pod_is_held_when_its_job_went_unseen')}",
    ),
    UpstreamDefect(
        "a pod that ends unseen while the Job is scaled down or suspended is not counted",
        _test("controllers/job/test_faults.py", "test_pod_that_ended_unseen_is_counted_though_it_is_too_many"),
    ),
    UpstreamDefect(
        "a run of a CronJob whose record is lost in a crash is never recorded",
        f"row `cron`, {_test('controllers/cronjob/test_crash.py', 'test_crash_after_any_write_starts_the_same_runs')}",
    ),
    UpstreamDefect(
        "a Job of a CronJob that is deleted after its record is started again by a new leader",
        _test("controllers/cronjob/test_new_leader.py", "test_recorded_run_whose_job_is_deleted_is_not_started_again"),
    ),
)
