"""The situation of a Job in two words: its state, and the cause of it. For counts and lists of many Jobs.

`kcr explain` says more about one Job. Both take the causes of pods from `pod_troubles.problems`, and those of refused
creates from `kcr.refusals`, so that they name the same cause. The state of a Job that has not ended is the first of
these that holds:

- `terminating`: it is being deleted, or its end is decided and its last pods end.
- `suspended`: by `spec.suspend`.
- `running`: a pod runs. The cause is that of the pods that are refused, if some are.
- `cannot_start`: its pods are refused, or none of them can start.
- `backing_off`: a failed pod is replaced after a while, or the node restarts a crashing container.
- `pending`: its pods are about to start.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from kcr.api.batch import COMPLETE, FAILED, Job
from kcr.api.core import Pod, PodStatus
from kcr.controllers.job.decisions.pod_troubles.problems import CRASH, PATIENCE, obstacle_in
from kcr.refusals import topic_of

TERMINATING, SUSPENDED, RUNNING = "terminating", "suspended", "running"
CANNOT_START, BACKING_OFF, PENDING = "cannot_start", "backing_off", "pending"
# The states of a Job that has ended.
ENDS = {COMPLETE: "complete", FAILED: "failed"}
# The conditions of a Job whose end is decided, while its last pods end.
_INTERIM = ("FailureTarget", "SuccessCriteriaMet")
_RUNNING_POD = Pod(status=PodStatus(phase="Running"))


class JobSituation(NamedTuple):
    """Where a Job is.

    Attributes:
        state: One of those above, or of the values of `ENDS`.
        cause: One word: `quota`, `unschedulable`, `image` and the like, or the reason of a condition; empty for none.
    """

    state: str
    cause: str = ""


def situation_of(
    job: Job, active: Iterable[Pod], *, refusal: str = "", ending: str = "", in_backoff: bool = False
) -> JobSituation:
    """Return where a Job is.

    Args:
        job: The Job.
        active: Its pods that run or may still run.
        refusal: The message with which the API server refuses its pods; empty when it does not.
        ending: The reason of its end, when that is decided and not in its status yet.
        in_backoff: Whether pods are missing that have to wait after a failure.
    """
    if job.metadata.deletion_timestamp is not None:
        return JobSituation(TERMINATING, "deleted")
    if (end := _end(job, ending)) is not None:
        return end
    if job.spec.suspend:
        return JobSituation(SUSPENDED)
    cause = topic_of(refusal) if refusal else ""
    obstacle = ""
    for pod in active:
        symptom = obstacle_in(pod)
        if symptom is None and pod.status.phase == "Running":
            return JobSituation(RUNNING, cause)
        obstacle = obstacle or (symptom.cause if symptom is not None else "")
    if cause or obstacle not in ("", CRASH):
        return JobSituation(CANNOT_START, cause or obstacle)
    if obstacle or in_backoff:
        return JobSituation(BACKING_OFF, obstacle or "failures")
    return JobSituation(PENDING, "parallelism" if job.spec.parallelism == 0 else "")


def situation_from_outside(job: Job, pods: Iterable[Pod], now: datetime, *, refusal: str = "") -> JobSituation:
    """Return where a Job is, as its status and its pods show it to a client that is not its controller.

    Args:
        job: The Job.
        pods: Those of its pods that have not ended, as far as they were read. When the status counts more of them as
            active, the others are taken for running.
        now: The moment to judge at.
        refusal: The message with which the API server refused its pods lately; empty when it did not.
    """
    found, status = tuple(pods), job.status
    if len(found) < status.active and not job.metadata.deletion_timestamp:
        found = (_RUNNING_POD, *found)
    missing = _wanted(job) - status.active - (status.terminating or 0) > 0
    created = job.metadata.creation_timestamp
    seen = situation_of(job, found, refusal=refusal if missing else "", in_backoff=missing and status.failed > 0)
    is_late = status.start_time is None and created is not None and now - created > PATIENCE
    return JobSituation(PENDING, "no_controller") if seen == JobSituation(PENDING) and is_late else seen


def _wanted(job: Job) -> int:
    spec, succeeded = job.spec, job.status.succeeded
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None:
        return 0 if succeeded else parallelism
    return min(parallelism, spec.completions - succeeded)


def _end(job: Job, ending: str) -> JobSituation | None:
    """Return the situation of a Job that has ended, or whose end is decided; None for any other."""
    interim = None
    for condition in job.status.conditions:
        if condition.status == "True" and condition.type in ENDS:
            return JobSituation(ENDS[condition.type], condition.reason)
        if condition.status == "True" and condition.type in _INTERIM:
            interim = JobSituation(TERMINATING, condition.reason)
    return JobSituation(TERMINATING, ending) if interim is None and ending else interim
