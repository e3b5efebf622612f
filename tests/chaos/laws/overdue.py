"""What the controller owes a Job, as the storage has it, and has not done although it had the time."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

from kcr.api.batch import COMPLETE, FAILED, Job, is_finished
from kcr.api.conditions import is_condition_true
from kcr.api.pods import is_ready
from kcr.controllers.job.decisions.lifecycle import (
    FAILURE_TARGET,
    INTERIM,
    SUCCESS_CRITERIA_MET,
    SUSPENDED,
    is_being_deleted,
)
from kcr.controllers.job.decisions.pod_template import restart_policy
from kcr.controllers.job.decisions.pods import replaces_only_failed
from tests.chaos.laws.conditions import restarts
from tests.chaos.laws.history import History, JobTrail, PodTrail, fits, now, uids
from tests.chaos.laws.policies import actions_on, completed, failed, failure_counts, has_index, success_policy_met
from tests.chaos.tally import checked

# The longest that a failed pod is to be waited for before it is replaced, in the tests.
BACKOFF_SECONDS = 20.0


class Obligations:
    """Watches how long each obligation has been open.

    Attributes:
        patience_seconds: How long one may be.
        excuses: Until when obligations with these words are not asked for: something makes them impossible.
        counts_from: The moment from which on obligations count; None while the network is faulty.
    """

    def __init__(self, history: History) -> None:
        self._history = history
        self._since: dict[str, float] = {}
        # The deadline as the Job has it now, and since when: a user may set one that has passed already.
        self._deadline: datetime | None = None
        self._deadline_since = 0.0
        self.patience_seconds = 5.0
        self.excuses: dict[str, float] = {}
        self.counts_from: float | None = None
        history.before, history.after = self.check, self.update

    def update(self) -> None:
        """Take stock: obligations that are paid start anew when they come again."""
        moment, trail = asyncio.get_running_loop().time(), self._history.current
        found = set(_obligations(trail)) if trail is not None and trail.here else set()
        found |= set(_held_pods(self._history))
        self._since = {obligation: self._since.get(obligation, moment) for obligation in found}
        deadline = None if trail is None or not trail.here else _deadline(trail.job)
        if deadline != self._deadline:
            self._deadline, self._deadline_since = deadline, moment

    def check(self) -> None:
        """Note the obligations that have been open for too long."""
        if self.counts_from is None:
            return
        checked("nothing_is_overdue")
        moment = asyncio.get_running_loop().time()
        if self._deadline is not None and (passed := (now() - self._deadline).total_seconds()) > 0:
            self._since["fails: its deadline has passed"] = max(moment - passed, self._deadline_since)
        for obligation, since in self._since.items():
            patience = self.patience_seconds + (BACKOFF_SECONDS if obligation.startswith(_MISSING) else 0.0)
            excused = (until for words, until in self.excuses.items() if words in obligation)
            if moment - max(since, self.counts_from, *excused) > patience:
                self._history.note(f"nothing_is_overdue: for {patience} s: {obligation}")


_MISSING = "pods are made: some are missing"


def _held_pods(history: History) -> Iterator[str]:
    """Pods held for a Job that is gone or has ended."""
    for pod in history.pods.values():
        owner = history.jobs.get(pod.owner)
        if pod.is_tracked and (owner is None or not owner.here or is_finished(owner.job)):
            told = pod.pod.metadata.deletion_timestamp is not None
            # One without an owner is let go when it is seen; one whose Job is gone, when it is collected.
            if told or not pod.owner or (owner is not None and owner.here):
                yield f"pod {pod.pod.metadata.name} is let go"


def _obligations(trail: JobTrail) -> Iterator[str]:
    """What is owed to a Job that is there."""
    job = trail.job
    pods = [pod for pod in trail.present() if fits(job, pod.pod)]
    if is_finished(job):
        return
    active = [pod for pod in pods if pod.is_active]
    yield from _reports(job, pods, active)
    yield from _uncounted(trail, pods, active)
    if is_condition_true(job.status.conditions, FAILURE_TARGET) or is_condition_true(
        job.status.conditions, SUCCESS_CRITERIA_MET
    ):
        yield from (["pods are deleted: the Job ends"] if active else [])
        if not any(pod.is_active or pod.is_terminating or pod.is_tracked for pod in trail.present()):
            yield "ends: nothing is left of it"
        return
    if ending := _ending(trail, pods, active):
        yield ending
        return
    if not is_being_deleted(job):
        yield from _numbers(job, pods, active)


def _reports(job: Job, pods: list[PodTrail], active: list[PodTrail]) -> Iterator[str]:
    status = job.status
    counts = (len(active), sum(is_ready(pod.pod) for pod in active), sum(pod.is_terminating for pod in pods))
    if counts != (status.active, status.ready, status.terminating):
        yield "tells how many pods are active, ready and terminating"
    if not job.spec.suspend and status.start_time is None:
        yield "tells when it started"


def _uncounted(trail: JobTrail, pods: list[PodTrail], active: list[PodTrail]) -> Iterator[str]:
    job = trail.job
    taken = {pod.index for pod in active}
    held = {pod.uid for pod in pods if _may_be_held(job, pod, taken)}
    for pod in pods:
        if pod.ended is not None and pod.is_tracked and pod.uid not in held:
            yield f"pod {pod.pod.metadata.name} is counted and let go"
    if {*uids(job, "succeeded"), *uids(job, "failed")} - held:
        yield "counts the pods that are listed"


def _may_be_held(job: Job, pod: PodTrail, taken: set[int | None]) -> bool:
    """Whether a failed pod may wait for the one that replaces it."""
    if job.spec.backoff_limit_per_index is None or not has_index(job, pod) or pod.index in taken:
        return False
    return pod.is_tracked and (pod.ended is None or pod.ended.status.phase == "Failed")


def _ending(trail: JobTrail, pods: list[PodTrail], active: list[PodTrail]) -> str:
    job = trail.job
    fresh = [pod for pod in pods if pod.is_tracked and pod.ended is not None and has_index(job, pod)]
    listed = {*uids(job, "failed"), *uids(job, "succeeded")}
    bad = sum(failure_counts(job, pod) and pod.uid not in listed for pod in fresh)
    limit = 6 if job.spec.backoff_limit is None else job.spec.backoff_limit
    # One that the controller let go before it ended counts for nothing, and may fail the Job all the same.
    let_go = [pod for pod in pods if pod.spared and pod.ended is not None and has_index(job, pod)]
    if any(actions_on(job, pod) == {"FailJob"} for pod in (*fresh, *let_go)):
        return "fails: a pod has failed for good"
    if job.status.failed + len(uids(job, "failed")) + bad > limit:
        return "fails: too many pods have failed"
    if restart_policy(job) == "OnFailure" and restarts(pod for pod in pods if pod.ended is None) >= max(limit, 1):
        return "fails: containers were restarted too often"
    return _ending_of_indexes(job) if job.spec.completion_mode == "Indexed" else _completion(job, active)


def _ending_of_indexes(job: Job) -> str:
    done, lost = completed(job), failed(job)
    if job.spec.max_failed_indexes is not None and len(lost) > job.spec.max_failed_indexes:
        return "fails: too many indexes have failed"
    if len(done | lost) >= (job.spec.completions or 0):
        return "ends: all indexes have"
    return "completes: its success policy is met" if success_policy_met(job, done) else ""


def _completion(job: Job, active: list[PodTrail]) -> str:
    succeeded = job.status.succeeded + len(uids(job, "succeeded"))
    enough = succeeded > 0 if job.spec.completions is None else succeeded >= job.spec.completions
    return "completes: enough pods have succeeded" if enough and not active else ""


def _deadline(job: Job) -> datetime | None:
    """Return when its time is up; None when no deadline counts down."""
    limit, start = job.spec.active_deadline_seconds, job.status.start_time
    ends = (*INTERIM.values(), COMPLETE, FAILED, SUSPENDED)
    if (
        limit is None
        or start is None
        or job.spec.suspend
        or any(is_condition_true(job.status.conditions, kind) for kind in ends)
    ):
        return None
    return start + timedelta(seconds=limit)


def _numbers(job: Job, pods: list[PodTrail], active: list[PodTrail]) -> Iterator[str]:
    if bool(job.spec.suspend) != is_condition_true(job.status.conditions, SUSPENDED):
        yield "tells whether it is suspended"
    if job.spec.suspend:
        yield from (["pods go: it is suspended"] if active else [])
        return
    if job.spec.completion_mode == "Indexed":
        yield from _members(job, pods, active)
        return
    succeeded = job.status.succeeded + len(uids(job, "succeeded"))
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        wanted = len(active) if succeeded else parallelism
    else:
        wanted = min(parallelism, max(0, job.spec.completions - succeeded))
    yield from _compared(job, pods, len(active), wanted)


def _members(job: Job, pods: list[PodTrail], active: list[PodTrail]) -> Iterator[str]:
    over, below = completed(job) | failed(job), job.spec.completions or 0
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    indexes = [pod.index for pod in active]
    if len(set(indexes)) < len(indexes) or any(index is None or index >= below for index in indexes):
        yield "pods go: they have no index of their own"
    elif len(active) > max(0, min(parallelism, below - len(completed(job)))):
        yield "pods go: there are too many"
    room = sum(index not in over for index in range(below))
    yield from _compared(
        job, pods, len(active), min(len(active), parallelism) if room <= len(active) else min(parallelism, room)
    )


def _compared(job: Job, pods: list[PodTrail], active: int, wanted: int) -> Iterator[str]:
    going = sum(pod.is_terminating for pod in pods) if replaces_only_failed(job) else 0
    if active > wanted:
        yield "pods go: there are too many"
    if active + going < wanted:
        # Each failure may put the next pod off.
        yield f"{_MISSING} after {sum(pod.ended is not None for pod in pods)} ends"
