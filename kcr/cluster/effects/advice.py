"""Warnings to clients about fields of pods that have no effect in this cluster.

Upstream has no such warnings. They are given for a new pod, and for a new or changed pod template, as upstream's own
about pod specs are; not for a pod that a controller made, for the author of its template has had them.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from kcr.apiserver.kinds.catalogue import CRON_JOBS, DEPLOYMENTS, JOBS, PODS, REPLICA_SETS, Kind
from kcr.apiserver.kinds.strategy import Manifest
from kcr.apiserver.schema.builtin import LIST, MAP, type_facts, type_shape
from kcr.apiserver.schema.shape import ABSENT
from kcr.apiserver.storage.records import Record
from kcr.cluster.effects.pod_fields import FIELDS, USED, NoEffect

# Warnings of one response. Servers and proxies bound the headers.
LIMIT = 10
_POD_SPEC = "core.v1.PodSpec"
# Where the spec of pods is in an object.
_SPECS: Mapping[Kind, tuple[str, ...]] = {
    PODS: ("spec",),
    JOBS: ("spec", "template", "spec"),
    CRON_JOBS: ("spec", "jobTemplate", "spec", "template", "spec"),
    DEPLOYMENTS: ("spec", "template", "spec"),
    REPLICA_SETS: ("spec", "template", "spec"),
}


def process_warnings(record: Record, before: Manifest | None) -> Iterator[str]:
    """Yield warnings about what the process runtime does not do of an object that was written; an `Adviser`.

    Args:
        record: The object.
        before: The object before; None when it is new.
    """
    path = _SPECS.get(record.kind)
    if path is None or any(owner.controller for owner in record.metadata.owner_references):
        return
    if before is not None and before["metadata"].get("generation") == record.metadata.generation:
        return
    spec = _at(record.manifest(), path)
    if before is not None and _at(before, path) == spec:
        return
    ignored = without_effect(spec, ".".join(path))
    for field, reason in islice(ignored, LIMIT):
        yield f"{field}: has no effect in kcr dev: {reason}"
    if rest := sum(1 for _ in ignored):
        yield f"{rest} more {'field has' if rest == 1 else 'fields have'} no effect in kcr dev"


def _at(obj: Manifest, path: tuple[str, ...]) -> Manifest:
    for name in path:
        obj = obj.get(name) or {}
    return obj


def without_effect(spec: Manifest, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the reason of each field of a pod's spec that is set and has no effect.

    Args:
        spec: As stored, with its defaults.
        path: Where it is in its object, such as `spec.template.spec`.
    """
    return _fields_without_effect(_POD_SPEC, spec, path)


def _fields_without_effect(type_name: str, obj: Manifest, path: str) -> Iterator[tuple[str, str]]:
    judgements = _judgements(type_name)
    for name, value in obj.items():
        judged = judgements.get(name)
        if judged is None:
            continue
        here = f"{path}.{name}"
        if judged.no_effect is not None:
            if _asks_for_more(judged, value, obj):
                yield here, judged.no_effect.reason
        elif isinstance(value, list):
            for position, one in enumerate(value):
                yield from _fields_without_effect(judged.inner, one, f"{here}[{position}]")
        else:
            yield from _fields_without_effect(judged.inner, value, here)


class _Judgement(NamedTuple):
    """What is known of a field that has no effect, or whose value has such fields."""

    no_effect: NoEffect | None
    inner: str
    default: Any


@cache
def _judgements(type_name: str) -> dict[str, _Judgement]:
    """Return the fields of a type that need to be looked at."""
    found = {}
    types, fields = type_facts(type_name), type_shape(type_name).fields
    for name, effect in FIELDS[type_name].items():
        inner = inner_type(types[name].type)
        if isinstance(effect, NoEffect):
            found[name] = _Judgement(effect, inner, fields[name].default)
        elif effect is USED and inner in FIELDS:
            found[name] = _Judgement(None, inner, ABSENT)
    return found


def inner_type(written: str) -> str:
    """Return the type of a field's value, or of the items of its list or map."""
    while written.startswith((LIST, MAP)):
        written = written.removeprefix(LIST).removeprefix(MAP)
    return written


def _asks_for_more(judged: _Judgement, value: Any, obj: Manifest) -> bool:
    """Return whether a field is set to something that would change what happens."""
    no_effect = judged.no_effect
    assert no_effect is not None  # the caller has looked
    if isinstance(value, list):
        return any(one not in no_effect.usual for one in value)
    if value is False:
        return True in no_effect.usual
    if value in (None, "", {}) or value in no_effect.usual or value == judged.default:
        return False
    return not no_effect.same_as or value != obj.get(no_effect.same_as)
