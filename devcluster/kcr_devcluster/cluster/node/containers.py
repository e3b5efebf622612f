"""The state of one container on the node: waiting, running, terminated, in crash loop back-off.

All values; a transition is a function that returns the next state.
"""

from datetime import datetime
from typing import Literal, NamedTuple

from kcr.api.meta import whole_seconds
from kcr.api.pods import is_terminal
from kcr_devcluster.cluster.node.pods import (
    KubeletContainer,
    KubeletContainerStatus,
    KubeletPod,
    KubeletTerminated,
    RestartRule,
)
from kcr_devcluster.cluster.node.runtime import Exit, RunningContainer, StartDeferred

Role = Literal["init", "sidecar", "main"]
RestartAction = Literal["", "Restart", "RestartAllContainers"]

INITIAL_BACKOFF_SECONDS = 10.0
MAX_BACKOFF_SECONDS = 300.0
# After a run of this length the back-off starts over.
BACKOFF_RESET_SECONDS = 600.0

# Why a container waits that is restarted with all others of its pod.
RESTARTING_ALL = "RestartingAllContainers"

LOST = Exit(137, "ContainerStatusUnknown", "The container could not be located when the pod was terminated")


class Waiting(NamedTuple):
    """Not started yet. An empty reason stands for the usual one; `retry_at` is when to (re)try."""

    reason: str = ""
    message: str = ""
    retry_at: float = 0.0


class Stop(NamedTuple):
    """The kubelet ends this run, while its pod continues.

    Attributes:
        kill_at: When it is killed, on the loop's time.
        message: Of the event `Killing`.
        restart: Whether it is restarted whatever its exit code, unless it has to back off first.
    """

    kill_at: float
    message: str
    restart: bool = False


class Running(NamedTuple):
    """A run. All moments are on the loop's time.

    Attributes:
        run: The run in the runtime.
        container_id: Its id.
        started_at: When it began, by the clock.
        since: The same moment.
        ready_at: When the runtime counts it as ready.
        signal: The last one sent to it.
        in_post_start: Whether its postStart hook is running.
        pre_stop: The state of its preStop hook.
        has_started: Whether its startup probe has succeeded; True without one.
        is_probed_ready: The result of its readiness probe; True without one.
        stop: Set when the kubelet ends this run alone.
    """

    run: RunningContainer
    container_id: str
    started_at: datetime
    since: float
    ready_at: float
    signal: Literal["", "TERM", "KILL"] = ""
    in_post_start: bool = False
    pre_stop: Literal["none", "pending", "running", "done"] = "none"
    has_started: bool = True
    is_probed_ready: bool = True
    stop: Stop | None = None


class Terminated(NamedTuple):
    """A run has ended. `restart_at` is None when the container is not restarted.

    `is_replaced` says that the kubelet ended the run to start the next one at once: the end is not reported by itself.
    The API server refuses a container that runs again after exit code 0 under the policy OnFailure. `restarts_all` says
    that all containers of the pod are restarted for this end.
    """

    end: KubeletTerminated
    restart_at: float | None = None
    is_replaced: bool = False
    restarts_all: bool = False


class BackingOff(NamedTuple):
    """Waits for its restart as CrashLoopBackOff."""

    end: KubeletTerminated
    restart_at: float


State = Waiting | Running | Terminated | BackingOff


class ContainerRecord(NamedTuple):
    """A container of a pod, and its state.

    Attributes:
        spec: The container in the pod's spec.
        role: Whether it runs before the others, beside them, or is one of them.
        state: Its state.
        restart_count: How often it has been restarted.
        last_end: How the run before the present one ended.
        backoff_seconds: The delay between the latest end and the restart after it; None before the first end.
        was_started: Whether an earlier run got through its postStart hook and its startup probe.
    """

    spec: KubeletContainer
    role: Role
    state: State = Waiting()
    restart_count: int = 0
    last_end: KubeletTerminated | None = None
    backoff_seconds: float | None = None
    was_started: bool = False

    @property
    def name(self) -> str:
        """The container's name."""
        return self.spec.name


def new_records(pod: KubeletPod) -> dict[str, ContainerRecord]:
    """Return the pod's containers before anything has run, in the order in which they start."""
    inits = (
        ContainerRecord(container, "sidecar" if container.restart_policy == "Always" else "init")
        for container in pod.spec.init_containers
    )
    mains = (ContainerRecord(container, "main") for container in pod.spec.containers)
    return {record.name: record for record in (*inits, *mains)}


def restore(pod: KubeletPod, moment: datetime, now: float) -> dict[str, ContainerRecord]:
    """Return the pod's containers when the node first sees it, restored from the status that an earlier node wrote.

    Running containers are lost: processes do not survive their node.

    Args:
        pod: The pod as first seen.
        moment: By the clock.
        now: The same on the loop's time.

    Returns:
        Empty for a pod in a terminal phase; nothing of it is to be run, or written.
    """
    # Invariant: a pod in a terminal phase never runs again.
    if is_terminal(pod):
        return {}
    records = new_records(pod)
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.name in records:
            records[status.name] = _restored(records[status.name], status, pod.spec.restart_policy, moment, now)
    return _initialized_again(pod, records, moment, now)


def _initialized_again(
    pod: KubeletPod, records: dict[str, ContainerRecord], moment: datetime, now: float
) -> dict[str, ContainerRecord]:
    """Return the containers of a pod that continues on a new node process, which has none of its directories.

    Under the policy Always, init containers that have succeeded run again. Under the others the API server refuses
    that, so a pod with emptyDirs ends: the files that its init containers wrote there are lost.

    Source: kubernetes/pkg/kubelet/kuberuntime/kuberuntime_manager.go, computePodActions (a new sandbox).
    """
    done = [name for name, record in records.items() if record.role == "init" and exit_code(record) == 0]
    if not done:
        return records
    # A new process of the node is a new sandbox: the files that init containers left in its directories are lost.
    if all((records[name].spec.restart_policy or pod.spec.restart_policy) in {"", "Always"} for name in done):
        return records | {name: restarted(records[name]) for name in done}
    if all("emptyDir" not in volume for volume in pod.spec.volumes):
        return records
    mains = (record for record in records.values() if record.role == "main" and not is_final(record))
    return records | {record.name: _failed(record, moment, now) for record in mains}


def restarted(record: ContainerRecord, reason: str = "") -> ContainerRecord:
    """Return a container that has ended and waits for its turn to run again; it counts as restarted already."""
    # A restart like any other, so that clients see by the count that it ran twice.
    if not isinstance(record.state, Terminated | BackingOff):
        return record
    waiting = Waiting(reason, retry_at=record.state.restart_at or 0.0)
    return record._replace(state=waiting, restart_count=record.restart_count + 1, last_end=record.state.end)


def _failed(record: ContainerRecord, moment: datetime, now: float) -> ContainerRecord:
    if isinstance(record.state, Terminated | BackingOff):
        return record._replace(state=Terminated(record.state.end))
    return terminated(record, LOST, "Never", moment, now)


def _restored(
    record: ContainerRecord, status: KubeletContainerStatus, policy: str, moment: datetime, now: float
) -> ContainerRecord:
    last = status.last_state.terminated
    record = record._replace(restart_count=status.restart_count, last_end=last, was_started=bool(status.started))
    # It ran when the node's process ended, and no process outlives that.
    if status.state.running is not None:
        return terminated(record, LOST, policy, moment, now)
    if (end := status.state.terminated) is not None:
        again = terminated(record, Exit(end.exit_code), policy, moment, now).state
        return record._replace(state=again._replace(end=end)) if isinstance(again, Terminated) else record
    waiting = status.state.waiting
    # Restarted with all others, it waits for its turn; that run has been counted.
    if last is None or (waiting is not None and waiting.reason == RESTARTING_ALL):
        return record
    return record._replace(state=BackingOff(last, now))


def restart_action(record: ContainerRecord, policy: str, code: int) -> RestartAction:
    """Return the consequence of a container's exit; empty when it is not restarted.

    The first of its rules that names the exit code decides, then its own restart policy, and without one its pod's.
    Rules only ever restart: they end no container that its policy restarts.

    Args:
        record: The container. An init container that succeeded is not restarted alone, whatever its rules and policy.
        policy: The pod's restart policy; empty means Always.
        code: The exit code.

    Source: kubernetes/pkg/api/v1/pod/util.go, ContainerShouldRestart; KEP-5307, KEP-5532.
    """
    rule = next((rule.action for rule in record.spec.restart_policy_rules if _names(rule, code)), "")
    if rule == "RestartAllContainers":
        return "RestartAllContainers"
    if record.role == "init" and code == 0:
        return ""
    own = record.spec.restart_policy or policy or "Always"
    is_restarted = rule == "Restart" or own == "Always" or (own == "OnFailure" and code != 0)
    return "Restart" if is_restarted else ""


def _names(rule: RestartRule, code: int) -> bool:
    codes = rule.exit_codes
    return codes is not None and (code in codes.values) == (codes.operator == "In")


def has_started(running: Running) -> bool:
    """Return whether a run has got through its postStart hook and its startup probe."""
    return running.has_started and not running.in_post_start


def started(record: ContainerRecord, running: Running) -> ContainerRecord:
    """Return a container that runs now, for the first time or restarted."""
    match record.state:
        case Terminated(end) | BackingOff(end):
            return record._replace(state=running, restart_count=record.restart_count + 1, last_end=end)
        case _:
            return record._replace(state=running)


def terminated(record: ContainerRecord, exit_: Exit, policy: str, moment: datetime, now: float) -> ContainerRecord:
    """Return a container whose run has ended, or that could not be started.

    The first restart comes at once; then the container backs off 10 s, 20 s, 40 s and so on up to 300 s, from its
    end on. A run of more than ten minutes starts the series over.

    Args:
        record: The container before.
        exit_: How it ended.
        policy: The pod's restart policy.
        moment: When, by the clock.
        now: When, on the loop's time.

    Source: kubernetes/pkg/kubelet/kuberuntime/kuberuntime_manager.go, doBackOff.
    """
    state, finished = record.state, whole_seconds(moment)
    if isinstance(state, Running):
        # By the loop's time: the wall clock may have been set meanwhile.
        begun, container_id, ran = whole_seconds(state.started_at), state.container_id, now - state.since
        record = record._replace(was_started=record.was_started or has_started(state))
    else:
        # Failed to start: it counts as a run of no length, a restart if others came before.
        begun, container_id, ran = finished, "", 0.0
        if isinstance(state, Terminated | BackingOff):
            record = record._replace(restart_count=record.restart_count + 1, last_end=state.end)
    end = KubeletTerminated(
        exit_code=exit_.code,
        reason=exit_.reason or ("Error" if exit_.code else "Completed"),
        message=exit_.message,
        started_at=begun,
        finished_at=finished,
        container_id=container_id,
    )
    # Kept in the record and not counted from `restart_count`: a long run resets the backoff, but not the count.
    backoff = _next_backoff(record.backoff_seconds, ran)
    is_replaced = isinstance(state, Running) and state.stop is not None and state.stop.restart and not backoff
    action = restart_action(record, policy, exit_.code)
    if not is_replaced and not action:
        return record._replace(state=Terminated(end))
    after = Terminated(end, now + backoff, is_replaced, restarts_all=action == "RestartAllContainers")
    return record._replace(state=after, backoff_seconds=backoff)


def _next_backoff(backoff: float | None, ran: float) -> float:
    # The first restart has no delay; 0 doubles to the initial one.
    if backoff is None or ran > BACKOFF_RESET_SECONDS:
        return 0.0
    return min(max(2 * backoff, INITIAL_BACKOFF_SECONDS), MAX_BACKOFF_SECONDS)


def start_deferred(record: ContainerRecord, why: StartDeferred, now: float) -> ContainerRecord:
    """Return a container that could not be started yet."""
    if isinstance(record.state, Terminated | BackingOff):
        return record._replace(state=BackingOff(record.state.end, now + why.retry_seconds))
    return record._replace(state=Waiting(why.reason, why.message, now + why.retry_seconds))


def backed_off(record: ContainerRecord) -> ContainerRecord:
    """Return a terminated container as CrashLoopBackOff, if it is to be restarted."""
    if isinstance(record.state, Terminated) and record.state.restart_at is not None:
        return record._replace(state=BackingOff(record.state.end, record.state.restart_at))
    return record


def is_final(record: ContainerRecord) -> bool:
    """Return whether the container has terminated and is not restarted."""
    return isinstance(record.state, Terminated) and record.state.restart_at is None


def exit_code(record: ContainerRecord) -> int | None:
    """Return the exit code of a container that does not run now, or None when it does or never did."""
    return record.state.end.exit_code if isinstance(record.state, Terminated | BackingOff) else None


def is_init_done(record: ContainerRecord) -> bool:
    """Return whether the next container may start: an init container has succeeded, or a sidecar has started once.

    Source: kubernetes/pkg/kubelet/kuberuntime/kuberuntime_container.go, computeInitContainerActions.
    """
    if record.role == "sidecar":
        return record.was_started or (isinstance(record.state, Running) and has_started(record.state))
    return exit_code(record) == 0
