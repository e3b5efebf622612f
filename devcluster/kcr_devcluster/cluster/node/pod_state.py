"""The state of one pod on the node, and the next action that its pod worker takes. No I/O: values in, a value out."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from kcr.api.pods import is_terminal
from kcr_devcluster.cluster.node.containers import (
    BackingOff,
    ContainerRecord,
    Running,
    Terminated,
    Waiting,
    exit_code,
    is_final,
    is_init_done,
)
from kcr_devcluster.cluster.node.pods import KubeletPod, KubeletPodStatus, termination_grace_period

DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


class Termination(NamedTuple):
    """The containers are asked to end, and killed at `kill_at` (the loop's time). A reason fails the pod."""

    kill_at: float
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class PodState:
    """A pod that the node has accepted.

    Attributes:
        pod: The object as last observed.
        containers: Their records by name, in the order in which they start.
        accepted_at: When the node accepted the pod, on the loop's time; its active deadline counts from here.
        start_time: The same moment by the clock, in whole seconds.
        ip: The pod's address.
        termination: Set once the pod is terminating.
        written_status: The status as last written; None before the first.
        overruled_version: The last version of the pod in which another client had changed that status.
        is_gone: The object is deleted: containers that still run are stopped, and nothing is written any more.
        is_released: The node has let the terminating object be deleted.
    """

    pod: KubeletPod
    containers: dict[str, ContainerRecord]
    accepted_at: float
    start_time: datetime
    ip: str
    termination: Termination | None = None
    written_status: KubeletPodStatus | None = None
    overruled_version: str = ""
    is_gone: bool = False
    is_released: bool = False

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def mains(self) -> tuple[ContainerRecord, ...]:
        """The main containers."""
        return tuple(record for record in self.containers.values() if record.role == "main")

    @property
    def inits(self) -> tuple[ContainerRecord, ...]:
        """Init containers and sidecars."""
        return tuple(record for record in self.containers.values() if record.role != "main")

    def running(self) -> dict[str, Running]:
        """Return the runs by container."""
        return {name: record.state for name, record in self.containers.items() if isinstance(record.state, Running)}

    @property
    def in_post_start(self) -> bool:
        """Whether a postStart hook is running."""
        return any(isinstance(one.state, Running) and one.state.in_post_start for one in self.containers.values())

    @property
    def is_between(self) -> bool:
        """Whether a postStart hook is running, or a run replaces another: upstream's pod worker is busy, and silent."""
        states = (record.state for record in self.containers.values())
        return self.in_post_start or any(isinstance(state, Terminated) and state.is_replaced for state in states)


def could_restart_all(state: PodState) -> bool:
    """Return whether a rule of any container has all of them restarted."""
    rules = (rule for record in state.containers.values() for rule in record.spec.restart_policy_rules)
    return any(rule.action == "RestartAllContainers" for rule in rules)


def restart_trigger(state: PodState) -> ContainerRecord | None:
    """Return the container for whose end all containers of the pod are restarted, None without one.

    Source: kubernetes/pkg/kubelet/container/helpers.go, ShouldAllContainersRestart; KEP-5532.
    """
    if state.termination is not None:
        return None
    for record in state.containers.values():
        if isinstance(record.state, Terminated) and record.state.restarts_all:
            return record
    return None


def is_finished(state: PodState) -> bool:
    """Return whether the pod has nothing left to do: all main containers ended, or an init container failed."""
    # Containers that are killed to be restarted end, too.
    if restart_trigger(state) is not None:
        return False
    # Sidecars do not keep a pod alive: they are ended once the main containers have.
    if all(is_final(record) for record in state.mains):
        return True
    return any(record.role == "init" and is_final(record) and exit_code(record) for record in state.inits)


def is_stopped(state: PodState) -> bool:
    """Return whether the pod's containers have all stopped and none will start."""
    # Terminating counts, too: a container that has not started by then never will.
    return (state.termination is not None or is_finished(state)) and not state.running()


def pod_phase(state: PodState) -> str:
    """Return the pod's phase. A terminal one is reached only when every container has stopped.

    Source: kubernetes/pkg/kubelet/kubelet_pods.go, getPhase.
    """
    # Invariant: a terminal phase is final, also one that another client has written.
    if is_terminal(state.pod):
        return state.pod.status.phase
    if is_stopped(state):
        succeeded = all(exit_code(record) == 0 for record in state.mains)
        # A pod that exceeded its deadline has failed, whatever its containers make of SIGTERM.
        forced = state.termination is not None and bool(state.termination.reason)
        return "Succeeded" if succeeded and not forced else "Failed"
    started = (isinstance(record.state, Running) or exit_code(record) is not None for record in state.mains)
    return "Running" if all(map(is_init_done, state.inits)) and all(started) else "Pending"


class StartContainer(NamedTuple):
    """Start a container, for the first time or again."""

    name: str


class BackOff(NamedTuple):
    """Report that a terminated container waits for its restart."""

    name: str


class TerminatePod(NamedTuple):
    """Begin to terminate the pod; containers that still run after the grace period are killed."""

    grace_period: float
    reason: str = ""
    message: str = ""


class SignalContainers(NamedTuple):
    """Send SIGTERM or SIGKILL to containers."""

    names: tuple[str, ...]
    signal: Literal["TERM", "KILL"]


class RunPreStop(NamedTuple):
    """Run the preStop hooks of containers that are to end."""

    names: tuple[str, ...]


class AbandonPreStop(NamedTuple):
    """Stop waiting for preStop hooks that took the whole grace period."""

    names: tuple[str, ...]


class DeletePod(NamedTuple):
    """Let the terminating object be deleted: nothing of it runs any more, and its status says so."""


class RestartAll(NamedTuple):
    """Have all containers run again from the first one on: none of them runs now."""


Action = (
    StartContainer | BackOff | TerminatePod | SignalContainers | RunPreStop | AbandonPreStop | DeletePod | RestartAll
)


def next_action(state: PodState, now: float) -> Action | None:
    """Return the next action for a pod, or None when there is none for now.

    Args:
        state: The pod; its present status has been written.
        now: On the loop's time.
    """
    # The order is contract. First the end: a pod that is stopped starts nothing any more, and all that is left is to
    # let its object be deleted, once.
    if is_stopped(state):
        deletable = state.pod.metadata.deletion_timestamp is not None and not state.is_gone and not state.is_released
        return DeletePod() if deletable else None
    # A terminating pod starts no container: it is only brought to its end.
    if state.termination is not None:
        return _next_signal(state, now)
    if (reason := _reason_to_terminate(state, now)) is not None:
        return reason
    if restart_trigger(state) is not None:
        return _next_restart(state)
    # Single runs are ended before others are started: the next run of a container follows the last one.
    return _next_signal(state, now) or _next_start(state, now)


def _next_restart(state: PodState) -> Action | None:
    """Return the next step of restarting all containers: those that run are killed, without hooks or grace period."""
    running = state.running()
    left = tuple(name for name, run in running.items() if run.signal != "KILL")
    return SignalContainers(left, "KILL") if left else None if running else RestartAll()


def _reason_to_terminate(state: PodState, now: float) -> TerminatePod | None:
    metadata, grace = state.pod.metadata, termination_grace_period(state.pod)
    if state.is_gone:
        return TerminatePod(0)
    # Before the deadline: a deletion has a grace period of its own, and is no failure.
    if metadata.deletion_timestamp is not None:
        return TerminatePod(metadata.deletion_grace_period_seconds or 0)
    if (deadline := _active_deadline(state)) is not None and now >= deadline:
        return TerminatePod(grace, "DeadlineExceeded", DEADLINE_MESSAGE)
    if is_finished(state) or is_terminal(state.pod):  # sidecars are left, or another client has ended the pod
        return TerminatePod(grace)
    return None


def _kill_times(state: PodState) -> dict[str, float]:
    """Return when the runs are killed that are to end, by container: all of a terminating pod, else single ones."""
    forced = None if state.termination is None else state.termination.kill_at
    moments = {}
    for name, record in state.containers.items():
        run = record.state
        if isinstance(run, Running) and (forced is not None or run.stop is not None):
            # A run that is ended alone may have less time than its pod.
            times = (forced, None if run.stop is None else run.stop.kill_at)
            moments[name] = min(at for at in times if at is not None)
    return moments


def _next_signal(state: PodState, now: float) -> Action | None:
    """Return the next step of stopping containers: the preStop hook, SIGTERM, SIGKILL when the time is up.

    Source: kubernetes/pkg/kubelet/kuberuntime/kuberuntime_container.go, killContainer.
    """
    kill_times = _kill_times(state)
    if not kill_times:
        return None
    running = state.running()
    overdue = [name for name, at in kill_times.items() if now >= at]
    # The hook counts as part of the grace period: one that takes all of it leaves no time for SIGTERM.
    if unfinished := tuple(name for name in overdue if running[name].pre_stop == "running"):
        return AbandonPreStop(unfinished)
    if left := tuple(name for name in overdue if running[name].signal != "KILL"):
        return SignalContainers(left, "KILL")
    # Each signal is sent once: it is on record before it is sent.
    waiting = [name for name, at in kill_times.items() if now < at and not running[name].signal]
    if hooks := tuple(name for name in waiting if running[name].pre_stop == "pending"):
        return RunPreStop(hooks)
    # Sidecars serve the others to the last.
    others_run = any(state.containers[name].role != "sidecar" for name in running)
    names = tuple(
        name
        for name in waiting
        if running[name].pre_stop != "running"
        and (not others_run or running[name].stop is not None or state.containers[name].role != "sidecar")
    )
    return SignalContainers(names, "TERM") if names else None


def _next_start(state: PodState, now: float) -> Action | None:
    for record in _startable(state):
        moment = _start_time(record)
        if moment is not None and now >= moment:
            return StartContainer(record.name)
        # Once for each end: the state is CrashLoopBackOff from then on.
        if moment is not None and isinstance(record.state, Terminated):
            return BackOff(record.name)
    return None


def _startable(state: PodState) -> Iterator[ContainerRecord]:
    """Yield the containers whose turn it is: init containers one by one, sidecars from their turn on.

    None while a postStart hook is running: the next container starts when it has ended.
    """
    if state.in_post_start:
        return
    for record in state.inits:
        # A sidecar is started again for as long as the pod lives, an init container until it has succeeded.
        if record.role == "sidecar" or not is_init_done(record):
            yield record
        # Invariant: no container starts before all init containers in front of it are done.
        if not is_init_done(record):
            return
    yield from state.mains


def _active_deadline(state: PodState) -> float | None:
    seconds = state.pod.spec.active_deadline_seconds
    return None if seconds is None else state.accepted_at + seconds


def next_deadline(state: PodState, now: float) -> float | None:
    """Return when to sync the pod again though nothing changes, or None for never.

    Args:
        state: The pod, when `next_action` has just returned None.
        now: On the loop's time.
    """
    if is_stopped(state):
        return None
    moments: list[float | None] = [run.ready_at for run in state.running().values()]
    moments.extend(_kill_times(state).values())
    if state.termination is None:
        moments.append(_active_deadline(state))
        moments.extend(_start_time(record) for record in _startable(state))
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def _start_time(record: ContainerRecord) -> float | None:
    match record.state:
        case Waiting(retry_at=at):
            return at
        case Terminated(restart_at=at) | BackingOff(restart_at=at):
            return at
        case Running():
            return None


def starts_next(state: PodState, now: float) -> bool:
    """Return whether a first start comes next: a fast node does not write the status before it."""
    action = next_action(state, now)
    return isinstance(action, StartContainer) and isinstance(state.containers[action.name].state, Waiting)
