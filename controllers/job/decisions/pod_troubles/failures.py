"""The failures of a Job by cause: how many pods, of which indexes, ended with which exit code and reason.

Pods that are deleted have no cause any more: a digest counts them by the counters of the Job's status.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from kcr.api.batch import FAILED, Job
from kcr.api.conditions import find_condition
from kcr.api.core import ContainerStatus, Pod
from kcr.api.explanation import counted
from kcr.api.indexset import IndexSet
from kcr.api.pods import completion_index
from kcr.controllers.job.decisions.pod_troubles.problems import exit_text, statuses_of

# The field of a Job's spec that a reason of its condition Failed is about.
_RULES: Mapping[str, str] = {
    "BackoffLimitExceeded": "backoff_limit",
    "DeadlineExceeded": "active_deadline_seconds",
    "MaxFailedIndexesExceeded": "max_failed_indexes",
    "FailedIndexes": "backoff_limit_per_index",
}
# So many causes are named; the others are counted together.
_NAMED = 5
# So many runs of indexes are named for each: an event has no room for more.
_INTERVALS = 10
_LONG_AGO = datetime.fromtimestamp(0, UTC)


class FailureCause(NamedTuple):
    """Pods that failed for one cause.

    Attributes:
        text: Exit code and reason: `exit code 137 (SIGKILL), OOMKilled`; the pod's reason when no container failed.
        pods: The pods, at least one.
    """

    text: str
    pods: tuple[Pod, ...]

    def __str__(self) -> str:
        """Return the count, the cause and the indexes: `3 with exit code 3 (indexes 0-2)`."""
        indexes = IndexSet.of(index for pod in self.pods if (index := completion_index(pod)) is not None)
        shown = f"{IndexSet(indexes.intervals[:_INTERVALS])}{',…' if len(indexes.intervals) > _INTERVALS else ''}"
        place = f" ({'index' if len(indexes) == 1 else 'indexes'} {shown})" if indexes.intervals else ""
        return f"{len(self.pods)} with {self.text}{place}"


class FailureDigest(NamedTuple):
    """The end of a failed Job in short.

    Attributes:
        rule: The limit or policy that ended it, with its value: `backoffLimit 2`; empty when none did.
        causes: The failed pods by cause, the most frequent cause first.
        last: The pod that failed last; None when no failed pod is left.
        deleted: Failures whose pods are deleted.
    """

    rule: str
    causes: tuple[FailureCause, ...]
    last: Pod | None
    deleted: int

    @property
    def counts(self) -> str:
        """The numbers by cause: `3 pods failed: 2 with exit code 3 (indexes 0,4), 1 with OOMKilled (index 1)`."""
        total = sum(len(cause.pods) for cause in self.causes) + self.deleted
        parts = [str(cause) for cause in self.causes[:_NAMED]]
        if others := self.causes[_NAMED:]:
            parts.append(f"{sum(len(cause.pods) for cause in others)} with {counted(len(others), 'other cause')}")
        parts += [f"{self.deleted} deleted since"] if self.deleted else []
        return f"{counted(total, 'pod')} failed: {', '.join(parts)}" if parts else "no pod failed"

    @property
    def text(self) -> str:
        """The rule and the numbers: `backoffLimit 2: 3 pods failed: 3 with exit code 3`."""
        return f"{self.rule}: {self.counts}" if self.rule else self.counts


def digest_of(job: Job, pods: Iterable[Pod]) -> FailureDigest:
    """Return how a Job failed, from its pods.

    Args:
        job: The Job.
        pods: Its pods, those that have not failed included.
    """
    failed = [pod for pod in pods if pod.status.phase == "Failed"]
    causes: dict[str, list[Pod]] = {}
    for pod in failed:
        causes.setdefault(cause_of(pod), []).append(pod)
    ranked = sorted(causes.items(), key=lambda one: (-len(one[1]), one[0]))
    return FailureDigest(
        rule=_rule(job),
        causes=tuple(FailureCause(text, tuple(members)) for text, members in ranked),
        last=max(failed, key=lambda pod: (_end(pod), pod.metadata.name), default=None),
        deleted=max(0, job.status.failed - len(failed)),
    )


def failed_container(pod: Pod) -> ContainerStatus | None:
    """Return the container that made a pod fail, main ones before sidecars; None when none ended badly."""
    ends = ((status, status.state.terminated) for status in (*pod.status.container_statuses, *statuses_of(pod)))
    return next((status for status, end in ends if end is not None and end.exit_code), None)


def cause_of(pod: Pod) -> str:
    """Return the cause of a pod's failure, without the pod's own words: pods that failed alike have the same."""
    disruption = find_condition(pod.status.conditions, "DisruptionTarget")
    why = disruption.reason if disruption is not None and disruption.status == "True" else pod.status.reason
    container = failed_container(pod)
    if container is None or container.state.terminated is None:
        return why or "no exit code"
    end = container.state.terminated
    return exit_text(end, with_message=False) + (f", {why}" if why else "")


def end_text(pod: Pod) -> str:
    """Return how one pod failed, with its name and index: `pod pi-x (index 2): container c: exit code 3`."""
    index, container = completion_index(pod), failed_container(pod)
    name = f"pod {pod.metadata.name}" + ("" if index is None else f" (index {index})")
    return f"{name}: {f'container {container.name}: ' if container is not None else ''}{cause_of(pod)}"


def termination_message(pod: Pod) -> str:
    """Return the last line of the failed container's termination message; empty when it has left none."""
    container = failed_container(pod)
    end = container.state.terminated if container is not None else None
    lines = end.message.splitlines() if end is not None else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _rule(job: Job) -> str:
    condition = find_condition(job.status.conditions, FAILED)
    field = _RULES.get(condition.reason) if condition is not None else None
    value = getattr(job.spec, field) if field is not None else None
    if field is None or value is None:
        return "podFailurePolicy" if condition is not None and condition.reason == "PodFailurePolicy" else ""
    first, *words = field.split("_")
    return f"{first}{''.join(word.capitalize() for word in words)} {value}"


def _end(pod: Pod) -> datetime:
    ends = (status.state.terminated for status in statuses_of(pod))
    moments = [end.finished_at for end in ends if end is not None and end.finished_at is not None]
    return max(moments, default=pod.metadata.creation_timestamp or _LONG_AGO)
