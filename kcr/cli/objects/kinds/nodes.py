"""Why a node is where it is: cordoned, silent, under pressure, or deleted."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from kcr.api.conditions import conditions_of
from kcr.api.core import Pod
from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation, ago, counted
from kcr.api.meta import Condition, Key
from kcr.api.pods import is_terminal
from kcr.api.unstructured import Unstructured

# The actions of a kubelet under pressure, by the condition.
_PRESSURES: Mapping[str, str] = {
    "MemoryPressure": "has too little memory: it evicts pods",
    "DiskPressure": "has too little disk space: it evicts pods, and pulls no images",
    "PIDPressure": "has too many processes: it takes no new pods",
    "NetworkUnavailable": "has no network",
}
_NAMED = 3
# The taint of a cordoned node, which its headline names already.
_CORDON = "node.kubernetes.io/unschedulable"


def explain_node(node: Unstructured, pods: Sequence[Pod] | None, now: datetime) -> Explanation:
    """Return why a node is where it is.

    Args:
        node: The node.
        pods: The pods that are bound to it; None when they may not be read.
        now: The moment to judge at.
    """
    name, spec = node.metadata.name, _plain(node.get("spec"))
    conditions = conditions_of(node)
    troubles = [*_readiness(conditions, now), *_pressures(conditions)]
    facts = [_condition(one, now) for one in conditions if one.type in _PRESSURES and one.status == "True"]
    remedies = [f"see what its kubelet reports: kubectl describe node {name}"] if troubles else []
    if spec.get("unschedulable"):
        troubles.append("is cordoned: no new pod is scheduled on it")
        remedies.append(f"to let it take pods again: kubectl uncordon {name}")
    facts += [_condition(one, now) for one in conditions if one.type == "Ready" and one.status != "True"]
    facts += list(_taints(spec))
    ready = next((one for one in conditions if one.type == "Ready" and one.status == "True"), None)
    since = "" if ready is None else ago(ready.last_transition_time, now).removesuffix(" ago")
    return Explanation(
        Code.NOT_READY if troubles else Code.HEALTHY,
        "; ".join(troubles) or (f"has been ready for {since}" if since else "is ready"),
        reasons=tuple(facts),
        remedies=tuple(remedies),
        present=_present(pods),
    )


def explain_lost_node(key: Key, pods: Sequence[Pod] | None) -> Explanation:
    """Return the explanation of a node that does not exist, with the pods that are still bound to it.

    Args:
        key: The node.
        pods: The pods that are bound to it; None when they may not be read.
    """
    there = "to see those that exist: kubectl get nodes"
    if not pods:
        reason = "no pod is bound to it" if pods is not None else "pods may not be listed, so its own are not known"
        return Explanation(Code.NOT_FOUND, "does not exist", reasons=(reason,), remedies=(there,))
    left = [pod for pod in pods if not is_terminal(pod)] or pods
    names = ", ".join(str(pod.key) for pod in left[:_NAMED])
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    return Explanation(
        Code.NOT_FOUND,
        f"is deleted, and {counted(len(left), 'pod')} of it {'is' if len(left) == 1 else 'are'} left",
        reasons=(f"bound to it: {names}{more}; no kubelet runs or reports them",),
        remedies=(
            "a cluster's pod garbage collector deletes them; where there is none: "
            f"kubectl -n {left[0].metadata.namespace} delete pod {left[0].metadata.name} --force --grace-period=0",
            there,
        ),
    )


def _readiness(conditions: Iterable[Condition], now: datetime) -> Iterable[str]:
    ready = next((one for one in conditions if one.type == "Ready"), None)
    if ready is None:
        yield "has never reported whether it is ready"
    elif ready.status != "True":
        since = human_duration(max(now - (ready.last_transition_time or now), timedelta()))
        yield f"has {'been silent' if ready.status == 'Unknown' else 'not been ready'} for {since}"


def _pressures(conditions: Iterable[Condition]) -> Iterable[str]:
    for one in conditions:
        if one.type in _PRESSURES and one.status == "True":
            yield _PRESSURES[one.type]


def _condition(one: Condition, now: datetime) -> str:
    why = ": ".join(filter(None, (one.reason, " ".join(one.message.split()))))
    return f"condition {one.type} is {one.status}, {ago(one.last_transition_time, now)}{f': {why}' if why else ''}"


def _taints(spec: Mapping[str, Any]) -> Iterable[str]:
    found = [one for one in spec.get("taints") or () if isinstance(one, dict) and one.get("key") != _CORDON]
    if found:
        names = ", ".join(f"{one.get('key')}:{one.get('effect')}" for one in found)
        yield f"it takes only pods that tolerate its taints: {names}"


def _present(pods: Sequence[Pod] | None) -> str:
    if pods is None:
        return ""
    active = sum(not is_terminal(pod) for pod in pods)
    return f"{counted(active, 'pod')} bound to it that {'has' if active == 1 else 'have'} not ended"


def _plain(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
