"""JSON patches from raw object to raw object, so that fields without an attribute in a type survive.

A defaulter gets a typed value and returns another. Only the difference of the two reaches the object as the API server
sent it. So a field that the object lacks is not written when it holds the default of its class on both sides: such a
default belongs into the schema, where `kcr crd generate` writes it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

# By which the items of lists of objects are known, in the built-in kinds and most others.
_ITEM_KEYS = ("name", "key", "type", "uid")
_MISSING: Any = msgspec.UNSET

encode = msgspec.json.Encoder(order="deterministic").encode


def rebase(raw: Any, before: Any, after: Any) -> Any:
    """Return `raw` with the changes that turn `before` into `after`; it is not mutated.

    Args:
        raw: The object as the API server sent it, in plain values.
        before: The part of it that a type knows, with the defaults of the type.
        after: The same, changed.
    """
    if is_same(before, after):
        return raw
    if isinstance(before, dict) and isinstance(after, dict):
        return _rebased_fields(raw if isinstance(raw, dict) else {}, before, after)
    if isinstance(raw, list) and isinstance(before, list) and isinstance(after, list) and len(raw) == len(before):
        return _rebased_items(raw, before, after)
    return after


def _rebased_fields(raw: dict[str, Any], before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    made = dict(raw)
    for name in {**before, **after}:
        old, new = before.get(name, _MISSING), after.get(name, _MISSING)
        if new is _MISSING:
            made.pop(name, None)
        elif old is _MISSING:
            made[name] = new
        elif not is_same(old, new):
            made[name] = rebase(raw.get(name), old, new)
    return made


def _rebased_items(raw: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    """Return the new items, each with the unknown fields of the old item that it was."""
    free = dict.fromkeys(range(len(before)))
    origins: dict[int, int] = {}

    def find(is_origin: Callable[[Any, Any], bool], *, at_same_place: bool) -> None:
        for index, item in enumerate(after):
            if index not in origins:
                places = (index,) if at_same_place else free
                found = next((old for old in places if old in free and is_origin(before[old], item)), None)
                if found is not None:
                    origins[index] = found
                    del free[found]

    # Nearly all items are unchanged and at their place; what has moved or changed is known by its name.
    find(is_same, at_same_place=True)
    find(is_same, at_same_place=False)
    find(_is_same_item, at_same_place=False)
    find(_has_no_name, at_same_place=True)
    return [
        rebase(raw[origins[index]], before[origins[index]], item) if index in origins else item
        for index, item in enumerate(after)
    ]


def _is_same_item(old: Any, new: Any) -> bool:
    key = _item_key(old)
    return key is not None and key == _item_key(new)


def _has_no_name(old: Any, new: Any) -> bool:
    return isinstance(old, dict) and isinstance(new, dict) and _item_key(old) is None and _item_key(new) is None


def _item_key(item: Any) -> tuple[str, Any] | None:
    if not isinstance(item, dict):
        return None
    return next(((name, item[name]) for name in _ITEM_KEYS if isinstance(item.get(name), str)), None)


def json_patch(old: Any, new: Any) -> list[dict[str, Any]]:
    """Return the operations of the JSON patch that turns one plain value into another; empty when they are the same.

    A list that became shorter, or whose items have all moved, is replaced; of others, only the changed and added items
    are in the patch.

    Source: RFC 6902.
    """
    return list(_operations(old, new, ""))


def _operations(old: Any, new: Any, path: str) -> Iterator[dict[str, Any]]:
    if is_same(old, new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _field_operations(old, new, path)
    elif isinstance(old, list) and isinstance(new, list) and _keep_places(old, new):
        yield from _item_operations(old, new, path)
    else:
        yield {"op": "replace", "path": path, "value": new}


def _field_operations(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[dict[str, Any]]:
    for name in {**old, **new}:
        pointer = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in new:
            yield {"op": "remove", "path": pointer}
        elif name not in old:
            yield {"op": "add", "path": pointer, "value": new[name]}
        else:
            yield from _operations(old[name], new[name], pointer)


def _keep_places(old: Sequence[Any], new: Sequence[Any]) -> bool:
    """Return whether the items of a list are at their places, changed or not."""
    if not 0 < len(old) <= len(new):
        return False
    return len(old) == len(new) or any(is_same(*pair) for pair in zip(old, new, strict=False))


def _item_operations(old: Sequence[Any], new: Sequence[Any], path: str) -> Iterator[dict[str, Any]]:
    for index, (before, after) in enumerate(zip(old, new, strict=False)):
        yield from _operations(before, after, f"{path}/{index}")
    for item in new[len(old) :]:
        yield {"op": "add", "path": f"{path}/-", "value": item}


def is_same(old: Any, new: Any) -> bool:
    """Return whether two plain values are the same JSON: to Python, true is equal to 1."""
    return old is new or (old == new and encode(old) == encode(new))
