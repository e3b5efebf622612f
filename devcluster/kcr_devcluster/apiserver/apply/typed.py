"""Values as server-side apply sees them: which parts of a value are owned by themselves, and by which path elements.

The schema says it: an object with fields and a map are granular unless they are atomic, a list is atomic unless its
items are identified by keys or by their value. Parts without a schema are deduced from the value: maps are granular,
lists atomic.

Source: sigs.k8s.io/structured-merge-diff, typed/{helpers,tofieldset,compare,validate}.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.apply.fieldpath import (
    LEAF,
    FieldSet,
    field_element,
    key_element,
    shown,
    value_element,
)
from kcr_devcluster.apiserver.schema.scalars import ANY, SCALARS
from kcr_devcluster.apiserver.schema.shape import ABSENT, Field, Shape, Type

UNTYPED = Field(ANY)
_NUMBER = "expected numeric (int or float), got {type}"
# The Python types and the error of a scalar type, by the type's names in the schemas of built-in and of custom kinds.
_SCALARS: Mapping[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("string", "[]uint8"), ((str,), "expected string, got &value.valueUnstructured{{Value:{value}}}")),
    **dict.fromkeys(("bool", "boolean"), ((bool,), "expected boolean, got &{{{value}}}")),
    **dict.fromkeys(("int32", "int64", "float64", "integer", "number"), ((int, float), _NUMBER)),
}
_GO_TYPES = {
    str: "string", bool: "bool", int: "int64", float: "float64", dict: "map[string]interface {}",
    list: "[]interface {}",
}  # fmt: skip


class Part(NamedTuple):
    """A part of a value that is owned by itself.

    Attributes:
        element: Its path element.
        field: Its schema.
        value: The part.
        is_named: Whether a schema names it, unlike the entries of maps and the items of lists.
    """

    element: str
    field: Field
    value: Any
    is_named: bool = False


def parts(field: Field, value: Any) -> list[Part] | None:
    """Return the parts of a granular value in their order, None for one that is owned as a whole.

    A list whose items cannot be identified is owned as a whole; `faults` refuses it in applied values.
    """
    if type(value) not in (dict, list) or is_atomic(field, value):
        return None
    try:
        return _members(field, value)
    except ValueError:
        return None


def is_atomic(field: Field, value: Any) -> bool:
    """Return whether an object or a list is owned and replaced as a whole."""
    if type(value) is dict:
        return field.map_type == "atomic" or (field.type.shape is not None and field.type.shape.is_atomic)
    return field.list_type == "atomic"


def _members(field: Field, value: Any) -> list[Part]:
    """Return the members of an object or a list, atomic or not.

    Raises:
        ValueError: The item of a list cannot be identified.
    """
    shape, inner = field.type.shape, Field(field.type.items or ANY)
    if type(value) is list:
        return [Part(_list_element(field, inner, position, one), inner, one) for position, one in enumerate(value)]
    if type(value) is not dict:
        return []
    if shape is None:
        return [Part(field_element(name), inner, one) for name, one in value.items()]
    known = shape.fields
    return [Part(field_element(name), known.get(name, UNTYPED), one, name in known) for name, one in value.items()]


def _list_element(field: Field, inner: Field, position: int, item: Any) -> str:
    if field.list_type == "atomic":
        return f"i:{position}"
    if field.list_type == "set":
        if isinstance(item, list):
            raise ValueError(f"element {position}: not supported: associative list with lists as elements")
        if isinstance(item, dict | None):
            found = "an explicit null" if item is None else "a map type"
            raise ValueError(f"element {position}: associative list without keys has an element that's {found}")
        return value_element(item)
    if not isinstance(item, dict):
        found = "a null element" if item is None else "non-map elements"
        raise ValueError(f"element {position}: associative list with keys may not have {found}")
    keys = {name: found for name in field.list_map_keys if (found := _key(inner, item, name)) is not ABSENT}
    if not keys:
        names = " ".join(f'"{name}"' for name in field.list_map_keys)
        raise ValueError(
            f"element {position}: associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return key_element(keys)


def _key(inner: Field, item: dict[str, Any], name: str) -> Any:
    known = inner.type.field(name)
    if name in item or known is None:
        return item.get(name, ABSENT)
    # The published schema has an empty text as the default of each text that a built-in type requires.
    is_text = known.required and known.type is SCALARS["string"]
    return "" if is_text and known.default is ABSENT else known.default


def unique_parts(field: Field, value: Any) -> dict[str, Part] | None:
    """Return the parts of a granular value by their path elements; items that repeat one are a single atomic part."""
    found = parts(field, value)
    if found is None:
        return None
    by_element = {part.element: part for part in found}
    if len(by_element) < len(found):
        repeated: dict[str, list[Any]] = {}
        for part in found:
            repeated.setdefault(part.element, []).append(part.value)
        for element, items in repeated.items():
            if len(items) > 1:
                by_element[element] = Part(element, UNTYPED, items)
    return by_element


def field_set(field: Field, value: Any) -> FieldSet:
    """Return the paths that a manager owns by applying a value: its leaves, entries and items."""
    found = unique_parts(field, value)
    if found is None:
        return LEAF
    result: FieldSet = {}
    for part in found.values():
        inner = field_set(part.field, part.value)
        if not part.is_named or part.value == {}:
            inner = {**inner, **LEAF}
        if inner:
            result[part.element] = inner
    return result


def all_paths(field: Field, value: Any) -> FieldSet:
    """Return every path that there is in a value, those of objects and lists that have parts included."""
    found = unique_parts(field, value) or {}
    return {part.element: _with_all_paths(part) for part in found.values()}


def _with_all_paths(part: Part) -> FieldSet:
    return {**LEAF, **all_paths(part.field, part.value)} if isinstance(part.value, dict | list) else LEAF


class Comparison(NamedTuple):
    """The paths in which two values differ.

    Attributes:
        touched: Those that the second has and the first has not, or with another value.
        removed: Those that only the first has.
    """

    touched: FieldSet
    removed: FieldSet


def compare(field: Field, old: Any, new: Any) -> Comparison:
    """Return the paths in which two objects, or two lists, differ."""
    was, now = unique_parts(field, old) or {}, unique_parts(field, new) or {}
    touched: FieldSet = {}
    removed: FieldSet = {}
    for element, part in now.items():
        before = was.get(element)
        if before is None:
            touched[element] = _with_all_paths(part)
        elif not same_json(before.value, part.value):
            inner = _compare_parts(before, part)
            if inner.touched:
                touched[element] = inner.touched
            if inner.removed:
                removed[element] = inner.removed
    for element, part in was.items():
        if element not in now:
            removed[element] = _with_all_paths(part)
    return Comparison(touched, removed)


def _compare_parts(before: Part, part: Part) -> Comparison:
    was, now = parts(before.field, before.value), parts(part.field, part.value)
    # Null is an empty object or list, as the other side has it.
    granular = (was is not None or before.value is None) and (now is not None or part.value is None)
    if granular and (was or now):
        return compare(part.field, before.value, part.value)
    return Comparison(_with_all_paths(part), all_paths(before.field, before.value))


def faults(field: Field, value: Any, path: str = "") -> Iterator[str]:
    """Yield the schema errors of a value to apply, such as `.spec.foo: field not declared in schema`."""
    if value is None:
        return
    if why := _type_fault(field.type, value):
        yield f"{path}: {why}" if path else why
        return
    try:
        found = _members(field, value)
    except ValueError as error:
        yield f"{path}: {error}"
        return
    seen: set[str] = set()
    for part in found:
        here = path + shown(part.element)
        if not part.is_named and _is_unknown(field.type.shape, part):
            yield f"{here}: field not declared in schema"
        else:
            yield from faults(part.field, part.value, here)
        if part.element in seen:
            yield f"{path}: duplicate entries for key {shown(part.element)}"
        seen.add(part.element)


def nulls(field: Field, value: Any, path: str = "") -> Iterator[tuple[str, Type]]:
    """Yield the paths of nulls that their schemas do not allow, and that no default replaces, with the types."""
    shape = field.type.shape
    if type(value) is list:
        for position, one in enumerate(value):
            yield from nulls(Field(field.type.items or ANY), one, f"{path}[{position}]")
    elif type(value) is dict:
        for name, one in value.items():
            here = f"{path}.{name}" if path else name
            inner = field.type.field(name)
            if inner is None:
                continue
            allowed = inner.keeps_null or inner.default is not ABSENT
            if one is not None:
                yield from nulls(inner, one, here)
            elif not allowed and (shape is not None or not field.type.conform({name: None})):
                yield here, inner.type


def _is_unknown(shape: Shape | None, part: Part) -> bool:
    """Return whether a shape neither names a part nor keeps unnamed ones."""
    return shape is not None and any(shape.unknown({part.element[2:]: None}))


def _type_fault(of: Type, value: Any) -> str:
    """Return why a value does not have its type; `""` when it has, or when its type is not one of those known here."""
    if of.name in _SCALARS:
        types, words = _SCALARS[of.name]
        return "" if type(value) in types else words.format(value=_go(value), type=_GO_TYPES[type(value)])
    if of.name == "resource.Quantity" and type(value) in (dict, list):
        return f"expected any scalar, got &{{{_go(value)}}}"
    if of.shape is not None or of.name.startswith(("map[", "object")):
        return "" if type(value) is dict else f"expected map, got &{{{_go(value)}}}"
    if of.name.startswith(("[]", "array")):
        return "" if type(value) is list else f"expected list, got &{{{_go(value)}}}"
    return ""


def _go(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{_go(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go, value))}]"
    return "<nil>" if value is None else str(value)
