"""Warnings to clients about fields of pods that have no effect in this cluster.

Upstream has no such warnings. They are given for a new pod, and for a new or changed pod template, as upstream's own
about pod specs are; not for a pod that a controller made, for the author of its template has had them.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from kcr.api.resources import ResourceType
from kcr_devcluster.apiserver.kinds.catalogue import (
    CRON_JOBS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_QUOTAS,
)
from kcr_devcluster.apiserver.kinds.generic import without_effect
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.builtin import LIST, MAP, type_facts, type_shape
from kcr_devcluster.apiserver.schema.shape import ABSENT
from kcr_devcluster.apiserver.storage.records import Record
from kcr_devcluster.cluster.effects.pod_fields import FIELDS, USED, Effect, NoEffect

# Warnings of one response. Servers and proxies bound the headers.
LIMIT = 10
_POD_SPEC = "core.v1.PodSpec"
# Where the spec of pods is in an object.
_SPECS: Mapping[ResourceType, tuple[str, ...]] = {
    PODS.type: ("spec",),
    CRON_JOBS.type: ("spec", "jobTemplate", "spec", "template", "spec"),
    **{one.type: ("spec", "template", "spec") for one in (JOBS, DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS)},
}

# The consequence where the controller that writes the status does not run.
_WITHOUT_STATUS: Mapping[Kind, str] = {
    DISRUPTION_BUDGETS: "so evictions are refused",
    RESOURCE_QUOTAS: "and the limits hold all the same",
}


def process_warnings(record: Record, before: Manifest | None) -> Iterator[str]:
    """Yield warnings about fields of a written object that the process runtime ignores; an `Adviser`.

    Args:
        record: The object.
        before: The object before; None when it is new.
    """
    path = _SPECS.get(record.kind.type)
    if path is None or any(owner.controller for owner in record.metadata.owner_references):
        return
    if before is not None and before["metadata"].get("generation") == record.metadata.generation:
        return
    spec = _at(record.manifest(), path)
    if before is not None and _at(before, path) == spec:
        return
    ignored = _PROCESSES.without_effect(_POD_SPEC, spec, ".".join(path))
    for field, reason in islice(ignored, LIMIT):
        yield f"{field}: has no effect in kcr dev: {reason}"
    if rest := sum(1 for _ in ignored):
        yield f"{rest} more {'field has' if rest == 1 else 'fields have'} no effect in kcr dev"


def absent_controller_warnings(record: Record, before: Manifest | None) -> Iterator[str]:
    """Yield a warning about a new object whose controller does not run, where there are none; an `Adviser`.

    Args:
        record: The object.
        before: The object before; None when it is new.
    """
    is_new = before is None and not any(owner.controller for owner in record.metadata.owner_references)
    if is_new and record.kind in (DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS):
        yield f"{without_effect(record.kind.type.display)}: it was started with --no-controllers"
    elif is_new and record.kind in _WITHOUT_STATUS:
        why = f"{_WITHOUT_STATUS[record.kind]}: the server was started with --no-controllers"
        yield f"the status of {record.kind.type.display} is written by no controller here, {why}"


def _at(obj: Manifest, path: tuple[str, ...]) -> Manifest:
    for name in path:
        obj = obj.get(name) or {}
    return obj


class _Judgement(NamedTuple):
    """A field that has no effect, or whose value has such fields."""

    no_effect: NoEffect | None
    inner: str
    default: Any


class FieldEffects:
    """Finds the fields that are set in an object and have no effect, by a table."""

    def __init__(self, table: Mapping[str, Mapping[str, Effect]]) -> None:
        """Take a table.

        Args:
            table: Per type, such as `core.v1.PodSpec`, the effect of each field.
        """
        self._table = table
        # The fields to check, by the types that have been met.
        self._judgements: dict[str, Mapping[str, _Judgement]] = {}

    def without_effect(self, type_name: str, obj: Manifest, path: str) -> Iterator[tuple[str, str]]:
        """Yield the path and the reason of each field that is set and has no effect.

        Args:
            type_name: The type of the object.
            obj: The object as stored, with its defaults.
            path: Where it is, such as `spec.template.spec`.
        """
        judgements = self._judgements_of(type_name)
        for name, value in obj.items():
            judged = judgements.get(name)
            if judged is None:
                continue
            here = f"{path}.{name}"
            if judged.no_effect is not None:
                yield from _named(judged, value, here)
            elif isinstance(value, list):
                for position, one in enumerate(value):
                    yield from self.without_effect(judged.inner, one, f"{here}[{position}]")
            elif value is not None:
                yield from self.without_effect(judged.inner, value, here)

    def _judgements_of(self, type_name: str) -> Mapping[str, _Judgement]:
        """Return the fields of a type that need to be checked."""
        found = self._judgements.get(type_name)
        if found is None:
            found = self._judgements[type_name] = dict(self._judge(type_name))
        return found

    def _judge(self, type_name: str) -> Iterator[tuple[str, _Judgement]]:
        types, fields = type_facts(type_name), type_shape(type_name).fields
        for name, effect in self._table[type_name].items():
            inner = inner_type(types[name].type)
            if isinstance(effect, NoEffect):
                yield name, _Judgement(effect, inner, fields[name].default)
            elif effect is USED and inner in self._table:
                yield name, _Judgement(None, inner, ABSENT)


def inner_type(written: str) -> str:
    """Return the type of a field's value, or of the items of its list or map."""
    while written.startswith((LIST, MAP)):
        written = written.removeprefix(LIST).removeprefix(MAP)
    return written


def _named(judged: _Judgement, value: Any, here: str) -> Iterator[tuple[str, str]]:
    no_effect = judged.no_effect
    assert no_effect is not None  # the caller has looked
    if no_effect.used_keys and isinstance(value, dict):
        for key in value:
            if key not in no_effect.used_keys:
                yield f"{here}[{key}]", no_effect.reason
    elif _asks_for_more(no_effect, value, judged.default):
        yield here, no_effect.reason


def _asks_for_more(no_effect: NoEffect, value: Any, default: Any) -> bool:
    """Return whether a field is set to a value that asks for more than the usual behaviour."""
    if isinstance(value, list):
        return any(one not in no_effect.usual for one in value)
    if value is False:
        return True in no_effect.usual
    return value not in (None, "", {}) and value not in no_effect.usual and value != default


_PROCESSES = FieldEffects(FIELDS)
