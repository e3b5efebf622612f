"""The behaviour of namespaces and nodes.

Source: kubernetes/pkg/registry/core/{namespace,node}/strategy.go; pkg/apis/core/v1/defaults.go.
"""

from kcr.apiserver.kinds.core.shape import receive
from kcr.apiserver.kinds.strategy import Manifest, Strategy
from kcr.apiserver.schema.builtin import kind_shape

_NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(Strategy):
    """Namespaces carry their name as a label, and a finalizer of their own in the spec."""

    def default(self, obj: Manifest) -> None:
        """Bring a namespace into shape, and add the label that selectors of namespaces use.

        Raises:
            UndecodableError: It is no namespace.
        """
        receive(kind_shape("v1", "Namespace"), obj)
        metadata = obj.setdefault("metadata", {})
        if metadata.get("name"):
            metadata["labels"] = {**(metadata.get("labels") or {}), _NAME_LABEL: metadata["name"]}

    def prepare_create(self, obj: Manifest) -> None:
        """Set the finalizer by which the namespace waits for its content, and the phase."""
        spec: Manifest = obj.get("spec") or {}
        finalizers: list[str] = spec.get("finalizers") or []
        if "kubernetes" not in finalizers:
            finalizers = [*finalizers, "kubernetes"]
        obj["spec"] = {**spec, "finalizers": finalizers}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status and the finalizers of the spec, which only `/finalize` changes."""
        super().prepare_update(new, old)
        new["spec"] = {**(new.get("spec") or {}), "finalizers": (old.get("spec") or {}).get("finalizers") or []}


class NodeStrategy(Strategy):
    """Nodes register with their status; what they can hold is what they may give away unless they say less."""

    def default(self, obj: Manifest) -> None:
        """Bring a node into shape; `allocatable` is `capacity` when it is not there.

        Raises:
            UndecodableError: It is no node.
        """
        receive(kind_shape("v1", "Node"), obj)
        status = obj.setdefault("status", {})
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])
        obj.setdefault("spec", {})
