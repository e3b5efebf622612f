"""The behaviour of kinds of which no more is known than their schema.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go.
"""

from kcr.apiserver.kinds.core.shape import receive
from kcr.apiserver.kinds.strategy import Manifest, Strategy
from kcr.apiserver.schema.builtin import kind_shape


class GenericStrategy(Strategy):
    """Objects are brought into the shape of their kind, and nothing is filled in."""

    def default(self, obj: Manifest) -> None:
        """Bring an object into the shape of its kind.

        Raises:
            UndecodableError: It is no object of the kind.
        """
        receive(kind_shape(obj["apiVersion"], obj["kind"]), obj)


class IdleStrategy(GenericStrategy):
    """Kinds that a cluster has controllers or other components for, and this one has none."""

    def __init__(self, display: str, *, has_generation: bool) -> None:
        """Make the strategy of a kind.

        Args:
            display: What messages call the kind, such as `deployments.apps`.
            has_generation: Whether `metadata.generation` is kept.
        """
        self.has_generation = has_generation
        self._warning = f"{display} are stored by this server, and nothing here acts on them"

    def prepare_create(self, obj: Manifest) -> None:
        """Drop the status, which is written by itself."""
        obj.pop("status", None)

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return, to the one who makes an object, that it has no effect here."""
        return [self._warning] if old is None else []
