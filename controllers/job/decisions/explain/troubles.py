"""Why active pods do not run: what holds each up, and what a user can do about it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from kcr.api.conditions import find_condition
from kcr.api.core import Event, Pod
from kcr.api.durations import human_duration
from kcr.api.explanation import counted
from kcr.api.pods import is_ready
from kcr.controllers.job.decisions.explain.evidence import PATIENCE
from kcr.controllers.job.decisions.explain.pods import joined, masked, statuses_of

_NODE = "add or free a node that fits; the pod is scheduled by itself then; or create the Job anew with lower demands"
_IMAGE = "mend the registry or its secret, the node tries again by itself; or create the Job anew with another image"
_MISSING = "create what is missing, the node tries again by itself; or create the Job anew without it"
_SEE_LOGS = "see its output: kcr logs -n {namespace} job/{job}"
_DESCRIBE = "see the pod: kubectl -n {namespace} describe pod {pod}"

# The reasons that scheduler and node give, what they do to a pod, and the remedy.
_TROUBLES: Mapping[str, tuple[str, str]] = {
    "Unschedulable": ("that cannot be scheduled", _NODE),
    "SchedulingGated": ("that scheduling gates hold back", "see the controller that has to remove the gates"),
    **dict.fromkeys(
        ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"),
        ("whose image cannot be pulled", _IMAGE),
    ),
    "CreateContainerConfigError": ("whose container lacks its configuration", _MISSING),
    **dict.fromkeys(("FailedMount", "FailedAttachVolume"), ("whose volumes cannot be mounted", _MISSING)),
    "CrashLoopBackOff": ("whose container crashes again and again", _SEE_LOGS),
}
# Those in which a container is started without any trouble.
_STARTING = ("", "ContainerCreating", "PodInitializing")


class Trouble(NamedTuple):
    """What holds a pod up.

    Attributes:
        pod: The pod.
        clause: What is the matter with it, as a relative clause; empty when it may only need time.
        text: The whole fact.
        remedy: What a user can do about it; empty for nothing.
    """

    pod: Pod
    clause: str
    text: str
    remedy: str = ""


def trouble_of(pod: Pod, events: Sequence[Event], now: datetime) -> Trouble | None:
    """Return what holds an active pod up; None when it runs.

    Args:
        pod: The pod.
        events: Warnings about pods that have not started, the latest last.
        now: The moment to judge at.
    """
    name = pod.metadata.name
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        why = joined(scheduled.reason, scheduled.message)
        return _trouble(pod, scheduled.reason, f"pod {name} is not scheduled: {why}")
    for status in statuses_of(pod):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in _STARTING:
            # The pod's name and uid end the message; the container's begins it.
            why = re.sub(r" pod=\S+$", "", joined(waiting.reason, waiting.message))
            restarts = f" (restarted {_times(status.restart_count)})" if status.restart_count else ""
            return _trouble(pod, waiting.reason, f"pod {name}: container {status.name} waits{restarts}: {why}")
    return _not_started(pod, events, now) if pod.status.phase == "Pending" else None


def _not_started(pod: Pod, events: Sequence[Event], now: datetime) -> Trouble:
    """Return what holds a pending pod up of which no status says why."""
    name, node = pod.metadata.name, pod.spec.node_name
    running = next((one.name for one in pod.status.init_container_statuses if one.state.running is not None), None)
    age = now - (pod.metadata.creation_timestamp or now)
    if running is not None:
        return Trouble(pod, "", f"pod {name} runs its init container {running} for {human_duration(age)}")
    warning = next((one for one in reversed(events) if one.involved_object.uid == pod.metadata.uid), None)
    if warning is not None:
        return _trouble(pod, warning.reason, f"pod {name} has not started: {joined(warning.reason, warning.message)}")
    if not node:
        text = f"pod {name} is not scheduled yet"
        late = "that no scheduler has taken up", "see whether kube-scheduler runs"
    else:
        text = f"pod {name} has not started on {node} yet"
        late = "that the node has not started", _DESCRIBE
    if age < PATIENCE:
        return Trouble(pod, "", text)
    return Trouble(pod, late[0], f"{text}, after {human_duration(age)}", late[1])


def _trouble(pod: Pod, reason: str, text: str) -> Trouble:
    clause, remedy = _TROUBLES.get(reason, (f"that cannot start ({reason})", _DESCRIBE))
    return Trouble(pod, clause, text, remedy)


def alike(troubles: Iterable[Trouble]) -> list[list[Trouble]]:
    """Return troubles in groups of the same text, the pods' names aside; the largest group first."""
    groups: dict[str, list[Trouble]] = {}
    for one in troubles:
        groups.setdefault(masked(one.text, one.pod), []).append(one)
    return sorted(groups.values(), key=len, reverse=True)


def text_of(group: Sequence[Trouble]) -> str:
    """Return the text of a group: that of its first pod, and how many more there are."""
    others = f"; the same holds for {counted(len(group) - 1, 'more pod')}" if len(group) > 1 else ""
    return f"{group[0].text}{others}"


def not_ready_text(pods: Iterable[Pod], now: datetime) -> list[str]:
    """Return which running pods have not been ready for a while, if any: a Job does not wait for readiness."""
    found = []
    for pod in pods:
        ready = find_condition(pod.status.conditions, "Ready")
        since = ready.last_transition_time if ready is not None else None
        if since is not None and not is_ready(pod) and now - since >= PATIENCE:
            found.append((pod.metadata.name, since))
    if not found:
        return []
    (name, since), others = found[0], len(found) - 1
    more = f"; the same holds for {counted(others, 'more pod')}" if others else ""
    return [
        f"pod {name} is not ready for {human_duration(now - since)}; a Job counts ends, and needs no readiness{more}"
    ]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
