"""Validation of writes to the status of workloads: counts are not negative, and a part is not greater than the whole.

Source: kubernetes/pkg/apis/apps/validation/validation.go, ValidateDeploymentStatus, ValidateReplicaSetStatus,
ValidateStatefulSetStatus and validateDaemonSetStatus; pkg/apis/core/validation/validation.go,
ValidateReplicationControllerStatus.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid, non_negative
from kcr_devcluster.apiserver.protocol.manifests import Manifest


class StatusRules(NamedTuple):
    """The rules for the status of a kind.

    Attributes:
        counts: The numbers that are not negative.
        parts: Those of them that are not greater than `replicas`.
        ready: What `availableReplicas` is compared with, as messages name it.
    """

    counts: tuple[str, ...]
    parts: tuple[str, ...] = ()
    ready: str = "readyReplicas"


_SET = StatusRules(
    ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
     "terminatingReplicas"),
    ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
)  # fmt: skip
_RULES: Mapping[str, StatusRules] = {
    "Deployment": StatusRules(
        ("observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
         "unavailableReplicas", "terminatingReplicas", "collisionCount"),
        ("updatedReplicas", "readyReplicas", "availableReplicas"),
    ),
    "ReplicaSet": _SET,
    "ReplicationController": _SET,
    "StatefulSet": StatusRules(
        ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas", "observedGeneration",
         "collisionCount"),
        ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
        ready="status.readyReplicas",
    ),
    "DaemonSet": StatusRules(
        ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
         "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"),
    ),
}  # fmt: skip


def check_workload_status(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of the status of a workload, given the stored object."""
    rules, status, stored = _RULES[new["kind"]], new.get("status") or {}, old.get("status") or {}
    errors = [error for name in rules.counts for error in non_negative(f"status.{name}", status.get(name))]
    for name in rules.parts:
        if (part := _number(status, name)) > _number(status, "replicas"):
            errors.append(invalid(f"status.{name}", part, "cannot be greater than status.replicas"))
    available, ready = _number(status, "availableReplicas"), _number(status, "readyReplicas")
    if rules.parts and available > ready:
        errors.append(invalid("status.availableReplicas", available, f"cannot be greater than {rules.ready}"))
    if "collisionCount" in stored and _number(status, "collisionCount") < stored["collisionCount"]:
        errors.append(invalid("status.collisionCount", _number(status, "collisionCount"), "cannot be decremented"))
    return errors


def _number(status: Manifest, name: str) -> int:
    found: int = status.get(name) or 0
    return found
