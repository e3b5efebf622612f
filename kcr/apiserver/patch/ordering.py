"""The order of a merged list.

Items that the patch names keep the patch's order, the others that of the live list. The two are laid into
each other: an item of the live list goes before one of the patch only where it was before it already.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go, normalizeElementOrder.
"""

from typing import Any


def interleave(merged: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """Return the merged items in order.

    Args:
        merged: All items.
        order: The items of the patch, or the order it asks for.
        live: The list before the patch.
        key: The member that names an item; `""` for plain values.
    """
    wanted, before = _places(order, key), _places(live, key)
    named = sorted((item for item in merged if _name(item, key) in wanted), key=lambda item: wanted[_name(item, key)])
    others = [item for item in merged if _name(item, key) not in wanted]
    others.sort(key=lambda item: before.get(_name(item, key), len(before)))
    result: list[Any] = []
    for item in others:
        place = before.get(_name(item, key))
        while named and not _precedes(place, before.get(_name(named[0], key))):
            result.append(named.pop(0))
        result.append(item)
    return result + named


def _precedes(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other


def _places(items: list[Any], key: str) -> dict[Any, int]:
    return {_name(item, key): position for position, item in reversed(list(enumerate(items)))}


def _name(item: Any, key: str) -> Any:
    name = item.get(key) if isinstance(item, dict) else item
    return str(name) if isinstance(name, dict | list) else name
