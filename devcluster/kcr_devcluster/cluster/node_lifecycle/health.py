"""Which conditions and taints a node has to have.

Source: kubernetes/pkg/controller/nodelifecycle/node_lifecycle_controller.go, tryUpdateNodeHealth,
doNoScheduleTaintingPass, processTaintBaseEviction.
"""

from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from kcr.api.full.core_v1 import Taint
from kcr.api.meta import Condition, whole_seconds
from kcr_devcluster.cluster.scheduling.objects import NOT_READY, UNREACHABLE, ScheduledNode

GRACE_SECONDS = 50.0
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
# By condition, then its status.
_TAINTS = {
    "Ready": {"False": NOT_READY, "Unknown": UNREACHABLE},
    "MemoryPressure": {"True": "node.kubernetes.io/memory-pressure"},
    "DiskPressure": {"True": "node.kubernetes.io/disk-pressure"},
    "NetworkUnavailable": {"True": "node.kubernetes.io/network-unavailable"},
    "PIDPressure": {"True": "node.kubernetes.io/pid-pressure"},
}
_OWN = {key for keys in _TAINTS.values() for key in keys.values()} | {_UNSCHEDULABLE}
_POSTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")


def wanted_taints(node: ScheduledNode, now: datetime) -> tuple[Taint, ...]:
    """Return the taints that a node has to have: those of its conditions, and those that others have put there.

    Args:
        node: The node as it is; equal taints are returned as they are.
        now: When new taints are added.
    """
    keys = {_TAINTS[one.type][one.status] for one in node.status.conditions if one.status in _TAINTS.get(one.type, ())}
    wanted = {(key, "NoSchedule") for key in keys} | {(key, "NoExecute") for key in keys & {NOT_READY, UNREACHABLE}}
    if node.spec.unschedulable:
        wanted.add((_UNSCHEDULABLE, "NoSchedule"))
    kept = tuple(one for one in node.spec.taints if not _is_own(one) or (one.key, one.effect) in wanted)
    missing = wanted - {(one.key, one.effect) for one in kept}
    added = whole_seconds(now)
    return (*kept, *(Taint(key=key, effect=effect, time_added=added) for key, effect in sorted(missing, reverse=True)))


def _is_own(taint: Taint) -> bool:
    return taint.key in _OWN and (taint.effect == "NoSchedule" or taint.key in (NOT_READY, UNREACHABLE))


def silent_conditions(conditions: Iterable[Condition], now: datetime) -> list[Condition]:
    """Return the conditions of a node that become unknown because its kubelet is silent.

    Args:
        conditions: The conditions as they are.
        now: When they become unknown.
    """
    present = {one.type: one for one in conditions}
    moment = whole_seconds(now)
    silent = []
    for kind in _POSTED:
        before = present.get(kind)
        if before is None:
            reason, message = "NodeStatusNeverUpdated", "Kubelet never posted node status."
            before = Condition(type=kind, status="")
        else:
            reason, message = "NodeStatusUnknown", "Kubelet stopped posting node status."
        if before.status != "Unknown":
            silent.append(
                replace(before, status="Unknown", reason=reason, message=message, last_transition_time=moment)
            )
    return silent
