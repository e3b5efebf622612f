"""Never more pods than wanted, each with the index and the past it should have (job-controller §§12, 13, 19, 20)."""

from collections.abc import Iterator

from kcr.api.batch import is_finished
from kcr.controllers.job.decisions.pods import is_tracked
from tests.chaos.authors import CONTROLLER, LATE
from tests.chaos.laws.history import JobStep, JobTrail, PodStep, PodTrail, fits, owner_of, uids
from tests.chaos.laws.policies import completed, failed, failures_of, said_of


def no_pod_is_one_too_many(step: PodStep) -> Iterator[str]:
    """What the controller creates is wanted: it knows of all pods that it made, and of every end that it recorded."""
    job, pod = step.job, step.new
    if step.old is not None or pod is None or step.author not in (CONTROLLER, LATE) or job is None or not job.here:
        return
    if not is_tracked(pod):
        yield "was made without finalizer"
    if step.author == LATE:
        # No client waits for its reply; that it is removed is for other laws to say.
        return
    if is_finished(job.job):
        yield "was made after the end"
    others = [other for other in job.present() if not other.disturbed and other is not step.trail]
    place = [other for other in others if other.is_active or _holds_its_place(job, other)]
    if len(place) >= job.most("parallelism", 1):
        yield f"{len(place)} others are there, and {job.most('parallelism', 1)} were wanted at most"
    if job.job.spec.completion_mode == "Indexed":
        yield from _index_is_free(job, step.trail, place)
    elif job.job.spec.completions is not None:
        done = job.job.status.succeeded + len(uids(job.job, "succeeded"))
        if len(place) >= job.job.spec.completions - done:
            yield f"{len(place)} others are there, and {job.job.spec.completions - done} are missing"
    elif job.job.status.succeeded or uids(job.job, "succeeded"):
        yield "was made after the first success of a work queue"


def _holds_its_place(job: JobTrail, other: PodTrail) -> bool:
    return other.is_terminating and job.always_replaces_only_failed


def _index_is_free(job: JobTrail, pod: PodTrail, place: list[PodTrail]) -> Iterator[str]:
    index = pod.index
    if index is None or index >= job.most("completions"):
        yield f"has the index {index}"
        return
    if any(other.index == index for other in place):
        yield f"index {index} has a pod already"
    if not job.shrunk and (index in completed(job.job) or index in failed(job.job)):
        yield f"index {index} is over"
    if job.job.spec.backoff_limit_per_index is None:
        return
    happened = failures_of(job, index)
    # It does not count itself.
    if happened is not None and said_of(pod.pod) != happened:
        yield f"says that index {index} has failed {said_of(pod.pod)} times; it has {happened}"


def indexes_fail_no_more_often(step: JobStep) -> Iterator[str]:
    """Of each index one failure more than its limit counts, at most."""
    job = step.new
    if job is None or job.spec.backoff_limit_per_index is None:
        return
    listed = step.trail.listed["failed"].keys() | step.fresh("failed")
    for index in range(step.trail.most("completions")):
        bad = [pod for uid in listed if (pod := step.trail.pods.get(uid)) and pod.index == index]
        happened = failures_of(step.trail, index)
        if happened is not None and len(bad) > job.spec.backoff_limit_per_index + 1:
            yield f"index {index} has failed {len(bad)} times"


def pods_are_released_for_a_reason(step: PodStep) -> Iterator[str]:
    """The controller gives up a pod only when the selector does not fit."""
    old, new = step.old, step.new
    if old is None or new is None or step.author not in (CONTROLLER, LATE) or step.job is None:
        return
    if owner_of(old) != owner_of(new) and fits(step.job.job, old) and not step.trail.disturbed:
        yield "was released"
