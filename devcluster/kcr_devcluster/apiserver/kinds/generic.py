"""The strategy of kinds that are stored and on which nothing here acts, and the warning on create that says so.

A real cluster has no such warnings: there, a controller or a component acts on these objects.
"""

from collections.abc import Mapping

from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.builtin import kind_shape

_PODS = "no controller creates their pods"
# The missing effect, by resource. For the other resources that are only stored, the name suffices.
WITHOUT_CONTROLLER: Mapping[str, str] = {
    "daemonsets.apps": _PODS,
    "statefulsets.apps": _PODS,
    "replicationcontrollers": _PODS,
    "horizontalpodautoscalers.autoscaling": "no controller scales their targets",
    "ingresses.networking.k8s.io": "no traffic is routed",
    "networkpolicies.networking.k8s.io": "no traffic is filtered",
    "persistentvolumeclaims": "no volume is provisioned or bound",
    "persistentvolumes": "no claim is bound to them",
    "services": "neither their names nor their addresses lead to pods; only calls of webhooks reach theirs",
    "endpointslices.discovery.k8s.io": "no traffic is routed",
    "flowschemas.flowcontrol.apiserver.k8s.io": "no request is queued or refused",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": "no request is queued or refused",
    "resourceclaims.resource.k8s.io": "no device is allocated",
    "apiservices.apiregistration.k8s.io": "requests are not forwarded to other servers",
}


def without_effect(display: str) -> str:
    """Return the warning about a new object of a kind that is only stored.

    Args:
        display: The name of the kind in messages, such as `statefulsets.apps`.
    """
    said = f"{display} are stored by this server, and nothing here acts on them"
    return f"{said}: {WITHOUT_CONTROLLER[display]}" if display in WITHOUT_CONTROLLER else said


class GenericStrategy(Strategy):
    """Objects are conformed to the schema of their kind, and fields that it requires are demanded."""

    def __init__(self, display: str, *, has_generation: bool) -> None:
        """Make the strategy of a kind.

        Args:
            display: The name of the kind in messages, such as `deployments.apps`.
            has_generation: Whether `metadata.generation` is kept.
        """
        self.has_generation = has_generation
        self._warning = without_effect(display)

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
