"""The table of fields of pods, held against the schema."""

from collections.abc import Iterator

from kcr_devcluster.apiserver.schema.builtin import type_facts
from kcr_devcluster.apiserver.schema.scalars import SCALARS
from kcr_devcluster.cluster.effects.advice import inner_type
from kcr_devcluster.cluster.effects.pod_fields import FIELDS, USED

POD_SPEC = "core.v1.PodSpec"


def reachable(type_name: str, seen: set[str]) -> Iterator[str]:
    """Yield the types whose fields have to be judged: that of the pod's spec, and those of fields that are used."""
    if type_name in seen:
        return
    seen.add(type_name)
    yield type_name
    for name, facts in type_facts(type_name).items():
        inner = inner_type(facts.type)
        if FIELDS.get(type_name, {}).get(name) == USED and inner not in SCALARS:
            yield from reachable(inner, seen)


def test_every_field_of_the_schema_is_judged() -> None:
    fields = {f"{one}: {name}" for one in reachable(POD_SPEC, set()) for name in type_facts(one)}
    judged = {f"{one}: {name}" for one, effects in FIELDS.items() for name in effects}
    assert fields - judged == set(), "say in devcluster/kcr_devcluster/cluster/effects/pod_fields.py what these do"
    assert judged - fields == set(), "these are no fields, or within fields that have no effect as a whole"


def test_reasons_are_clauses_without_an_end() -> None:
    reasons = [
        effect.reason for effects in FIELDS.values() for effect in effects.values() if not isinstance(effect, str)
    ]
    assert len(reasons) > 30
    assert not [reason for reason in reasons if reason.endswith(".") or not reason.isprintable()]
