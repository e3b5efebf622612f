"""Reading and setting conditions in a status: `set_condition` as metav1 has it, `ensure` as the Job controller."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol, TypeVar, cast

import msgspec
from msgspec.structs import replace

from kcr.api.meta import Condition, from_wire, whole_seconds
from kcr.api.unstructured import Unstructured
from kcr.arguments import checked, checked_on_failure


class ConditionFields(Protocol):
    """The fields that conditions of all kinds have: `kcr.Condition`, and the classes of `kcr types generate`."""

    @property
    def type(self) -> str:
        """The type of the condition."""
        ...

    @property
    def status(self) -> str:
        """`True`, `False` or `Unknown`."""
        ...

    @property
    def reason(self) -> str | None:
        """Why, in one word."""
        ...

    @property
    def message(self) -> str | None:
        """Why, for people."""
        ...

    @property
    def last_transition_time(self) -> datetime | None:
        """When the status changed."""
        ...


C = TypeVar("C", bound=ConditionFields)

# The fields that a condition takes from the desired one. Not all classes have all of them.
_TAKEN = ("status", "reason", "message", "observed_generation")


@checked_on_failure
def find_condition(conditions: Iterable[C], kind: str) -> C | None:
    """Return the first condition of a type, or None.

    Source: apimachinery/pkg/api/meta/conditions.go, FindStatusCondition.
    """
    kind = "" + kind  # TypeError for anything but a string, which would match none
    return next((condition for condition in conditions if condition.type == kind), None)


@checked_on_failure
def is_condition_true(conditions: Iterable[ConditionFields], kind: str) -> bool:
    """Return whether a condition of this type has the status `True`; an absent one has not.

    ```python
    if kcr.is_condition_true(website.status.conditions, "Ready"): ...
    ```

    Source: apimachinery/pkg/api/meta/conditions.go, IsStatusConditionTrue.
    """
    kind = "" + kind
    return any(condition.type == kind and condition.status == "True" for condition in conditions)


def made(kind: str, status: str, reason: str, message: str, now: datetime) -> Condition:
    """Return a new condition, probed and changed now."""
    moment = whole_seconds(now)
    return Condition(
        type=kind, status=status, reason=reason, message=message, last_probe_time=moment, last_transition_time=moment
    )


@checked
def set_condition(conditions: tuple[C, ...], wanted: C, now: datetime) -> tuple[C, ...]:
    """Return the conditions with `wanted` among them; the very same tuple when nothing changes.

    A new type is appended, with any status. For an existing type, status, reason, message and
    `observed_generation` become those of `wanted`; `last_transition_time` changes with the status only.

    ```python
    ready = kcr.Condition(type="Ready", status="False", reason="NoPods", observed_generation=site.metadata.generation)
    conditions = kcr.set_condition(site.status.conditions, ready, manager.clock.now())
    await client.patch_status(site, replace(site, status=replace(site.status, conditions=conditions)))
    ```

    Args:
        conditions: As the status has them: `kcr.Condition`, or a class of `kcr types generate`.
        wanted: The new condition, of the same class. Its `last_transition_time`, if any, is used when the status
            changes.
        now: The moment of a transition otherwise.

    Source: apimachinery/pkg/api/meta/conditions.go, SetStatusCondition.
    """
    if wanted.status not in ("True", "False", "Unknown"):
        remedy = "give it 'True', 'False' or 'Unknown'"
        raise ValueError(f"set_condition: the status of {wanted.type} is {wanted.status!r}: {remedy}")
    present = find_condition(conditions, wanted.type)
    moment = wanted.last_transition_time or whole_seconds(now)
    if present is None:
        return (*conditions, _changed(wanted, last_transition_time=moment))
    taken = {name: getattr(wanted, name) for name in _TAKEN if hasattr(wanted, name)}
    at = present.last_transition_time if present.status == wanted.status else moment
    changed = _changed(present, **taken, last_transition_time=at)
    if changed == present:
        return conditions
    return tuple(changed if condition is present else condition for condition in conditions)


def _changed(condition: C, **fields: object) -> C:
    return cast("C", replace(cast("Any", condition), **fields))


@checked
def remove_condition(conditions: tuple[C, ...], kind: str) -> tuple[C, ...]:
    """Return the conditions without those of a type; the very same tuple when there is none.

    Source: apimachinery/pkg/api/meta/conditions.go, RemoveStatusCondition.
    """
    rest = tuple(condition for condition in conditions if condition.type != kind)
    return conditions if len(rest) == len(conditions) else rest


def ensure(conditions: tuple[Condition, ...], wanted: Condition) -> tuple[Condition, ...]:
    """Return the conditions with `wanted` among them; the very same tuple when nothing changes.

    One of the same type that says something else is replaced in place, times included. A condition
    that does not hold is not added where none was.

    Source: kubernetes/pkg/controller/job/job_controller.go, ensureJobConditionStatus.
    """
    for place, condition in enumerate(conditions):
        if condition.type != wanted.type:
            continue
        said = (condition.status, condition.reason, condition.message)
        if said == (wanted.status, wanted.reason, wanted.message):
            return conditions
        return (*conditions[:place], wanted, *conditions[place + 1 :])
    return conditions if wanted.status == "False" else (*conditions, wanted)


def conditions_of(obj: Unstructured) -> tuple[Condition, ...]:
    """Return the conditions of an object's status; none where the field has another meaning."""
    status = obj.get("status")
    found = status.get("conditions") if isinstance(status, dict) else None
    try:
        return msgspec.convert(found or (), tuple[Condition, ...], dec_hook=from_wire)
    except msgspec.ValidationError:
        return ()
