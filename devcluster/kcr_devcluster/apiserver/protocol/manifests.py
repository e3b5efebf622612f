"""Manifests: objects as decoded from JSON, the order of their metadata on the wire, and when two of them are equal.

Source: k8s.io/apimachinery/pkg/api/equality/semantic.go.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from kcr.api.equality import same_json

Manifest = dict[str, Any]

# The order on the wire, and all that is kept. `Record.at` relies on resourceVersion coming before the labels.
_ORDER = (
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields",
)  # fmt: skip

# Seconds; Python's calendar has room for this on both sides of any present.
_LONGEST = 100 * 365 * 86_400


def in_order(metadata: Manifest) -> Manifest:
    """Return metadata in the order of the wire."""
    return {name: metadata[name] for name in _ORDER if name in metadata}


def timestamp(now: datetime) -> str:
    """Return a time as in metadata: UTC, whole seconds."""
    return f"{(now if now.tzinfo is UTC else now.astimezone(UTC)).isoformat()[:19]}Z"


def clamped_seconds(seconds: int) -> timedelta:
    """Return a duration of so many seconds, at most a hundred years: clients send any number of 64 bits."""
    return timedelta(seconds=max(-_LONGEST, min(seconds, _LONGEST)))


def semantic_equal(one: object, other: object) -> bool:
    """Return whether two values are semantically equal: absent, null and empty are one."""
    if same_json(one, other):
        return True
    if isinstance(one, dict) and isinstance(other, dict):
        return all(semantic_equal(one.get(name), other.get(name)) for name in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(semantic_equal, one, other))
    return _is_nothing(one) and _is_nothing(other)


def _is_nothing(value: object) -> bool:
    return value is None or value == [] or value == {}
