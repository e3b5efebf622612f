"""The strategy of kinds of which the server knows no more than the schema.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go.
"""

from kcr.apiserver.kinds.field_errors import FieldError, required
from kcr.apiserver.kinds.strategy import Manifest, Strategy
from kcr.apiserver.schema.builtin import kind_shape


class GenericStrategy(Strategy):
    """Objects are conformed to the schema of their kind, and fields that it requires are demanded."""

    def __init__(self, display: str, *, has_generation: bool) -> None:
        """Make the strategy of a kind.

        Args:
            display: What messages call the kind, such as `deployments.apps`.
            has_generation: Whether `metadata.generation` is kept.
        """
        self.has_generation = has_generation
        self._warning = f"{display} are stored by this server, and nothing here acts on them"

    def prepare_create(self, obj: Manifest) -> None:
        """Drop the status: it is written through `/status` only."""
        obj.pop("status", None)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of an object: fields that its schema requires and that are not there.

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
        """Return, on create, that objects of the kind have no effect here."""
        return [self._warning] if old is None else []
