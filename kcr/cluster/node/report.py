"""The status that a node writes of a pod: phase, conditions, containers.

Source: kubernetes/pkg/kubelet/kubelet_pods.go, convertToAPIContainerStatuses, and pkg/kubelet/status/generate.go.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from kcr.api.core import ContainerStateRunning, ContainerStateWaiting
from kcr.api.durations import go_duration
from kcr.api.meta import Condition, whole_seconds
from kcr.cluster.node.containers import BackingOff, ContainerLife, Ended, Running, Waiting, has_run
from kcr.cluster.node.life import PodLife, is_over, phase
from kcr.cluster.node.pods import Address, ContainerState, ContainerStatus, RunnableStatus, Terminated

LOST = Terminated(
    exit_code=137,
    reason="ContainerStatusUnknown",
    message="The container could not be located when the pod was terminated",
)


def report(life: PodLife, host_ip: str, moment: datetime, now: float) -> RunnableStatus:
    """Return the pod's status as it is now.

    Args:
        life: The pod.
        host_ip: The node's address.
        moment: By the clock; conditions that change take it, cut to whole seconds.
        now: The same moment on the loop's time.
    """
    over, stopping = is_over(life), life.stopping
    present = phase(life)
    forced = over and stopping is not None
    has_inits = bool(life.pod.spec.init_containers)
    statuses = {name: _status(c, life, forced=forced, now=now) for name, c in life.containers.items()}
    started = any(not isinstance(c.state, Waiting) for c in life.containers.values())
    return RunnableStatus(
        phase=present,
        reason=stopping.reason if forced and stopping else "",
        message=stopping.message if forced and stopping else "",
        conditions=_conditions(life, statuses, present, started=started and not over, moment=moment),
        host_ip=host_ip,
        host_ips=(Address(ip=host_ip),),
        pod_ip=life.ip if started else "",
        pod_ips=(Address(ip=life.ip),) if started else (),
        start_time=life.start_time,
        init_container_statuses=tuple(statuses[c.name] for c in life.inits) if has_inits else (),
        container_statuses=tuple(statuses[c.name] for c in life.mains),
    )


def patch_of(before: RunnableStatus | None, status: RunnableStatus, uid: str) -> dict[str, object]:
    """Return the strategic merge patch that writes what has changed to the pod of this uid, and to no other.

    Conditions are merged by type, so that what one no longer says is told to be null; all four go together,
    which keeps their order. Lists of containers are replaced whole.

    Args:
        before: The status as last written; None before the first.
        status: The status to write.
        uid: The pod's.
    """
    known = before or RunnableStatus()
    changes = {
        field: getattr(status, name) for name, field in _MEMBERS if getattr(status, name) != getattr(known, name)
    }
    if status.conditions != known.conditions:
        changes["conditions"] = [
            {
                "type": said.type, "status": said.status, "lastTransitionTime": said.last_transition_time,
                "reason": said.reason or None, "message": said.message or None,
            }
            for said in status.conditions
        ]  # fmt: skip
    return {"metadata": {"uid": uid}, "status": changes}


_MEMBERS = tuple(
    (field.name, field.encode_name) for field in msgspec.structs.fields(RunnableStatus) if field.name != "conditions"
)


def _status(container: ContainerLife, life: PodLife, *, forced: bool, now: float) -> ContainerStatus:
    state, last = container.state, container.last
    shown, running = ContainerState(), False
    match state:
        case Waiting(reason, message):
            usual = "PodInitializing" if life.inits else "ContainerCreating"
            shown = ContainerState(waiting=ContainerStateWaiting(reason=reason or usual, message=message))
            if forced and container.role == "main":
                shown = ContainerState(terminated=LOST)
        case Running():
            running = True
            shown = ContainerState(running=ContainerStateRunning(started_at=whole_seconds(state.started_at)))
        case BackingOff(end) if not forced:
            last = end
            message = _back_off_message(container, life)
            shown = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff", message=message))
        case Ended(end) | BackingOff(end):
            shown = ContainerState(terminated=end)
    image = container.container.image or ""
    return ContainerStatus(
        name=container.name,
        image=image,
        image_id="" if isinstance(state, Waiting) else image,
        ready=_is_ready(container, now),
        restart_count=container.restarts,
        started=running,
        container_id=_identity(state),
        state=shown,
        last_state=ContainerState(terminated=last),
    )


def _identity(state: Waiting | Running | Ended | BackingOff) -> str:
    match state:
        case Running(container_id=identity):
            return identity
        case Ended(end) | BackingOff(end):
            return end.container_id
        case Waiting():
            return ""


def _is_ready(container: ContainerLife, now: float) -> bool:
    if container.role == "init":
        return has_run(container)
    return isinstance(container.state, Running) and now >= container.state.ready_at


def _back_off_message(container: ContainerLife, life: PodLife) -> str:
    metadata = life.pod.metadata
    return (
        f"back-off {go_duration(int(container.delay or 0))} restarting failed container={container.name} "
        f"pod={metadata.name}_{metadata.namespace}({metadata.uid})"
    )


def _conditions(
    life: PodLife, statuses: Mapping[str, ContainerStatus], present: str, *, started: bool, moment: datetime
) -> tuple[Condition, ...]:
    """Return the four conditions the node answers for, in the order in which a kubelet writes them."""
    unready = [c.name for c in (*life.mains, *life.inits) if c.role != "init" and not statuses[c.name].ready]
    incomplete = [c.name for c in life.inits if not has_run(c)]
    ended = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(present)
    if ended:
        ready = ("False", ended, "")
    elif unready:
        ready = ("False", "ContainersNotReady", f"containers with unready status: {_words(unready)}")
    else:
        ready = ("True", "", "")
    if incomplete:
        initialized = ("False", "ContainersNotInitialized", f"containers with incomplete status: {_words(incomplete)}")
    else:
        initialized = ("True", "PodCompleted" if present == "Succeeded" else "", "")
    wanted = {
        "PodReadyToStartContainers": ("True" if started else "False", "", ""),
        "Initialized": initialized, "Ready": ready, "ContainersReady": ready,
    }  # fmt: skip
    before = {c.type: c for c in (life.reported or life.pod.status).conditions}
    return tuple(_condition(kind, *said, before.get(kind), moment) for kind, said in wanted.items())


def _condition(
    kind: str, status: str, reason: str, message: str, before: Condition | None, moment: datetime
) -> Condition:
    same = before is not None and before.status == status
    changed = before.last_transition_time if before is not None and same else whole_seconds(moment)
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=changed)


def _words(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"
