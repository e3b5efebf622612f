"""The strategies of Events and Leases.

Source: kubernetes/pkg/apis/core/validation/events.go; pkg/apis/coordination/validation/validation.go.
"""

from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid, non_negative, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import qualified_name

_LONGEST_MESSAGE, _LONGEST_NAME = 1024, 128
_COORDINATED = ("strategy", "preferredHolder")
_SYSTEM_NAMESPACES = ("default", "kube-system")


class EventStrategy(Strategy):
    """Events are in the namespace of the object that they are about; for cluster-scoped objects that is `default`."""

    stored_as = ("v1", "Event")
    # The name of the reporter's field in messages.
    reporter = "reportingComponent"

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of an Event; those with an `eventTime` must name the reporter."""
        about, here = (obj.get("involvedObject") or {}).get("namespace", ""), obj["metadata"].get("namespace", "")
        modern = obj.get("eventTime") is not None
        at_home = here in ("", *_SYSTEM_NAMESPACES[: 2 if modern else 1])
        errors: list[FieldError] = []
        if not (at_home if not about else modern or about == here):
            errors.append(invalid("involvedObject.namespace", about, "does not match event.namespace"))
        return errors + _check_modern(obj, self.reporter) if modern else errors


def _check_modern(obj: Manifest, reporter: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("reportingComponent", "reportingInstance", "action", "reason"):
        value = obj.get(name) or ""
        if name == "reportingComponent":
            errors += [required(reporter)] if not value else []
            errors += [invalid(reporter, value, reason) for reason in qualified_name(value)]
            continue
        if not value:
            errors.append(required(name))
        if len(value) > _LONGEST_NAME:
            errors.append(invalid(name, "", f"can have at most {_LONGEST_NAME} characters"))
    if len(obj.get("message") or "") > _LONGEST_MESSAGE:
        errors.append(invalid("message", "", f"can have at most {_LONGEST_MESSAGE} characters"))
    return errors


class LeaseStrategy(Strategy):
    """Leases of leader election and of nodes."""

    stored_as = ("coordination.k8s.io/v1", "Lease")

    def prepare_create(self, obj: Manifest) -> None:
        """Drop the fields of coordinated leader election, which is off by default."""
        for name in _COORDINATED:
            obj["spec"].pop(name, None)

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Drop them here, too."""
        self.prepare_create(new)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a Lease."""
        spec = obj["spec"]
        duration = spec.get("leaseDurationSeconds")
        errors: list[FieldError] = []
        if duration is not None and duration <= 0:
            errors.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        errors += non_negative("spec.leaseTransitions", spec.get("leaseTransitions"))
        return errors
