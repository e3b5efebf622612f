"""Scenarios of job-controller §37 that are about one look at a Job, from what is seen to what is written."""

from typing import NamedTuple

from kcr.api.batch import JobStatus
from kcr.controllers.job.decisions.decide import decide
from kcr.controllers.job.decisions.plan import Outcome, Plan, ScaleDown, ScaleUp, Snapshot, StatusUpdate
from kcr.controllers.job.decisions.status import compute_status
from tests.kit.builders import ago, indexed, job, pod, snapshot


class Pass(NamedTuple):
    """One look: the plan, and what is written when all of its work succeeds."""

    plan: Plan
    update: StatusUpdate

    @property
    def counts(self) -> tuple[int, int | None, int, int]:
        """Active, terminating, succeeded, failed."""
        status = self.update.status
        return status.active, status.terminating, status.succeeded, status.failed


def look(seen: Snapshot) -> Pass:
    plan = decide(seen)
    match plan.work:
        case ScaleUp(members):
            outcome = Outcome(created=len(members))
        case ScaleDown(pods):
            outcome = Outcome(deleted=tuple(pods))
        case _:
            outcome = Outcome()
    return Pass(plan, compute_status(seen, plan, outcome))


def test_pod_too_many_is_removed_uncounted() -> None:
    # Row 9.
    found = look(snapshot(job(parallelism=2, completions=5), *(pod(f"p{n}") for n in range(3))))
    assert isinstance(found.plan.work, ScaleDown)
    assert len(found.plan.work.pods) == 1
    assert found.counts == (2, 1, 0, 0)
    assert not found.update.untrack


def test_suspension_waits_for_what_is_under_way() -> None:
    # Row 61.
    suspended = job(suspend=True, parallelism=2, completions=4)
    found = look(snapshot(suspended, pod("a"), pod("b"), expectations_met=False))
    assert not isinstance(found.plan.work, ScaleDown)
    assert found.update.status.conditions == ()
    assert found.counts == (2, 0, 0, 0)


def test_suspension_of_a_job_that_goes_only_lets_its_pods_go() -> None:
    # Row 62.
    going = job(suspend=True, parallelism=2, completions=4, deleted=True)
    found = look(snapshot(going, pod("a"), pod("b")))
    assert not isinstance(found.plan.work, ScaleDown)
    assert [gone.metadata.name for gone in found.update.untrack] == ["a", "b"]
    assert found.update.status.conditions == ()
    assert found.counts == (2, 0, 0, 0)


def test_pods_that_go_hold_their_places_though_one_is_too_many() -> None:
    # Row 112.
    going = [pod(f"t{n}", deleted=ago(1)) for n in range(4)]
    found = look(snapshot(job(pod_replacement_policy="Failed"), pod("a"), pod("b"), *going))
    assert isinstance(found.plan.work, ScaleDown)
    assert found.counts == (1, 5, 0, 0)


def test_index_of_a_pod_that_goes_is_free_or_not_by_the_policy() -> None:
    # Row 113.
    status = JobStatus(start_time=ago(60))
    # Long ago, so that no backoff holds the replacement back.
    going = pod("t", index=0, deleted=ago(60))
    for policy, indexes, counts in (("Failed", [1], (1, 1, 0, 0)), ("TerminatingOrFailed", [0, 1], (2, 1, 0, 0))):
        one = indexed(5, parallelism=2, status=status, pod_replacement_policy=policy)
        found = look(snapshot(one, going))
        assert isinstance(found.plan.work, ScaleUp)
        assert [member.index for member in found.plan.work.members] == indexes
        assert found.counts == counts
