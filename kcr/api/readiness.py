"""Readiness: whether an object has become what its spec wants, by the rules of its kind, and what is missing.

`docs/guide/dependents.md` has the rules. They read the fields of the object's type: those of `kcr.api.full` and
unstructured kinds have all.

Source: kubectl/pkg/polymorphichelpers/rollout_status.go; kstatus (cli-utils/pkg/kstatus/status), where kinds of one's
own are ready without a condition `Ready`, and Jobs from their start on.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from kcr.api import codec
from kcr.api.meta import PartialObjectMetadata, Resource
from kcr.api.unstructured import Unstructured
from kcr.arguments import checked, refuse


class Readiness(NamedTuple):
    """How far an object is.

    Attributes:
        state: `pending`; `running`, of a Job whose pods run; `ready`; or `failed`, if no waiting helps.
        message: Why, for people: `1 of 3 replicas are up to date and available`; empty for a ready object.
    """

    state: Literal["pending", "running", "ready", "failed"]
    message: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether it is ready."""
        return self.state == "ready"


_Fields = Mapping[str, Any]
_READY = Readiness("ready")


@checked
def readiness(obj: Resource | None) -> Readiness:
    """Return how far an object is; one that is deleted, or None for one that does not exist, is pending.

    ```python
    found = kcr.readiness(self._deployments.get(key))
    condition = kcr.Condition(type="Ready", status=str(found.is_ready), reason=found.state, message=found.message)
    ```
    """
    if obj is None:
        return Readiness("pending", "does not exist")
    if obj.metadata.deletion_timestamp is not None:
        return Readiness("pending", "is being deleted")
    group, kind = obj.resource.group, obj.resource.kind
    rule, has_status = _RULES.get((group, kind)), isinstance(obj, Unstructured) or hasattr(obj, "status")
    if isinstance(obj, PartialObjectMetadata) or (rule is not None and not has_status):
        remedy = "use a type of kcr.api.full, or kcr.unstructured(…)"
        refuse(f"readiness: {obj.resource.display} {obj.key} is of a type without a status: {remedy}")
    fields = msgspec.json.decode(codec.encode(obj))
    spec, status = fields.get("spec") or {}, fields.get("status") or {}
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    observed = max(one.get("observedGeneration", 0) for one in (status, conditions.get("Ready", {})))
    # Controllers of workloads always state it; those of other kinds may.
    if observed < (obj.metadata.generation or 0) and (observed or group == "apps" or kind == "ReplicationController"):
        return Readiness("pending", "its spec is not observed yet")
    if rule is not None:
        return rule(spec, status, conditions)
    if "." not in group or group.endswith(".k8s.io") or not has_status:
        return _READY
    return _condition("Ready", "Stalled")(spec, status, conditions)


@checked
def is_ready(obj: Resource | None) -> bool:
    """Return whether an object is ready; see `readiness`. For `kcr.WaitFor(Deployment, key, kcr.is_ready)`."""
    return readiness(obj).is_ready


def _condition(ready: str, failed: str = "") -> Callable[[_Fields, _Fields, _Fields], Readiness]:
    """Return the rule of kinds that are ready, or have failed, when a condition holds."""

    def rule(spec: _Fields, status: _Fields, conditions: _Fields) -> Readiness:
        bad, good = conditions.get(failed), conditions.get(ready)
        if bad is not None and bad.get("status") == "True":
            return Readiness("failed", _words(bad))
        if good is None:
            return Readiness("pending", f"it has no condition {ready} yet")
        return _READY if good.get("status") == "True" else Readiness("pending", _words(good))

    return rule


def _words(condition: _Fields) -> str:
    text = condition.get("message") or condition.get("reason") or ""
    return f"{condition['type']} is {condition.get('status')}{f': {text}' if text else ''}"


def _replicas(have: int, want: int, what: str = "up to date and available") -> Readiness:
    return _READY if have >= want else Readiness("pending", f"{have} of {want} replicas are {what}")


def _deployment(spec: _Fields, status: _Fields, conditions: _Fields) -> Readiness:
    progressing = conditions.get("Progressing", {})
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Readiness("failed", _words(progressing))
    updated = status.get("updatedReplicas", 0)
    found = _replicas(min(updated, status.get("availableReplicas", 0)), spec.get("replicas", 1))
    old = status.get("replicas", 0) - updated
    return Readiness("pending", f"{old} old replicas are left") if found.is_ready and old > 0 else found


def _stateful_set(spec: _Fields, status: _Fields, conditions: _Fields) -> Readiness:
    want, strategy = spec.get("replicas", 1), spec.get("updateStrategy") or {}
    found = _replicas(status.get("availableReplicas", 0), want, "available")
    if not found.is_ready or strategy.get("type") == "OnDelete":
        return found
    partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    return _replicas(status.get("updatedReplicas", 0), want - partition, "up to date")


def _daemon_set(spec: _Fields, status: _Fields, conditions: _Fields) -> Readiness:
    names = ["numberAvailable", "updatedNumberScheduled"]
    if (spec.get("updateStrategy") or {}).get("type") == "OnDelete":
        names.pop()
    return _replicas(min(status.get(name, 0) for name in names), status.get("desiredNumberScheduled", 0))


def _replica_set(spec: _Fields, status: _Fields, conditions: _Fields) -> Readiness:
    return _replicas(status.get("availableReplicas", 0), spec.get("replicas", 1), "available")


def _job(spec: _Fields, status: _Fields, conditions: _Fields) -> Readiness:
    ended = _condition("Complete", "Failed")(spec, status, conditions)
    if ended.state != "pending":
        return ended
    if spec.get("suspend"):
        return Readiness("pending", "it is suspended")
    limits = [limit for name in ("parallelism", "completions") if (limit := spec.get(name)) is not None]
    have, want = status.get("ready", 0) + status.get("succeeded", 0), min(limits, default=1)
    return Readiness("running" if have >= want else "pending", f"{have} of {want} pods are ready or have succeeded")


def _pod(spec: _Fields, status: _Fields, conditions: _Fields) -> Readiness:
    phase = status.get("phase")
    if phase == "Failed":
        return Readiness("failed", status.get("message") or status.get("reason") or "it has failed")
    return _READY if phase == "Succeeded" else _condition("Ready")(spec, status, conditions)


def _service(spec: _Fields, status: _Fields, conditions: _Fields) -> Readiness:
    if spec.get("type") != "LoadBalancer" or (status.get("loadBalancer") or {}).get("ingress"):
        return _READY
    return Readiness("pending", "its load balancer has no address yet")


def _claim(spec: _Fields, status: _Fields, conditions: _Fields) -> Readiness:
    phase = status.get("phase", "Pending")
    return _READY if phase == "Bound" else Readiness("failed" if phase == "Lost" else "pending", f"it is {phase}")


_RULES: Mapping[tuple[str, str], Callable[[_Fields, _Fields, _Fields], Readiness]] = {
    ("apps", "Deployment"): _deployment, ("apps", "StatefulSet"): _stateful_set, ("apps", "DaemonSet"): _daemon_set,
    ("apps", "ReplicaSet"): _replica_set, ("", "ReplicationController"): _replica_set, ("batch", "Job"): _job,
    ("", "Pod"): _pod, ("", "Service"): _service, ("", "PersistentVolumeClaim"): _claim,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _condition("Established"),
}  # fmt: skip
