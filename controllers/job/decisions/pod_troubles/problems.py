"""Obstacles of pods that do not run: their symptoms, and the user's remedies."""

import re
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from kcr.api.conditions import find_condition
from kcr.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Event, Node, Pod, PodSpec, PodStatus
from kcr.api.durations import human_duration
from kcr.api.explanation import ago, counted
from kcr.api.pods import is_ready
from kcr.api.scheduling import SchedulingGroup

# How long a node or a scheduler may take before its silence is worth a remark.
PATIENCE = timedelta(seconds=10)
# A container that crashed again and again so lately may do so once more: the node forgets the back-off after that.
# Source: kubernetes/pkg/kubelet/kubelet.go, MaxCrashLoopBackOff, which is doubled.
_LATELY = timedelta(minutes=10)
# One that crashed once is past it after a shorter while.
_ONCE = timedelta(minutes=1)
# A scheduler's words for a node that takes no new pods.
_CORDONED = re.compile(r"were unschedulable|node\.kubernetes\.io/unschedulable")
_ALL_CORDONED = re.compile(r"0/(\d+) nodes are available: (\d+) node\(s\) were unschedulable")
_NO_NODES = "no nodes available to schedule pods"

# Remedies; `_problem` fills in their fields.
NODE = "add or free a node that fits; the pod is scheduled by itself then; or {change} lower demands"
IMAGE = "mend the registry or its secret, the node tries again by itself; or {change} another image"
MISSING = "create or mend what is named: the node tries again by itself"
START = "{change} a command that the image has"
LOGS = "see the output of its last run: kubectl -n {namespace} logs {pod}{container} -p"
OUTPUT = "see its output: kubectl -n {namespace} logs {pod}{container}"
MEMORY = "{change} a higher memory limit (resources.limits.memory), unless the program leaks"
DESCRIBE = "see the pod: kubectl -n {namespace} describe pod {pod}"
UNCORDON = "let {node} take pods again: kubectl uncordon {node}"
LOST = "see why it is silent: kubectl describe node {node}"
DELETED = (
    "the pod garbage collector of a cluster deletes the pod; where there is none: "
    "kubectl -n {namespace} delete pod {pod} --force --grace-period=0"
)


class DetailedContainerStatus(ContainerStatus):
    """The state of a container, reported by the node, with the end of its last run."""

    last_state: ContainerState = ContainerState()


class DetailedPodStatus(PodStatus):
    """The state of a pod, reported by the node, with the ends of its containers' last runs."""

    init_container_statuses: tuple[DetailedContainerStatus, ...] = ()
    container_statuses: tuple[DetailedContainerStatus, ...] = ()


class DetailedPodSpec(PodSpec):
    """The spec of a pod, with the group that it is scheduled with."""

    scheduling_group: SchedulingGroup = SchedulingGroup()


class DetailedPod(Pod, api_version="v1", kind="Pod", plural="pods"):
    """A pod with the fields that caches of pods omit."""

    spec: DetailedPodSpec = DetailedPodSpec()
    status: DetailedPodStatus = DetailedPodStatus()


class Symptom(NamedTuple):
    """A symptom of pods.

    Attributes:
        clause: As a relative clause; empty when a pod may only need time.
        remedies: Remedies for a user.
        cause: The cause in one word, for counts of pods by cause.
    """

    clause: str
    remedies: tuple[str, ...] = ()
    cause: str = "other"

    @property
    def statement(self) -> str:
        """The clause as a statement about one pod: `its image cannot be pulled`."""
        return re.sub("^whose ", "its ", self.clause.removeprefix("that "))


# The cause of a container that the node restarts with a back-off.
CRASH = "crash"
# Those in which a container is started without any problem.
STARTING = ("", "ContainerCreating", "PodInitializing")

# The reasons that scheduler and node give, and their effects on a pod.
SYMPTOMS: Mapping[str, Symptom] = {
    "Unschedulable": Symptom("that cannot be scheduled", (NODE,), "unschedulable"),
    "SchedulingGated": Symptom(
        "whose scheduling gates are not removed", ("see the controller that has to remove the gates",), "gates"
    ),
    **dict.fromkeys(
        ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"),
        Symptom("whose image cannot be pulled", (IMAGE,), "image"),
    ),
    "CreateContainerConfigError": Symptom("whose container lacks its configuration", (MISSING,), "configuration"),
    **dict.fromkeys(
        ("FailedMount", "FailedAttachVolume"), Symptom("whose volumes cannot be mounted", (MISSING,), "volumes")
    ),
    "CrashLoopBackOff": Symptom("whose container crashes again and again", (LOGS,), CRASH),
    **dict.fromkeys(
        ("StartError", "ContainerCannotRun", "RunContainerError"),
        Symptom("whose container cannot start", (START,), "command"),
    ),
    "OOMKilled": Symptom("whose container runs out of memory", (MEMORY,), "memory"),
}
LIVENESS = Symptom("whose container fails its liveness probe and is restarted", (LOGS, DESCRIBE))


def symptom_named(reason: str) -> Symptom:
    """Return the symptom for a reason of the scheduler or the node."""
    return SYMPTOMS.get(reason, Symptom(f"that cannot start ({reason})", (DESCRIBE,)))


def obstacle_in(pod: Pod) -> Symptom | None:
    """Return the symptom that the status of an active pod shows; None when it shows none.

    `problem_of` says more: it reads events and nodes, too.
    """
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return symptom_named(scheduled.reason)
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in STARTING:
            return symptom_named(waiting.reason)
    return None


def last_end(status: ContainerStatus) -> ContainerStateTerminated | None:
    """Return how the run of a container before the present one ended; None when that is not known."""
    return status.last_state.terminated if isinstance(status, DetailedContainerStatus) else None


def exit_text(end: ContainerStateTerminated, *, with_message: bool = True) -> str:
    """Return how a container ended: `exit code 137 (SIGKILL), OOMKilled: …`."""
    number = end.signal or (end.exit_code - 128 if end.exit_code > 128 else 0)
    try:
        name = f" ({signal.Signals(number).name})" if number else ""
    except ValueError:
        name = ""
    reason = f", {end.reason}" if end.reason not in ("", "Error", "Completed") else ""
    message = " ".join(end.message.split()) if with_message else ""
    return f"exit code {end.exit_code}{name}{reason}{f': {message}' if message else ''}"


class PodContext(NamedTuple):
    """The context of a pod: facts beyond the pod itself.

    Attributes:
        events: Warnings about pods, the latest last.
        nodes: Nodes by name, None for one that is deleted; of those that are not here nothing is known.
        change: How a user gets another pod, up to the part that is to be different: `create the Job anew with`.
    """

    events: Sequence[Event] = ()
    nodes: Mapping[str, Node | None] = {}
    change: str = "create the pod anew with"


class PodProblem(NamedTuple):
    """An obstacle of a pod.

    Attributes:
        pod: The pod.
        symptom: Its symptom.
        text: The whole fact.
        remedies: The remedies for a user, ready to be shown.
    """

    pod: Pod
    symptom: Symptom
    text: str
    remedies: tuple[str, ...] = ()


def problem_of(pod: Pod, context: PodContext, now: datetime) -> PodProblem | None:
    """Return the obstacle of an active pod; None if it runs."""
    name = pod.metadata.name
    if (lost := _lost_node(pod, context, now)) is not None:
        return lost
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return _unscheduled(pod, scheduled.reason, joined(scheduled.reason, scheduled.message), context)
    for status in statuses_of(pod):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in STARTING:
            # The pod's name and uid end the message; the container's begins it.
            why = re.sub(r" pod=\S+$", "", joined(waiting.reason, waiting.message))
            restarts = f" (restarted {times(status.restart_count)})" if status.restart_count else ""
            end = _last_end(status, now)
            text = f"pod {name}: container {status.name} {f'{end}; it ' if end else ''}waits{restarts}: {why}"
            return _problem(pod, _symptom_of(status, waiting.reason, pod, context), text, context, status.name)
    return _not_started(pod, context, now) if pod.status.phase == "Pending" else None


def trouble_of(pod: Pod, context: PodContext, now: datetime) -> PodProblem | None:
    """Return the obstacle of a pod, its crash of lately, or why it is not ready; None if all is well."""
    found = (find(pod, context, now) for find in (problem_of, restarts_of, unready_of))
    return next(filter(None, found), None)


def restarts_of(pod: Pod, context: PodContext, now: datetime) -> PodProblem | None:
    """Return that a container of a pod crashed lately and runs again; None when none did.

    Between two crashes it runs for a moment, and a question at that moment is about the crash all the same.
    """
    for status in statuses_of(pod):
        end = last_end(status)
        memory = _LATELY if status.restart_count > 1 else _ONCE
        if end is None or not status.restart_count or end.finished_at is None or now - end.finished_at > memory:
            continue
        if end.exit_code or end.reason == "OOMKilled":
            symptom = _symptom_of(status, "CrashLoopBackOff", pod, context)
            text = f"pod {pod.metadata.name}: container {status.name} {_last_end(status, now)}"
            text += f"; it was restarted {times(status.restart_count)}"
            return _problem(pod, symptom, text, context, status.name)
    return None


def unready_of(pod: Pod, context: PodContext, now: datetime) -> PodProblem | None:
    """Return why a running pod is not ready; None when it is, or started only just now."""
    ready = find_condition(pod.status.conditions, "Ready")
    if pod.status.phase != "Running" or ready is None or ready.status == "True":
        return None
    since = ready.last_transition_time
    late = "is not ready" if since is None else f"has not been ready for {human_duration(now - since)}"
    text = f"pod {pod.metadata.name} {late}"
    probe = next((one for one in reversed(_about(pod, context)) if one.reason == "Unhealthy"), None)
    if probe is not None and not probe.message.startswith("Liveness"):
        kind = probe.message.partition(" ")[0].lower()
        container = re.search(r"\{(.*)\}", probe.involved_object.field_path)
        which = f" (container {container[1]})" if container else ""
        symptom = Symptom(f"whose {kind} probe fails{which}", (OUTPUT, DESCRIBE))
        return _problem(pod, symptom, f"{text}: {' '.join(probe.message.split()).rstrip(':')}", context)
    why = joined(ready.reason, ready.message)
    return _problem(
        pod, Symptom("whose containers are not ready", (DESCRIBE,)), f"{text}: {why}" if why else text, context
    )


def _lost_node(pod: Pod, context: PodContext, now: datetime) -> PodProblem | None:
    node = pod.spec.node_name
    if node not in context.nodes:
        return None
    found = context.nodes[node]
    if found is None:
        text = f"pod {pod.metadata.name} was bound to node {node}, which is deleted: no kubelet runs or reports it"
        return _problem(pod, Symptom(f"whose node {node} is deleted", (DELETED,)), text, context)
    ready = find_condition(found.status.conditions, "Ready")
    if ready is None or ready.status != "Unknown":
        return None
    since = ago(ready.last_transition_time, now).removesuffix(" ago")
    text = f"pod {pod.metadata.name} is on node {node}, which has been silent for {since}: {joined('', ready.message)}"
    return _problem(pod, Symptom(f"whose node {node} is silent", (LOST,)), text, context)


def _unscheduled(pod: Pod, reason: str, why: str, context: PodContext) -> PodProblem:
    cordoned = cordoned_nodes(context) if _CORDONED.search(why) else ()
    text = f"pod {pod.metadata.name} is not scheduled: {why}"
    if _NO_NODES in why:
        symptom = Symptom(
            "that cannot be scheduled: there is no node", ("add a node; the pod is scheduled by itself then",)
        )
        return _problem(pod, symptom, text, context)
    if not cordoned:
        return _problem(pod, symptom_named(reason), text, context)
    verb = f"node {cordoned[0]} is cordoned" if len(cordoned) == 1 else f"{len(cordoned)} nodes are cordoned"
    remedies = tuple(UNCORDON.format(node=node) for node in cordoned[:2])
    counts = _ALL_CORDONED.search(why)
    others = () if counts is not None and counts[1] == counts[2] else (NODE,)
    return _problem(pod, Symptom(f"that cannot be scheduled: {verb}", (*remedies, *others)), text, context)


def cordoned_nodes(context: PodContext) -> tuple[str, ...]:
    """Return the names of the nodes that take no new pods, in order."""
    return tuple(sorted(name for name, node in context.nodes.items() if node is not None and node.spec.unschedulable))


def _not_started(pod: Pod, context: PodContext, now: datetime) -> PodProblem:
    """Return the obstacle of a pending pod without a status that explains it."""
    name, node = pod.metadata.name, pod.spec.node_name
    running = next((one.name for one in pod.status.init_container_statuses if one.state.running is not None), None)
    age = now - (pod.metadata.creation_timestamp or now)
    if running is not None:
        text = f"pod {name} runs its init container {running} for {human_duration(age)}"
        return _problem(pod, Symptom(""), text, context)
    warning = next(reversed(_about(pod, context)), None)
    if warning is not None:
        text = f"pod {name} has not started: {joined(warning.reason, warning.message)}"
        return _problem(pod, symptom_named(warning.reason), text, context)
    if not node:
        text = f"pod {name} is not scheduled yet"
        late = Symptom("that no scheduler has taken up", ("see whether its scheduler runs: spec.schedulerName",))
    else:
        text = f"pod {name} has not started on {node} yet"
        late = Symptom("that the node has not started", (DESCRIBE,))
    if age < PATIENCE:
        return _problem(pod, Symptom(""), text, context)
    return _problem(pod, late, f"{text}, after {human_duration(age)}", context)


def _about(pod: Pod, context: PodContext) -> list[Event]:
    return [event for event in context.events if event.involved_object.uid == pod.metadata.uid]


def _symptom_of(status: ContainerStatus, reason: str, pod: Pod, context: PodContext) -> Symptom:
    """Return the symptom of a container; for a crashing one, the end of its last run is more specific."""
    end = last_end(status)
    if reason != "CrashLoopBackOff" or end is None:
        return symptom_named(reason)
    if end.reason in SYMPTOMS:
        return SYMPTOMS[end.reason]
    if any(one.reason == "Unhealthy" and one.message.startswith("Liveness") for one in _about(pod, context)):
        return LIVENESS
    clause = SYMPTOMS[reason].clause if status.restart_count > 1 else "whose container crashed"
    return Symptom(f"{clause}: exit code {end.exit_code}", (LOGS,))


def _last_end(status: ContainerStatus, now: datetime) -> str:
    end = last_end(status)
    return "" if end is None else f"ended {ago(end.finished_at, now)} with {exit_text(end)}"


def _problem(pod: Pod, symptom: Symptom, text: str, context: PodContext, container: str = "") -> PodProblem:
    metadata, several = pod.metadata, len(statuses_of(pod)) > 1
    fields = {
        "namespace": metadata.namespace, "pod": metadata.name, "node": pod.spec.node_name, "change": context.change,
        "container": f" -c {container}" if container and several else "",
    }  # fmt: skip
    return PodProblem(pod, symptom, text, tuple(remedy.format(**fields) for remedy in symptom.remedies))


def alike(problems: Iterable[PodProblem]) -> list[list[PodProblem]]:
    """Return problems in groups of the same text, the pods' names aside; the largest group first."""
    groups: dict[str, list[PodProblem]] = {}
    for one in problems:
        groups.setdefault(masked(one.text, one.pod), []).append(one)
    return sorted(groups.values(), key=len, reverse=True)


def text_of(group: Sequence[PodProblem]) -> str:
    """Return the text of a group: that of its first pod, and how many more there are."""
    others = f"; the same holds for {counted(len(group) - 1, 'more pod')}" if len(group) > 1 else ""
    return f"{group[0].text}{others}"


def not_ready_since(pods: Iterable[Pod], now: datetime) -> Iterator[tuple[Pod, datetime]]:
    """Yield the pods that have not been ready for a while, and since when."""
    for pod in pods:
        ready = find_condition(pod.status.conditions, "Ready")
        since = ready.last_transition_time if ready is not None else None
        if since is not None and not is_ready(pod) and now - since >= PATIENCE:
            yield pod, since


def statuses_of(pod: Pod) -> tuple[ContainerStatus, ...]:
    """Return the statuses of all containers, in the order in which they start."""
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def joined(reason: str, message: str) -> str:
    """Return a reason with its message, as one line."""
    return " ".join(": ".join(filter(None, (reason, message))).split())


def masked(text: str, pod: Pod) -> str:
    """Return a text without the identity of a pod: its name and uid, and times."""
    return re.sub(r"\b\d+(m\d+)?s\b", "", text.replace(pod.metadata.name, "").replace(pod.metadata.uid, "") or text)


def times(count: int) -> str:
    """Return how often: `once`, `3 times`."""
    return "once" if count == 1 else f"{count} times"
