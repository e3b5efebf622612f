"""The strategy of kinds of which the server knows the schema and a few defaults.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go;
kubernetes/pkg/apis/{apps,autoscaling,core,scheduling,storage}/*/defaults.go.
"""

from collections.abc import Mapping
from typing import Any

from kcr.apiserver.kinds.field_errors import FieldError, required
from kcr.apiserver.kinds.strategy import Manifest, Strategy
from kcr.apiserver.schema.builtin import kind_shape

# Those that depend on nothing else in the object.
DEFAULTS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("apps/v1", "DaemonSet"): {"spec": {"updateStrategy": {"type": "RollingUpdate"}, "revisionHistoryLimit": 10}},
    ("apps/v1", "Deployment"): {
        "spec": {
            "replicas": 1, "strategy": {"type": "RollingUpdate"}, "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        },
    },
    ("apps/v1", "ReplicaSet"): {"spec": {"replicas": 1}},
    ("apps/v1", "StatefulSet"): {
        "spec": {
            "replicas": 1, "podManagementPolicy": "OrderedReady", "updateStrategy": {"type": "RollingUpdate"},
            "revisionHistoryLimit": 10,
        },
    },
    ("autoscaling/v2", "HorizontalPodAutoscaler"): {"spec": {"minReplicas": 1}},
    ("scheduling.k8s.io/v1", "PriorityClass"): {"preemptionPolicy": "PreemptLowerPriority"},
    ("storage.k8s.io/v1", "StorageClass"): {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    ("v1", "PersistentVolume"): {
        "spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    },
    ("v1", "PersistentVolumeClaim"): {"spec": {"volumeMode": "Filesystem"}},
    ("v1", "ReplicationController"): {"spec": {"replicas": 1}},
}  # fmt: skip


class GenericStrategy(Strategy):
    """Objects are conformed to the schema of their kind, constant defaults are set, and required fields demanded."""

    def __init__(self, display: str, *, has_generation: bool) -> None:
        """Make the strategy of a kind.

        Args:
            display: What messages call the kind, such as `deployments.apps`.
            has_generation: Whether `metadata.generation` is kept.
        """
        self.has_generation = has_generation
        self._warning = f"{display} are stored by this server, and nothing here acts on them"

    def default(self, obj: Manifest) -> None:
        """Set the constant defaults of the kind."""
        super().default(obj)
        _fill(obj, DEFAULTS.get((obj["apiVersion"], obj["kind"]), {}))

    def prepare_create(self, obj: Manifest) -> None:
        """Drop the status, which is written by itself."""
        obj.pop("status", None)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the faults of an object: fields that its schema requires and that are not there.

        In Go, an absent number is zero, and which zeros are invalid no schema says.
        """
        shape = kind_shape(obj["apiVersion"], obj["kind"])
        given = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
        if "spec" in shape.fields:
            given.setdefault("spec", {})
        return [
            required(path)
            for path, field in shape.missing(given)
            if not path.startswith(("metadata", "status")) and field.type.zero is not int
        ]

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return, to the one who makes an object, that it has no effect here."""
        return [self._warning] if old is None else []


def _fill(obj: Manifest, defaults: Mapping[str, Any]) -> None:
    for name, value in defaults.items():
        if isinstance(value, Mapping):
            _fill(obj.setdefault(name, {}), value)
        else:
            obj.setdefault(name, value)
