"""`events.k8s.io/v1` Events: the Events of the core group under their newer field names.

An Event that is written through this API has to be complete: its reporter, action, reason, type and time are required.

Source: kubernetes/pkg/apis/events/v1/conversion.go; pkg/apis/core/validation/events.go, ValidateEventCreate and
ValidateEventUpdate.
"""

from collections.abc import Mapping
from dataclasses import replace

from kcr_devcluster.apiserver.kinds.catalogue import EVENTS
from kcr_devcluster.apiserver.kinds.core.events import EventStrategy
from kcr_devcluster.apiserver.kinds.kind import Conversion, Kind
from kcr_devcluster.apiserver.kinds.strategy import conform
from kcr_devcluster.apiserver.protocol.field_errors import IMMUTABLE, FieldError, invalid, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal
from kcr_devcluster.apiserver.schema.builtin import kind_shape

_GROUP = "events.k8s.io"
_SHAPE = kind_shape(f"{_GROUP}/v1", "Event")
# The fields that are called otherwise in the core group.
_CORE_NAMES: Mapping[str, str] = {
    "regarding": "involvedObject", "note": "message", "reportingController": "reportingComponent",
    "deprecatedSource": "source", "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp", "deprecatedCount": "count",
}  # fmt: skip
_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_TYPES = ("Normal", "Warning")
_UNSET = ("firstTimestamp", "lastTimestamp", "count")
# In the order of upstream's checks, by the names of messages.
_FIXED: Mapping[str, str] = {
    name: name
    for name in (
        "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "type",
        "eventTime", "action", "related",
    )
} | {"reportingController": "reportingComponent", "reportingInstance": "reportingInstance"}  # fmt: skip


def to_core(event: Manifest) -> None:
    """Turn an Event of events.k8s.io into one of the core group.

    Raises:
        UndecodableError: It is no Event.
    """
    conform(_SHAPE, event)
    event["apiVersion"] = EVENTS.type.api_version
    _rename(event, _CORE_NAMES)


def from_core(event: Manifest) -> None:
    """Turn an Event of the core group into one of events.k8s.io."""
    event["apiVersion"] = f"{_GROUP}/v1"
    _rename(event, {old: new for new, old in _CORE_NAMES.items()})
    _SHAPE.conform(event)


def _rename(event: Manifest, names: Mapping[str, str]) -> None:
    for name, other in names.items():
        if name in event:
            event[other] = event.pop(name)


class NewEventStrategy(EventStrategy):
    """Events that are written through events.k8s.io: complete when they are created, and fixed from then on."""

    reporter = "reportingController"

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new Event."""
        errors = super().validate(obj) + _check_series(obj)
        if obj.get("eventTime") is None:
            errors.append(required("eventTime"))
        if obj.get("type") not in _TYPES:
            errors.append(invalid("type", "", f"has invalid value: {obj.get('type', '')}"))
        errors += [invalid(name, "", "needs to be unset") for name in _UNSET if obj.get(name)]
        if any((obj.get("source") or {}).values()):
            errors.append(invalid("source", "", "needs to be unset"))
        return errors

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update: the series may change, and metadata."""
        errors = super().validate(new)
        if new.get("series") != old.get("series"):
            errors += _check_series(new)
        errors += [
            invalid(name, new.get(path), IMMUTABLE)
            for name, path in _FIXED.items()
            if not semantic_equal(new.get(path), old.get(path))
        ]
        return errors


def _check_series(event: Manifest) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors = [] if series.get("count", 0) >= 2 else [invalid("series.count", "", "should be at least 2")]
    return errors if series.get("lastObservedTime") else [*errors, required("series.lastObservedTime")]


def _same(_: Manifest) -> None:
    """Convert nothing: the fields are those of the core group already."""


# The objects of the core group, under the rules of the newer one.
_RULES = replace(
    EVENTS, make_strategy=NewEventStrategy, conversion=Conversion(EVENTS, EVENTS.shape, _same, _same, same_fields=True)
)
NEW_EVENTS: Kind = replace(
    EVENTS,
    type=EVENTS.type._replace(group=_GROUP),
    fields={
        **{f"regarding.{name}": ("involvedObject", name) for name in _REFERENCE},
        "reason": ("reason",),
        "reportingController": ("reportingComponent",),
        "type": ("type",),
    },
    field_fallbacks={},
    conversion=Conversion(EVENTS, _SHAPE, to_core, from_core, rules=_RULES),
)
