"""Strategic merge patch: a merge patch in which the schema says which lists merge, and by which key.

Directives: `$patch: replace|delete` in a map or an item, `$retainKeys`, `$deleteFromPrimitiveList/<list>`,
`$setElementOrder/<list>`. Items that the patch names keep the patch's order, the others that of the live list. The two
are interleaved: an item of the live list precedes one of the patch only where it did before.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/strategicpatch/patch.go.
"""

from typing import Any

from kcr_devcluster.apiserver.protocol.gojson import kind_of
from kcr_devcluster.apiserver.protocol.gotexts import formatted, go_type, printed
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError, bad_request, unprocessable
from kcr_devcluster.apiserver.schema.scalars import ANY
from kcr_devcluster.apiserver.schema.shape import Field, Shape, Type

_PATCH, _RETAIN = "$patch", "$retainKeys"
_DELETE_FROM, _ORDER = "$deleteFromPrimitiveList/", "$setElementOrder/"
# A field that no schema names: maps merge, lists are replaced.
_REPLACED = Field(ANY)


def strategic_patch(shape: Shape, target: Manifest, patch: Manifest) -> Manifest:
    """Return the target with the patch applied; neither is changed.

    Args:
        shape: The fields of the target, with the merge keys of lists.
        target: The object as it is.
        patch: The changes; null is none.

    Raises:
        StatusError: The patch is no object, or its directives are invalid.
    """
    if not isinstance(patch, dict | None):
        raise bad_request(f"json: cannot unmarshal {kind_of(patch)} into Go value of type map[string]interface {{}}")
    return _merge_map(target, _copied(patch or {}), shape.type)


def _copied(value: Any) -> Any:
    # Of JSON alone, which `deepcopy` takes four times as long for.
    if type(value) is dict:
        return {name: _copied(one) for name, one in value.items()}
    return [_copied(one) for one in value] if type(value) is list else value


def _merge_map(target: Manifest, patch: Manifest, of: Type) -> Manifest:
    if _PATCH in patch:
        return _replaced(patch)
    result = dict(target)
    _retain(result, patch)
    _apply_orders(result, patch, of)
    for name, value in patch.items():
        if name.startswith(_DELETE_FROM):
            _delete_plain(result, name.removeprefix(_DELETE_FROM), value)
        elif value is None:
            result.pop(name, None)
        else:
            result[name] = _merge_member(result.get(name), value, of.field(name) or _REPLACED)
    return result


def _replaced(patch: Manifest) -> Manifest:
    directive = patch[_PATCH]
    if directive not in ("replace", "delete"):
        raise _unknown(patch)
    del patch[_PATCH]
    return patch if directive == "replace" else {}


def _unknown(patch: Manifest) -> StatusError:
    return _failed(f"unknown patch type: {formatted(patch[_PATCH])} in map: {printed(patch)}")


def _failed(why: str) -> StatusError:
    return StatusError(500, "", why)


def _merge_member(target: Any, value: Any, field: Field) -> Any:
    if type(target) is not type(value):
        return _plain(value)
    if isinstance(value, dict):
        return value if field.is_replaced else _merge_map(target, value, field.type)
    if isinstance(value, list) and field.merge_key is not None:
        return _merge_list(target, value, field.merge_key, field.type.items or ANY)
    return value


def _merge_list(target: list[Any], patch: list[Any], key: str, of: Type) -> list[Any]:
    items = [*target, *patch]
    if not items:
        return []
    if isinstance(items[0], list):
        raise unprocessable()
    if any(type(item) is not type(items[0]) for item in items):
        raise _failed(f"list element types are not identical: {printed([target, patch])}")
    if not isinstance(items[0], dict):
        merged = list(dict.fromkeys(items))
        return interleave(merged, patch, target, key)
    if not key:
        raise _failed("cannot merge lists without merge key")
    if any(item.get(_PATCH) == "replace" for item in patch):
        return [_plain(item) for item in patch if _PATCH not in item]
    target, patch = _obey(target, patch, key)
    merged = list(target)
    positions = _positions(target, key)
    for item in patch:
        _key_of(item, key)
        name = _name(item, key)
        if name in positions:
            merged[positions[name]] = _merge_map(merged[positions[name]], item, of)
        else:
            positions[name] = len(merged)
            merged.append(_plain(item))
    return interleave(merged, patch, target, key)


def _obey(target: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Apply the items that are directives, and return the remaining items of the target and of the patch."""
    rest: list[Any] = []
    for item in patch:
        match item.get(_PATCH, ""):
            case "" if _PATCH not in item:
                rest.append(item)
            case "delete":
                name = _key_of(item, key)
                target = [one for one in target if one.get(key) != name]
            case "merge":
                raise _failed("merging lists cannot yet be specified in the patch")
            case _:
                raise _unknown(item)
    return target, rest


def _key_of(item: Manifest, key: str) -> Any:
    if key not in item:
        raise _failed(f"map: {printed(item)} does not contain declared merge key: {key}")
    return item[key]


def _retain(result: Manifest, patch: Manifest) -> None:
    if _RETAIN not in patch:
        return
    kept = patch.pop(_RETAIN)
    named = [name for name, value in patch.items() if value is not None and not name.startswith((_DELETE_FROM, _ORDER))]
    if not isinstance(kept, list) or not all(name in kept for name in named):
        raise bad_request("invalid patch format of retainKeys")
    for name in [name for name in result if name not in kept]:
        del result[name]


def _delete_plain(result: Manifest, name: str, values: Any) -> None:
    # What is no list is another type than the list's, and ignored.
    if isinstance(result.get(name), list) and isinstance(values, list):
        result[name] = [value for value in result[name] if value not in values]


def _apply_orders(result: Manifest, patch: Manifest, of: Type) -> None:
    """Merge the lists whose order the patch gives, and take them out of the patch."""
    for directive in [name for name in patch if name.startswith(_ORDER)]:
        order, name = patch.pop(directive), directive.removeprefix(_ORDER)
        live, wanted = result.get(name), patch.pop(name, None)
        for one in (order, [] if live is None else live, [] if wanted is None else wanted):
            if not isinstance(one, list):
                raise _failed(f"expected a []interface {{}}, but received a {go_type(one)}")
        field = of.field(name)
        if field is None:
            struct = of.name if of.shape is None else of.shape.short_name
            raise _failed(f'unable to find api field in struct {struct} for the json field "{name}"')
        key = field.merge_key or ""
        _check_order(order, wanted or [], key)
        plain = patch.pop(_DELETE_FROM + name, None)
        if plain is not None:
            _delete_plain(result, name, plain)
            live = result.get(name)
        if live is None and wanted is None:
            continue
        merged = (live if wanted is None else _merge_member(live, wanted, field)) or []
        if key and merged:
            _check_named(order, key)
        result[name] = interleave(merged, order, live or [], key)


def _check_named(order: list[Any], key: str) -> None:
    for position, item in enumerate(order):
        if not isinstance(item, dict):
            raise _failed(f"value for key {position} is not a map")
        _key_of(item, key)


def _check_order(order: list[Any], items: list[Any], key: str) -> None:
    """Refuse items of the patch that the order does not name in the same sequence."""
    if not order:
        return
    named = iter([_name(item, key) for item in order])
    for item in items:
        if isinstance(item, dict) and _PATCH in item:
            continue
        if _name(item, key) not in named:
            words = f"The order in patch list:\n{printed(items)}\n doesn't match $setElementOrder list:\n"
            raise _failed(f"{words}{printed(order)}\n")


def _plain(value: Any) -> Any:
    """Return a value of the patch as it is stored: without nulls and directives."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if one is not None and not _is_directive(name)}
    if isinstance(value, list):
        return [_plain(one) for one in value if not (isinstance(one, dict) and one.get(_PATCH) is not None)]
    return value


def _is_directive(name: str) -> bool:
    return name in (_PATCH, _RETAIN) or name.startswith((_DELETE_FROM, _ORDER))


def interleave(merged: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """Return the merged items in order.

    Args:
        merged: All items.
        order: The items of the patch, or the order it asks for.
        live: The list before the patch.
        key: The member that names an item; `""` for plain values.
    """
    wanted, before = _positions(order, key), _positions(live, key)
    named = sorted((item for item in merged if _name(item, key) in wanted), key=lambda item: wanted[_name(item, key)])
    others = [item for item in merged if _name(item, key) not in wanted]
    others.sort(key=lambda item: before.get(_name(item, key), len(before)))
    result: list[Any] = []
    for item in others:
        position = before.get(_name(item, key))
        while named and not _precedes(position, before.get(_name(named[0], key))):
            result.append(named.pop(0))
        result.append(item)
    return result + named


def _precedes(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one < other


def _positions(items: list[Any], key: str) -> dict[Any, int]:
    return {_name(item, key): position for position, item in reversed(list(enumerate(items)))}


def _name(item: Any, key: str) -> Any:
    name = item.get(key) if isinstance(item, dict) else item
    # 1 and 1.0 are not the same name.
    return type(name), str(name) if isinstance(name, dict | list) else name
