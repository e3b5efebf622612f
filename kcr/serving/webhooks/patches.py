"""JSON patches from raw object to raw object, so that fields without an attribute in a type survive.

A defaulter gets a typed value and returns another. Only the difference of the two reaches the object as the API server
sent it. So a field that the object lacks is not written when it holds the default of its class on both sides: such a
default belongs into the schema, where `kcr crd generate` writes it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kcr.api.equality import same_json

# By which the items of lists of objects are known, in the built-in kinds and most others.
_ITEM_KEYS = ("name", "key", "type", "uid")
_MISSING: Any = msgspec.UNSET

encode: Callable[[Any], bytes] = msgspec.json.Encoder(order="deterministic").encode


def rebase(raw: Any, before: Any, after: Any) -> Any:
    """Return `raw` with the changes that turn `before` into `after`; it is not mutated.

    Args:
        raw: The object as the API server sent it, in plain values.
        before: The part of it that a type knows, with the defaults of the type.
        after: The same, changed.
    """
    if same_json(before, after):
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
        elif not same_json(old, new):
            made[name] = rebase(raw.get(name), old, new)
    return made


def _rebased_items(raw: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    """Return the new items, each with the unknown fields of the old item that it was.

    A new item without an old one gets no unknown fields: none is better than those of another item.
    """
    origins = _same_items(before, after)
    free = set(range(len(before))).difference(origins.values())
    # A changed item is known by its name, where that is unique, or by its place where no item was added or removed.
    olds, news = _unique_keys(before), _unique_keys(after)
    places = {key: index for index, key in olds.items()}
    for index, item in enumerate(after):
        if index in origins:
            continue
        if index in news and news[index] in places:
            origin = places[news[index]]
        elif len(before) == len(after) and _item_key(before[index]) == _item_key(item):
            origin = index
        else:
            continue
        if origin in free:
            free.discard(origin)
            origins[index] = origin
    return [
        rebase(raw[origins[index]], before[origins[index]], item) if index in origins else item
        for index, item in enumerate(after)
    ]


def _same_items(before: list[Any], after: list[Any]) -> dict[int, int]:
    """Return for each new item that is an old one its old place: the same place, or the first that is left."""
    origins = {index: index for index, (old, new) in enumerate(zip(before, after, strict=False)) if same_json(old, new)}
    if len(origins) == len(after):
        return origins
    left: dict[bytes, list[int]] = {}
    for index in range(len(before) - 1, -1, -1):
        if index not in origins:
            left.setdefault(encode(before[index]), []).append(index)
    for index, item in enumerate(after):
        if index not in origins and (found := left.get(encode(item))):
            origins[index] = found.pop()
    return origins


def _unique_keys(items: list[Any]) -> dict[int, tuple[str, Any]]:
    """Return the keys of items by place: those that no other item has, as `key` of tolerations is not."""
    keys = {index: key for index, item in enumerate(items) if (key := _item_key(item)) is not None}
    counts = Counter(keys.values())
    return {index: key for index, key in keys.items() if counts[key] == 1}


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
    if same_json(old, new):
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
    if not 0 < len(old) <= len(new):
        return False
    return len(old) == len(new) or any(same_json(*pair) for pair in zip(old, new, strict=False))


def _item_operations(old: Sequence[Any], new: Sequence[Any], path: str) -> Iterator[dict[str, Any]]:
    for index, (before, after) in enumerate(zip(old, new, strict=False)):
        yield from _operations(before, after, f"{path}/{index}")
    for item in new[len(old) :]:
        yield {"op": "add", "path": f"{path}/-", "value": item}
