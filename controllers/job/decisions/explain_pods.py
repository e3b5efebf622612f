"""What a Job's pods say of themselves: why one waits, how one failed, what holds one up."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from kcr.api.conditions import find_condition
from kcr.api.core import ContainerStatus, Pod
from kcr.api.durations import human_duration
from kcr.api.explanation import ago
from kcr.api.pods import is_active, is_terminating
from kcr.controllers.job.decisions.pods import TRACKING_FINALIZER, finish_time

# A node may take a moment longer than the grace period to report that a pod has ended.
_PATIENCE = timedelta(seconds=10)


def failure_text(pod: Pod, now: datetime) -> str:
    """Return how a pod failed: when, and the container or reason that made it fail."""
    when = f"pod {pod.metadata.name} failed {ago(finish_time(pod), now)}"
    for status in _statuses(pod):
        ended = status.state.terminated
        if ended is not None and ended.exit_code:
            how = f"{_named(ended.reason)}exit code {ended.exit_code}{_text(ended.message)}"
            return f"{when}: container {status.name}: {how}"
    return f"{when}{_text(_joined(pod.status.reason, pod.status.message))}"


def waiting_text(pod: Pod) -> str:
    """Return why an active pod does not run yet; empty when it runs."""
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"pod {pod.metadata.name} is not scheduled{_text(_joined(scheduled.reason, scheduled.message))}"
    for status in _statuses(pod):
        waiting = status.state.waiting
        # Those in which a container is started without any trouble.
        if waiting is not None and waiting.reason not in ("", "ContainerCreating", "PodInitializing"):
            why = _text(_joined(waiting.reason, waiting.message))
            return f"pod {pod.metadata.name}: container {status.name} waits{why}"
    return f"pod {pod.metadata.name} is pending" if pod.status.phase == "Pending" else ""


def is_overdue(pod: Pod, now: datetime) -> bool:
    """Return whether a terminating pod should have ended: its deletionTimestamp, grace period included, is over."""
    deadline = pod.metadata.deletion_timestamp
    return is_terminating(pod) and deadline is not None and now > deadline + _PATIENCE


def terminating_text(pod: Pod, now: datetime) -> str:
    """Return since when a pod is terminating, and what holds it up once its grace period is over."""
    deadline = pod.metadata.deletion_timestamp or now
    asked = deadline - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
    text = f"pod {pod.metadata.name} is terminating for {human_duration(max(now - asked, timedelta()))}"
    if not is_overdue(pod, now):
        return text
    late = f"grace period over for {ago(deadline, now).removesuffix(' ago')}"
    finalizers = [name for name in pod.metadata.finalizers if name != TRACKING_FINALIZER]
    if finalizers:
        return f"{text}: {late}; finalizers are left: {', '.join(finalizers)}"
    node = f"{pod.spec.node_name} has" if pod.spec.node_name else "no node has"
    return f"{text}: {late}, and {node} not reported its end"


def latest_failures(pods: Iterable[Pod], now: datetime, count: int) -> list[str]:
    """Return how the latest failed pods failed, the newest first."""
    failed = [pod for pod in pods if pod.status.phase == "Failed"]
    failed.sort(key=lambda pod: finish_time(pod) or now, reverse=True)
    return [failure_text(pod, now) for pod in failed[:count]]


def waiting_texts(pods: Iterable[Pod], count: int) -> list[str]:
    """Return why active pods do not run yet; equal causes of several pods are the first pod's."""
    texts = (waiting_text(pod) for pod in sorted(pods, key=lambda pod: pod.metadata.name) if is_active(pod))
    return [text for text in texts if text][:count]


def _statuses(pod: Pod) -> tuple[ContainerStatus, ...]:
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def _joined(reason: str, message: str) -> str:
    return ": ".join(filter(None, (reason, message)))


def _named(reason: str) -> str:
    return f"{reason}, " if reason else ""


def _text(detail: str) -> str:
    return f": {' '.join(detail.split())}" if detail else ""
