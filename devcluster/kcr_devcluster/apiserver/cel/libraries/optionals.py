"""Optional values: how they are made, and what may be asked of them.

Source: github.com/google/cel-go/cel/library.go, OptionalTypes; interpreter/attributes.go.
"""

from collections.abc import Sequence
from typing import Any

from kcr_devcluster.apiserver.cel.libraries.operators import has_key, place_of
from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import NONE, EvaluationError, Optional, Timestamp

_YEAR_ONE = Timestamp(-62_135_596_800 * 10**9)


def _of(value: Any) -> Optional:
    return Optional(True, value)


def _of_non_zero(value: Any) -> Optional:
    is_zero = value == _YEAR_ONE if isinstance(value, Timestamp) else not isinstance(value, tuple) and not value
    return NONE if is_zero else Optional(True, value)


def _value(given: Optional) -> Any:
    if not given.has_value:
        raise EvaluationError("optional.none() dereference")
    return given.content


def _or(given: Optional, other: Optional) -> Optional:
    return given if given.has_value else other


def _or_value(given: Optional, other: Any) -> Any:
    return given.content if given.has_value else other


def optional_at(values: Any, key: Any) -> Optional:
    """Return an item of a list or the value of a key as an optional value, none where there is no such place or key.

    Args:
        values: The list or the map; anything else has none.
        key: The place or the key.

    Raises:
        EvaluationError: The key is no place in a list.
    """
    if isinstance(values, list):
        return Optional(True, values[place]) if 0 <= (place := place_of(key)) < len(values) else NONE
    return Optional(True, values[key]) if isinstance(values, dict) and has_key(key, values) else NONE


def _at_inside(given: Optional, key: Any) -> Optional:
    return optional_at(given.content, key) if given.has_value else NONE


def _first(values: Sequence[Any]) -> Optional:
    return Optional(True, values[0]) if values else NONE


def _last(values: Sequence[Any]) -> Optional:
    return Optional(True, values[-1]) if values else NONE


def _unwrapped(values: Sequence[Optional]) -> list[Any]:
    return [one.content for one in values if one.has_value]


_OPTIONAL, _LIST, _MAP = "optional_type(V)", "list(V)", "map(K, V)"
_WRAPPED_LIST, _WRAPPED_MAP, _OPTIONALS = f"optional_type({_LIST})", f"optional_type({_MAP})", f"list({_OPTIONAL})"


def _select(given: Any, name: str) -> Optional:
    return optional_at(given.content if isinstance(given, Optional) else given, name)


FUNCTIONS: Functions = {
    "optional.of": (Overload("optional_of", _OPTIONAL, ("V",), _of, False),),
    "optional.ofNonZeroValue": (Overload("optional_ofNonZeroValue", _OPTIONAL, ("V",), _of_non_zero, False),),
    "optional.none": (Overload("optional_none", _OPTIONAL, (), lambda: NONE, False),),
    "value": (Overload("optional_value", "V", (_OPTIONAL,), _value),),
    "hasValue": (Overload("optional_hasValue", "bool", (_OPTIONAL,), lambda given: given.has_value),),
    "or": (Overload("optional_or_optional", _OPTIONAL, (_OPTIONAL, _OPTIONAL), _or),),
    "orValue": (Overload("optional_orValue_value", "V", (_OPTIONAL, "V"), _or_value),),
    "_?._": (Overload("select_optional_field", _OPTIONAL, ("dyn", "string"), _select, False),),
    "_[?_]": (
        Overload("list_optindex_optional_int", _OPTIONAL, (_LIST, "int"), optional_at, False),
        Overload("optional_list_optindex_optional_int", _OPTIONAL, (_WRAPPED_LIST, "int"), _at_inside, False),
        Overload("map_optindex_optional_value", _OPTIONAL, (_MAP, "K"), optional_at, False),
        Overload("optional_map_optindex_optional_value", _OPTIONAL, (_WRAPPED_MAP, "K"), _at_inside, False),
    ),
    "_[_]": (
        Overload("optional_list_index_int", _OPTIONAL, (_WRAPPED_LIST, "int"), _at_inside, False),
        Overload("optional_map_index_value", _OPTIONAL, (_WRAPPED_MAP, "K"), _at_inside, False),
    ),
    "first": (Overload("list_first", _OPTIONAL, (_LIST,), _first),),
    "last": (Overload("list_last", _OPTIONAL, (_LIST,), _last),),
    "optional.unwrap": (Overload("optional_unwrap", _LIST, (_OPTIONALS,), _unwrapped, False),),
    "unwrapOpt": (Overload("optional_unwrapOpt", _LIST, (_OPTIONALS,), _unwrapped),),
}  # fmt: skip
