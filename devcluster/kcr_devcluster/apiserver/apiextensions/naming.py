"""The names of custom resources: in a group, each is used once, and the first definition that asks for it has it.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/controller/status/naming_controller.go and
pkg/controller/{establish,apiapproval}.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from kcr_devcluster.apiserver.kinds.definitions.validation import approval
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest, timestamp


class UsedNames(NamedTuple):
    """The names that others have in a group: of resources (plural, singular, short), and of kinds."""

    resources: frozenset[str]
    kinds: frozenset[str]


def used_names(group: str, kinds: Iterable[Kind], others: Iterable[Manifest]) -> UsedNames:
    """Return the names that are used in a group.

    Args:
        group: The group.
        kinds: The built-in kinds.
        others: The other definitions of the group.
    """
    resources, named = set[str](), set[str]()
    for kind in kinds:
        if kind.type.group == group:
            resources |= {kind.type.plural, kind.singular, *kind.short_names}
            named |= {kind.type.kind, kind.list_kind}
    for crd in others:
        names = (crd.get("status") or {}).get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
        named |= {names.get("kind", ""), names.get("listKind", "")}
    return UsedNames(frozenset(resources - {""}), frozenset(named - {""}))


def named_status(crd: Manifest, used: UsedNames, now: datetime) -> Manifest:
    """Return the status of a definition with the names that are free, and the conditions that say so."""
    status: Manifest = crd.get("status") or {}
    wanted, had = crd["spec"]["names"], status.get("acceptedNames") or {}
    accepted, refusal = _accepted(wanted, had, used)
    conditions = list(status.get("conditions") or ())
    if refusal is None:
        conditions = set_condition(conditions, "NamesAccepted", "True", ("NoConflicts", "no conflicts found"), now)
        if not is_true(crd, "Established"):
            initial = ("InitialNamesAccepted", "the initial names have been accepted")
            conditions = set_condition(conditions, "Established", "True", initial, now)
    else:
        conditions = set_condition(conditions, "NamesAccepted", "False", refusal, now)
        if not is_true(crd, "Established"):
            why = ("NotAccepted", "not all names are accepted")
            conditions = set_condition(conditions, "Established", "False", why, now)
    if (approved := approval(crd)) is not None:
        value = "True" if approved[0] == "ApprovedAnnotation" else "False"
        conditions = set_condition(conditions, "KubernetesAPIApprovalPolicyConformant", value, approved, now)
    return {**status, "acceptedNames": accepted, "conditions": conditions}


def _accepted(wanted: Manifest, had: Manifest, used: UsedNames) -> tuple[Manifest, tuple[str, str] | None]:
    """Return the names that are accepted, and reason and message of the last one that is not."""
    accepted, refusal = dict(had), None
    for member, reason, taken in (
        ("plural", "PluralConflict", used.resources),
        ("singular", "SingularConflict", used.resources),
        ("shortNames", "ShortNamesConflict", used.resources),
        ("kind", "KindConflict", used.kinds),
        ("listKind", "ListKindConflict", used.kinds),
    ):
        conflicts = _conflicts(wanted.get(member), had.get(member), taken)
        if conflicts:
            refusal = reason, conflicts[0] if len(conflicts) == 1 else f"[{', '.join(conflicts)}]"
        elif wanted.get(member):
            accepted[member] = wanted[member]
        else:
            accepted.pop(member, None)
    if wanted.get("categories"):
        accepted["categories"] = wanted["categories"]
    else:
        accepted.pop("categories", None)
    return accepted, refusal


def _conflicts(wanted: str | list[str] | None, had: str | list[str] | None, taken: Collection[str]) -> list[str]:
    names = wanted if isinstance(wanted, list) else [wanted or ""]
    own = had if isinstance(had, list) else [had or ""]
    return [f'"{name}" is already in use' for name in names if name not in own and name in taken]


def is_true(crd: Manifest, condition: str) -> bool:
    """Return whether a condition of a definition is True."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == condition and one.get("status") == "True" for one in conditions)


def set_condition(
    conditions: list[Manifest], kind: str, value: str, why: tuple[str, str], now: datetime
) -> list[Manifest]:
    """Return conditions with one of them set; its lastTransitionTime moves with its status only.

    Args:
        conditions: The conditions.
        kind: The type of the one.
        value: Its status, `True` or `False`.
        why: Its reason and message.
        now: The time.
    """
    had = next((one for one in conditions if one.get("type") == kind), None)
    is_same = had is not None and had.get("status") == value
    # Clients may write conditions, and leave the time out.
    moment = (had or {}).get("lastTransitionTime") if is_same else timestamp(now)
    made = {"lastTransitionTime": moment, "message": why[1], "reason": why[0], "status": value, "type": kind}
    if moment is None:
        del made["lastTransitionTime"]
    if had is None:
        return [*conditions, made]
    return [made if one is had else one for one in conditions]
