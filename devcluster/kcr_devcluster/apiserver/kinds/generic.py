"""The strategy of kinds that are stored and on which nothing here acts, and the warning on create that says so.

A real cluster has no such warnings: there, a controller or a component acts on these objects.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.kinds.strategy import Strategy, found_at
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.builtin import kind_shape

_PODS = "no controller creates their pods"
# The missing effect, by resource. For the other resources that are only stored, the name suffices.
WITHOUT_CONTROLLER: Mapping[str, str] = {
    "daemonsets.apps": _PODS,
    "statefulsets.apps": _PODS,
    "horizontalpodautoscalers.autoscaling": "no controller scales their targets",
    "ingresses.networking.k8s.io": "no traffic is routed",
    "networkpolicies.networking.k8s.io": "no traffic is filtered",
    "persistentvolumeclaims": "no volume is provisioned or bound",
    "persistentvolumes": "no claim is bound to them",
    "flowschemas.flowcontrol.apiserver.k8s.io": "no request is queued or refused",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": "no request is queued or refused",
    "resourceclaims.resource.k8s.io": "no device is allocated",
    "apiservices.apiregistration.k8s.io": "requests are not forwarded to other servers",
}


# Of warnings that no other server gives.
STORED_ONLY = "are stored by this server, and nothing here acts on them"


def without_effect(display: str) -> str:
    """Return the warning about a new object of a kind that is only stored.

    Args:
        display: The name of the kind in messages, such as `statefulsets.apps`.
    """
    said = f"{display} {STORED_ONLY}"
    return f"{said}: {WITHOUT_CONTROLLER[display]}" if display in WITHOUT_CONTROLLER else said


# Conforms an object to the schema of its kind.
Conform = Callable[[Manifest], None]


class Rules(NamedTuple):
    """What is true of one kind that is only stored, beside its schema; the strategy of these kinds is one.

    Attributes:
        stored_as: apiVersion and kind of the objects.
        default: Fills in defaults in place; it has to call its second argument, which conforms the object.
        status: Returns the status of a new object; None for none.
        validate: Returns the field errors; None for those that the schema shows.
        validate_update: Returns the field errors of an update; None for those of a new object.
        validate_status: Returns the field errors of an update of the status; None for none.
        warnings: Returns further warnings about a new object.
        is_used: Whether something here acts on the objects, so that there is no warning that nothing does.
        content: The fields whose changes start a new generation.
        has_labels: Whether changed labels do so as well.
    """

    stored_as: tuple[str, str] | None = None
    default: Callable[[Manifest, Conform], None] | None = None
    status: Callable[[Manifest], Manifest] | None = None
    validate: Callable[[Manifest], list[FieldError]] | None = None
    validate_update: Callable[[Manifest, Manifest], list[FieldError]] | None = None
    validate_status: Callable[[Manifest, Manifest], list[FieldError]] | None = None
    warnings: Callable[[Manifest], list[str]] | None = None
    is_used: bool = False
    content: tuple[str, ...] = ("spec",)
    has_labels: bool = False


# Kinds whose objects show a status before it says anything.
EMPTY_STATUS = Rules(status=lambda obj: {})


class GenericStrategy(Strategy):
    """Objects are conformed to the schema of their kind, and fields that it requires are demanded, or by `Rules`."""

    def __init__(
        self, display: str, *, has_generation: bool, rules: str = "", status_resets: tuple[str, ...] = ("spec",)
    ) -> None:
        """Make the strategy of a kind.

        Args:
            display: The name of the kind in messages, such as `deployments.apps`.
            has_generation: Whether `metadata.generation` is kept.
            rules: Where its `Rules` are, see `found_at`; empty for a kind without any.
            status_resets: See `Strategy`.
        """
        self.status_resets = status_resets
        self.has_generation = has_generation
        self._warning = without_effect(display)
        self._rules: Rules = found_at(rules) if rules else Rules()
        self.stored_as = self._rules.stored_as or self.stored_as

    def default(self, obj: Manifest) -> None:
        """Conform an object, and fill in the defaults that its kind has beside the schema."""
        if self._rules.default is None:
            super().default(obj)
        else:
            self._rules.default(obj, super().default)

    def prepare_create(self, obj: Manifest) -> None:
        """Drop the status, which is written through `/status` only, or set the first one."""
        obj.pop("status", None)
        if self._rules.status is not None:
            obj["status"] = self._rules.status(obj)

    def is_new_generation(self, new: Manifest, old: Manifest) -> bool:
        """Return whether an update changes the content."""
        if self._rules.has_labels and new["metadata"].get("labels") != old["metadata"].get("labels"):
            return True
        return any(not same_json(new.get(name), old.get(name)) for name in self._rules.content)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of an object; without rules, fields that its schema requires and that are not there.

        In Go, an absent number is zero, and which zeros are invalid no schema says.
        """
        if self._rules.validate is not None:
            return self._rules.validate(obj)
        shape = kind_shape(obj["apiVersion"], obj["kind"])
        given = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
        if "spec" in shape.fields:
            given.setdefault("spec", {})
        return [
            required(path)
            for path, field in shape.missing(given)
            if not path.startswith(("metadata", "status")) and field.type.zero is not int
        ]

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        return self.validate(new) if self._rules.validate_update is None else self._rules.validate_update(new, old)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        return [] if self._rules.validate_status is None else self._rules.validate_status(new, old)

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return, on create, that objects of the kind have no effect here, and further warnings before."""
        if old is not None:
            return []
        found = self._rules.warnings(new) if self._rules.warnings is not None else []
        return found if self._rules.is_used else [*found, self._warning]
