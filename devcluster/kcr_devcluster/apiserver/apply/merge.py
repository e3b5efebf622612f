"""How an applied configuration and the live object become one: merged by the types, then pruned by ownership.

Source: sigs.k8s.io/structured-merge-diff, typed/merge.go and merge/update.go, prune.
"""

from collections import deque
from typing import Any

from kcr_devcluster.apiserver.apply.fieldpath import MEMBER, FieldSet
from kcr_devcluster.apiserver.apply.typed import Part, parts
from kcr_devcluster.apiserver.schema.shape import Field


def merge(field: Field, live: Any, config: Any) -> Any:
    """Return the live value with a configuration merged into it; neither is changed.

    Objects and maps merge by name, lists by the keys or values of their items, all else is replaced. Null leaves the
    members of an object or a list as they are.
    """
    wanted, found = parts(field, config), parts(field, live)
    if wanted is None:
        return live if config is None and found else config
    if not found:
        return config
    if isinstance(config, dict):
        inner = {part.element: part for part in found}
        values = (_merge_part(inner.get(part.element), part) for part in wanted)
        return {**live, **dict(zip(config, values, strict=True))}
    return _merge_items(found, wanted)


def _merge_part(live: Part | None, config: Part) -> Any:
    return config.value if live is None else merge(config.field, live.value, config.value)


def _merge_items(live: list[Part], config: list[Part]) -> list[Any]:
    """Return the items of a list: in the order of the configuration, and between them those that only live has."""
    wanted = {part.element for part in config}
    before: dict[str, Part] = {}
    for part in reversed(live):
        before[part.element] = part
    shared = deque(part.element for part in config if part.element in before)
    rest = deque(live)
    result: list[Any] = []
    for part in config:
        # Only the items before the next common item in the live list precede it in the result.
        while rest and not (shared and rest[0].element == shared[0]):
            other = rest.popleft()
            if other.element not in wanted:
                result.append(other.value)
        result.append(_merge_part(before.get(part.element), part))
        if shared and shared[0] == part.element:
            shared.popleft()
            if rest and rest[0].element == part.element:
                rest.popleft()
    return result + [part.value for part in rest if part.element not in wanted]


def prune(field: Field, value: Any, last: FieldSet, owned: FieldSet) -> Any:
    """Return a value without the parts that a manager applied before and no manager owns now; it is not changed.

    A field stays while anything below it is owned, an entry or an item while it is owned itself. A removed part takes
    all its members with it.

    Args:
        field: The value's schema.
        value: The merged value.
        last: The fields that the manager owned before.
        owned: The fields that any manager owns now.
    """
    found = parts(field, value)
    if not found or not last:
        return value
    kept: list[Any] = []
    names = list(value) if isinstance(value, dict) else []
    for position, part in enumerate(found):
        mine, theirs = last.get(part.element, {}), owned.get(part.element, {})
        if _is_member(part, mine) and not _is_member(part, theirs):
            continue
        inner = prune(part.field, part.value, mine, theirs)
        if names and inner == [] != part.value:
            # Unlike a map, a list whose last item goes is gone as well.
            continue
        kept.append((names[position], inner) if names else inner)
    return dict(kept) if names else kept


def _is_member(part: Part, fields: FieldSet) -> bool:
    return MEMBER in fields or (part.is_named and bool(fields))
