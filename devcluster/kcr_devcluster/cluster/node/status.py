"""The status that the kubelet writes of a pod: phase, conditions, containers.

Source: kubernetes/pkg/kubelet/kubelet_pods.go, convertToAPIContainerStatuses, and pkg/kubelet/status/generate.go.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from kcr.api.conditions import find_condition
from kcr.api.core import ContainerStateRunning, ContainerStateWaiting
from kcr.api.durations import go_duration
from kcr.api.meta import PodCondition, whole_seconds
from kcr_devcluster.cluster.node.containers import (
    LOST,
    BackingOff,
    ContainerRecord,
    Running,
    State,
    Terminated,
    Waiting,
    exit_code,
    has_started,
    is_init_done,
)
from kcr_devcluster.cluster.node.pod_state import (
    PodState,
    could_restart_all,
    is_stopped,
    pod_phase,
    restart_trigger,
)
from kcr_devcluster.cluster.node.pods import (
    Address,
    KubeletContainerState,
    KubeletContainerStatus,
    KubeletPod,
    KubeletPodStatus,
    KubeletTerminated,
)

_ALL_RESTARTING = "AllContainersRestarting"
_LOST = KubeletTerminated(exit_code=LOST.code, reason=LOST.reason, message=LOST.message)


def pod_status(state: PodState, host_ip: str, moment: datetime, now: float) -> KubeletPodStatus:
    """Return the pod's present status.

    Args:
        state: The pod.
        host_ip: The node's address.
        moment: By the clock; conditions that change take it, cut to whole seconds.
        now: The same moment on the loop's time.
    """
    stopped, phase = is_stopped(state), pod_phase(state)
    forced = state.termination if stopped else None
    statuses = {
        name: _container_status(record, state, stopped=stopped, now=now) for name, record in state.containers.items()
    }
    started = any(not isinstance(record.state, Waiting) for record in state.containers.values())
    return KubeletPodStatus(
        phase=phase,
        reason=forced.reason if forced else "",
        message=forced.message if forced else "",
        conditions=_conditions(state, statuses, phase, started=started and not stopped, moment=moment),
        host_ip=host_ip,
        host_ips=(Address(ip=host_ip),),
        pod_ip=state.ip if started else "",
        pod_ips=(Address(ip=state.ip),) if started else (),
        start_time=state.start_time,
        init_container_statuses=tuple(statuses[record.name] for record in state.inits),
        container_statuses=tuple(statuses[record.name] for record in state.mains),
    )


def status_patch(before: KubeletPodStatus | None, status: KubeletPodStatus, uid: str) -> dict[str, object]:
    """Return the strategic merge patch that writes the changed fields to the pod of this uid, and to no other.

    Conditions are merged by type, so a reason or message that is no longer given is set to null; all four are sent
    together, which keeps their order. Lists of containers are replaced whole.

    Args:
        before: The status as last written; None before the first.
        status: The status to write.
        uid: The pod's.
    """
    known = before or KubeletPodStatus()
    changes = {field: getattr(status, name) for name, field in _FIELDS if getattr(status, name) != getattr(known, name)}
    if status.conditions != known.conditions:
        changes["conditions"] = [
            {
                "type": condition.type, "status": condition.status,
                "lastTransitionTime": condition.last_transition_time,
                "reason": condition.reason or None, "message": condition.message or None,
            }
            for condition in status.conditions
        ]  # fmt: skip
    return {"metadata": {"uid": uid}, "status": changes}


def is_marked_unready(pod: KubeletPod) -> bool:
    """Return whether the node controller has marked a pod as unready: its kubelet was silent, and is back.

    A kubelet always gives a reason.
    """
    ready = find_condition(pod.status.conditions, "Ready")
    return ready is not None and ready.status == "False" and not ready.reason


def overrule_unready_mark(state: PodState) -> None:
    """Have the whole status written again when the node controller has marked the pod, once for each such change.

    Source: kubernetes/pkg/kubelet/status/status_manager.go, needsReconcile.
    """
    version = state.pod.metadata.resource_version
    if is_marked_unready(state.pod) and state.overruled_version != version:
        state.overruled_version = version
        state.written_status = None


_FIELDS = tuple(
    (field.name, field.encode_name) for field in msgspec.structs.fields(KubeletPodStatus) if field.name != "conditions"
)


def _container_status(record: ContainerRecord, pod: PodState, *, stopped: bool, now: float) -> KubeletContainerStatus:
    state, last, container_id = record.state, record.last_end, ""
    shown = KubeletContainerState()
    match state:
        case Waiting() if stopped and pod.termination is not None and record.role == "main":
            shown = KubeletContainerState(terminated=_LOST)
        case Waiting(reason, message):
            usual = "PodInitializing" if pod.inits else "ContainerCreating"
            shown = KubeletContainerState(waiting=ContainerStateWaiting(reason=reason or usual, message=message))
        case Running(container_id=container_id):
            started_at = whole_seconds(state.started_at)
            shown = KubeletContainerState(running=ContainerStateRunning(started_at=started_at))
        case BackingOff(end) if not stopped:
            last, container_id = end, end.container_id
            message = _back_off_message(record, pod)
            shown = KubeletContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff", message=message))
        case Terminated(end) | BackingOff(end):
            container_id = end.container_id
            shown = KubeletContainerState(terminated=end)
    started = isinstance(state, Running) and has_started(state)
    is_created = not isinstance(state, Waiting)
    return KubeletContainerStatus(
        name=record.name,
        image=record.spec.image,
        image_id="" if isinstance(state, Waiting) else record.spec.image,
        ready=is_init_done(record) if record.role == "init" else _is_ready(state, now),
        restart_count=record.restart_count,
        started=started,
        container_id=container_id,
        state=shown,
        last_state=KubeletContainerState(terminated=last),
        allocated_resources=(record.spec.resources.get("requests") or None) if is_created else None,
        resources=record.spec.resources if is_created else None,
    )


def _is_ready(state: State, now: float) -> bool:
    """Return whether a container is ready: started, and by its readiness probe and its runtime.

    Source: kubernetes/pkg/kubelet/prober/prober_manager.go, UpdatePodStatus.
    """
    return isinstance(state, Running) and has_started(state) and state.is_probed_ready and now >= state.ready_at


def _back_off_message(record: ContainerRecord, state: PodState) -> str:
    metadata = state.pod.metadata
    return (
        f"back-off {go_duration(int(record.backoff_seconds or 0))} restarting failed container={record.name} "
        f"pod={metadata.name}_{metadata.namespace}({metadata.uid})"
    )


def _conditions(
    state: PodState, statuses: Mapping[str, KubeletContainerStatus], phase: str, *, started: bool, moment: datetime
) -> tuple[PodCondition, ...]:
    """Return the conditions that a kubelet owns, in the order in which it writes them."""
    before = {c.type: c for c in (state.written_status or state.pod.status).conditions}
    unready = [c.name for c in (*state.mains, *state.inits) if c.role != "init" and not statuses[c.name].ready]
    incomplete = [c.name for c in state.inits if not is_init_done(c)]
    ended = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase)
    if ended:
        ready = ("False", ended, "")
    elif unready:
        ready = ("False", "ContainersNotReady", f"containers with unready status: {_listed(unready)}")
    else:
        ready = ("True", "", "")
    restarts = {_ALL_RESTARTING: _all_restarting(state, ended)} if could_restart_all(state) else {}
    # A pod whose init containers run again stays initialized.
    if incomplete and not (restarts and "Initialized" in before and before["Initialized"].status == "True"):
        initialized = ("False", "ContainersNotInitialized", f"containers with incomplete status: {_listed(incomplete)}")
    else:
        initialized = ("True", "PodCompleted" if phase == "Succeeded" else "", "")
    wanted = {
        "PodReadyToStartContainers": ("True" if started else "False", "", ""),
        "Initialized": initialized, "Ready": _gated(ready, state.pod), "ContainersReady": ready, **restarts,
    }  # fmt: skip
    return tuple(_condition(kind, *condition, before.get(kind), moment) for kind, condition in wanted.items())


def _all_restarting(state: PodState, ended: str | None) -> tuple[str, str, str]:
    """Return status, reason and message of `AllContainersRestarting`.

    Source: kubernetes/pkg/kubelet/status/generate.go, GenerateAllContainersRestartingCondition.
    """
    if (trigger := restart_trigger(state)) is not None:
        message = f"Container {trigger.name} exited with code {exit_code(trigger)}, triggering pod restart"
        return "True", "RestartAllContainersStarted", message
    return "False", ended or "", ""


def _gated(ready: tuple[str, str, str], pod: KubeletPod) -> tuple[str, str, str]:
    """Return status, reason and message of `Ready`: that of the containers, and of the pod's readiness gates.

    Source: kubernetes/pkg/kubelet/status/generate.go, GeneratePodReadyCondition.
    """
    if ready[0] != "True" or not pod.spec.readiness_gates:
        return ready
    found = {condition.type: condition.status for condition in pod.status.conditions}
    missing = []
    for gate in pod.spec.readiness_gates:
        kind = gate.condition_type
        if kind not in found:
            missing.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif found[kind] != "True":
            missing.append(f'the status of pod readiness gate "{kind}" is not "True", but {found[kind]}')
    return ("False", "ReadinessGatesNotReady", ", ".join(missing)) if missing else ready


def _condition(
    kind: str, status: str, reason: str, message: str, before: PodCondition | None, moment: datetime
) -> PodCondition:
    same = before is not None and before.status == status
    changed = before.last_transition_time if before is not None and same else whole_seconds(moment)
    return PodCondition(type=kind, status=status, reason=reason, message=message, last_transition_time=changed)


def _listed(names: Iterable[str]) -> str:
    return f"[{' '.join(names)}]"
