"""Symptoms of pods that do not run, with remedies."""

import re
import signal
from collections.abc import Mapping
from typing import NamedTuple

from kcr.api.conditions import find_condition
from kcr.api.core import ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodSpec, PodStatus
from kcr.api.scheduling import SchedulingGroup

# The fields of remedies are filled in by `kcr.controllers.job.decisions.pod_troubles.problems`.
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

    `kcr.controllers.job.decisions.pod_troubles.problems` says more: it reads events and nodes, too.
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
