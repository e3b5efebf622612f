"""When a Job gives up on pods that do not start (`kcr.dev/start-deadline`).

kube-controller-manager waits for them until `activeDeadlineSeconds`, which also ends pods that run (k8s#122300,
k8s#113211).
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from kcr.api.batch import FAILED
from kcr.api.conditions import find_condition
from kcr.api.core import ContainerStatus, Pod
from kcr.api.durations import go_duration
from kcr.api.explanation import counted
from kcr.api.pods import sidecars
from kcr.controllers.job.decisions.directives import CAUSES, START_DEADLINE, directives_of
from kcr.controllers.job.decisions.lifecycle import is_being_deleted
from kcr.controllers.job.decisions.plan import Ending, PodCounts, Snapshot
from kcr.controllers.job.decisions.pod_troubles.problems import PodContext, obstacle_in, problem_of

REASON = "PodsNeverStarted"


class Unstarted(NamedTuple):
    """A pod that has not started.

    Attributes:
        at: When its deadline is over.
        cause: Its cause, one of `directives.CAUSES`.
        pod: The pod.
    """

    at: datetime
    cause: str
    pod: Pod


def unstarted(seen: Snapshot, active: Iterable[Pod]) -> tuple[Unstarted, ...]:
    """Return the pods whose deadline counts down or is over, the earliest first; none without the annotation."""
    wanted = directives_of(seen.job).start_deadline
    if wanted is None or seen.job.spec.suspend or is_being_deleted(seen.job):
        return ()
    found = (
        Unstarted(since + wanted.limit, cause, pod)
        for pod in active
        if (since := waiting_since(pod)) is not None and (cause := cause_of(pod)) in wanted.causes
    )
    return tuple(sorted(found, key=lambda one: (one.at, one.pod.metadata.name)))


def never_started(seen: Snapshot, counts: PodCounts) -> Ending | None:
    """A pod has made no step towards its start for as long as the Job allows."""
    wanted = directives_of(seen.job).start_deadline
    # While a deletion is not seen the end is not put on record, and with its pods the evidence would be deleted.
    if wanted is None or not seen.expectations_met:
        return None
    late = [one for one in unstarted(seen, counts.active) if one.at <= seen.now]
    if not late:
        return None
    first = late[0]
    problem = problem_of(first.pod, PodContext(), seen.now)
    why = problem.text if problem is not None else f"pod {first.pod.metadata.name} has not started"
    limit = go_duration(round(wanted.limit.total_seconds()))
    others = f"; {counted(len(late) - 1, 'more pod')} did not start either" if len(late) > 1 else ""
    return Ending(FAILED, REASON, f"No start within {limit} ({START_DEADLINE}), cause {first.cause}: {why}{others}")


def time_left(seen: Snapshot, active: Iterable[Pod]) -> timedelta | None:
    """Return how long until the next deadline is over; None when none counts down."""
    return next((one.at - seen.now for one in unstarted(seen, active) if one.at > seen.now), None)


def waiting_since(pod: Pod) -> datetime | None:
    """Return the latest step of a pod towards its start; None when it has started, or an init container runs.

    The steps are its creation, its scheduling, and the end of each init container.
    """
    if pod.status.phase not in ("", "Pending"):
        return None
    beside = {status.name for status in sidecars(pod)}
    steps = [status for status in pod.status.init_container_statuses if status.name not in beside]
    if any(status.state.running is not None for status in steps):
        return None
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    moments = [pod.metadata.creation_timestamp, *map(_end, steps)]
    if scheduled is not None and scheduled.status == "True":
        moments.append(scheduled.last_transition_time)
    return max((moment for moment in moments if moment is not None), default=None)


def cause_of(pod: Pod) -> str:
    """Return why a pod has not started, as its status shows it."""
    symptom = obstacle_in(pod)
    return "other" if symptom is None or symptom.cause not in CAUSES else symptom.cause


def _end(status: ContainerStatus) -> datetime | None:
    return status.state.terminated.finished_at if status.state.terminated is not None else None
