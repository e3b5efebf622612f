"""The behaviour of Events and Leases: records with times of their own kinds.

Source: kubernetes/pkg/apis/core/validation/events.go; pkg/apis/coordination/validation/validation.go.
"""

from kcr.apiserver.kinds.core.names import qualified_name
from kcr.apiserver.kinds.core.shape import receive
from kcr.apiserver.kinds.field_errors import invalid, non_negative, required
from kcr.apiserver.kinds.strategy import FieldError, Manifest, Strategy
from kcr.apiserver.schema.builtin import kind_shape

_LONGEST_MESSAGE, _LONGEST_NAME = 1024, 128
_SYSTEM_NAMESPACES = ("default", "kube-system")


class EventStrategy(Strategy):
    """Events live beside what they are about; those of things without a namespace live in `default`."""

    def default(self, obj: Manifest) -> None:
        """Bring an Event into shape, and show the members that are always there.

        Raises:
            UndecodableError: It is no Event; `eventTime` needs exactly six fractional digits.
        """
        receive(kind_shape("v1", "Event"), obj)
        for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
            obj.setdefault(name, None)
        for name in ("reportingComponent", "reportingInstance"):
            obj.setdefault(name, "")
        obj.setdefault("source", {})

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the faults of an Event; those with an `eventTime` must say who reports what."""
        about, here = (obj.get("involvedObject") or {}).get("namespace", ""), obj["metadata"].get("namespace", "")
        modern = obj.get("eventTime") is not None
        at_home = here in ("", *_SYSTEM_NAMESPACES[: 2 if modern else 1])
        faults: list[FieldError] = []
        if not (at_home if not about else modern or about == here):
            faults.append(invalid("involvedObject.namespace", about, "does not match event.namespace"))
        return faults + _check_modern(obj) if modern else faults


def _check_modern(obj: Manifest) -> list[FieldError]:
    faults: list[FieldError] = []
    for name in ("reportingComponent", "reportingInstance", "action", "reason"):
        value = obj.get(name) or ""
        if not value:
            faults.append(required(name))
        if name == "reportingComponent":
            faults += [invalid(name, value, reason) for reason in qualified_name(value)]
        elif len(value) > _LONGEST_NAME:
            faults.append(invalid(name, "", f"can have at most {_LONGEST_NAME} characters"))
    if len(obj.get("message") or "") > _LONGEST_MESSAGE:
        faults.append(invalid("message", "", f"can have at most {_LONGEST_MESSAGE} characters"))
    return faults


class LeaseStrategy(Strategy):
    """Leases say who leads, since when and for how long."""

    def default(self, obj: Manifest) -> None:
        """Bring a Lease into shape.

        Raises:
            UndecodableError: It is no Lease; its times need exactly six fractional digits.
        """
        receive(kind_shape("coordination.k8s.io/v1", "Lease"), obj)
        obj.setdefault("spec", {})

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the faults of a Lease."""
        spec = obj["spec"]
        duration = spec.get("leaseDurationSeconds")
        faults: list[FieldError] = []
        if duration is not None and duration <= 0:
            faults.append(invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        return faults + non_negative("spec.leaseTransitions", spec.get("leaseTransitions"))
