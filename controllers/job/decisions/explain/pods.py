"""The texts about a Job's pods: causes of failures, and obstacles of deletions."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from kcr.api.core import Pod
from kcr.api.durations import human_duration
from kcr.api.explanation import Step, ago, counted
from kcr.api.pod_problems import PATIENCE, joined, masked, statuses_of
from kcr.api.pods import is_terminal, is_terminating
from kcr.controllers.job.decisions.pods import TRACKING_FINALIZER, finish_time

# What nodes give as the reason when a container could not be started: its command or image is wrong.
_UNSTARTED = ("StartError", "ContainerCannotRun")


def failure_text(pod: Pod, now: datetime) -> str:
    """Return how a pod failed: when, and the container or reason that made it fail."""
    return f"pod {pod.metadata.name} failed {ago(finish_time(pod), now)}{_text(_failure(pod))}"


def _failure(pod: Pod) -> str:
    """Return the cause of a pod's failure."""
    for status in statuses_of(pod):
        ended = status.state.terminated
        if ended is not None and ended.exit_code:
            how = f"{_named(ended.reason)}exit code {ended.exit_code}{_text(ended.message)}"
            return f"container {status.name}: {how}"
    return joined(pod.status.reason, pod.status.message)


def latest_failures(pods: Iterable[Pod], now: datetime, count: int) -> tuple[str, ...]:
    """Return how the latest failed pods failed, the newest first; those that failed alike share a text."""
    failed = [pod for pod in pods if pod.status.phase == "Failed"]
    failed.sort(key=lambda pod: finish_time(pod) or now, reverse=True)
    alike: dict[str, list[Pod]] = {}
    for pod in failed:
        alike.setdefault(masked(_failure(pod), pod), []).append(pod)
    return tuple(f"{failure_text(first, now)}{_others(rest)}" for first, *rest in list(alike.values())[:count])


def never_started(pods: Iterable[Pod], now: datetime) -> bool:
    """Return whether the latest of the failed pods has no output, for its container could not be started at all."""
    failed = sorted((pod for pod in pods if pod.status.phase == "Failed"), key=lambda pod: finish_time(pod) or now)
    ends = (status.state.terminated for pod in failed[-1:] for status in statuses_of(pod))
    return any(end is not None and end.reason in _UNSTARTED for end in ends)


def _others(pods: Sequence[Pod]) -> str:
    return f"; {counted(len(pods), 'more pod')} failed alike" if pods else ""


def is_overdue(pod: Pod, now: datetime) -> bool:
    """Return whether a terminating pod should have ended: its deletionTimestamp, grace period included, is over."""
    deadline = pod.metadata.deletion_timestamp
    return is_terminating(pod) and deadline is not None and now > deadline + PATIENCE


def terminating_text(pod: Pod, now: datetime) -> str:
    """Return since when a pod is terminating, and the obstacle after its grace period."""
    deadline = pod.metadata.deletion_timestamp or now
    asked = deadline - timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
    text = f"pod {pod.metadata.name} is terminating for {human_duration(max(now - asked, timedelta()))}"
    if not is_overdue(pod, now):
        return text
    late = f"grace period over for {ago(deadline, now).removesuffix(' ago')}"
    node = f"its node {pod.spec.node_name} has" if pod.spec.node_name else "no node has"
    finalizers = [name for name in pod.metadata.finalizers if name != TRACKING_FINALIZER]
    held = f"; it has finalizers, too: {', '.join(finalizers)}" if finalizers else ""
    return f"{text}: {late}, and {node} not reported its end{held}"


def kill_steps(pods: Iterable[Pod], now: datetime) -> tuple[Step, ...]:
    """Return when the node ends the containers of terminating pods by force, if they do not end before: the last."""
    ends = [pod.metadata.deletion_timestamp for pod in pods if is_terminating(pod) and not is_overdue(pod, now)]
    last = max((end for end in ends if end is not None), default=None)
    return (Step("the node kills what has not ended: the grace period is over", last),) if last and last > now else ()


def lingering_text(pod: Pod) -> str:
    """Return the obstacle that keeps a finished and deleted pod; empty for others."""
    finalizers = [name for name in pod.metadata.finalizers if name != TRACKING_FINALIZER]
    if not finalizers or not is_terminal(pod) or pod.metadata.deletion_timestamp is None:
        return ""
    held = ", ".join(finalizers)
    return f"pod {pod.metadata.name} has ended; it stays for its finalizers ({held}), and the Job does not wait for it"


def _named(reason: str) -> str:
    return f"{reason}, " if reason else ""


def _text(detail: str) -> str:
    return f": {' '.join(detail.split())}" if detail else ""
