"""The operators and `size`: arithmetic, comparison, membership and indices.

The logical operators and equality are not here, for they are no functions: they do without some of their arguments.

Source: github.com/google/cel-go/common/stdlib/standard.go; common/types/{int,uint,double,overflow,compare,list,map}.go.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import (
    Duration,
    EvaluationError,
    MapList,
    SetList,
    Timestamp,
    Uint,
    contains,
    equal,
    type_name,
)
from kcr_devcluster.apiserver.protocol.gotexts import general

_LEAST, _MOST, _MOST_UNSIGNED = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
# Integers up to here are numbers with a fraction, too.
_EXACT = 1 << 53
_KEYS = frozenset({str, int, Uint, float, bool})


def _signed(number: int) -> int:
    if _LEAST <= number <= _MOST:
        return number
    raise EvaluationError("integer overflow")


def _unsigned(number: int) -> Uint:
    if 0 <= number <= _MOST_UNSIGNED:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def _quotient(one: int, other: int) -> int:
    if not other:
        raise EvaluationError("division by zero")
    size = abs(one) // abs(other)
    return _signed(size if (one < 0) == (other < 0) else -size)


def _unsigned_quotient(one: int, other: int) -> Uint:
    if not other:
        raise EvaluationError("division by zero")
    return Uint(one // other)


def _remainder(one: int, other: int) -> int:
    if not other:
        raise EvaluationError("modulus by zero")
    if one == _LEAST and other == -1:
        raise EvaluationError("integer overflow")
    size = abs(one) % abs(other)
    return -size if one < 0 else size


def _divided(one: float, other: float) -> float:
    if other:
        return one / other
    sign = math.copysign(1, one) * math.copysign(1, other)
    return math.nan if not one or math.isnan(one) else sign * math.inf


def _joined(one: list[Any], other: list[Any]) -> list[Any]:
    """Return two lists as one; a set gets what it lacks, and items of a map replace those with their keys."""
    if isinstance(one, SetList):
        found = SetList(one)
        for item in other:
            if not contains(found, item):
                found.append(item)
        return found
    if isinstance(one, MapList):
        return _merged(one, other)
    if not one or not other:
        return other or one
    return [*one, *other]


def _merged(one: MapList, other: list[Any]) -> MapList:
    found = MapList(one)
    found.keys = one.keys
    places = {tuple(item.get(name) for name in one.keys): place for place, item in enumerate(one)}
    for item in other:
        place = places.get(tuple(item.get(name) for name in one.keys))
        if place is None:
            found.append(item)
        else:
            found[place] = item
    return found


def is_in(wanted: Any, values: list[Any]) -> bool:
    """Return whether a value is an item of a list."""
    if type(wanted) is str:
        return wanted in values
    # What Python finds may be a boolean or a duration; what it does not find is not there.
    is_small = type(wanted) is int and -_EXACT < wanted < _EXACT
    return not (is_small and wanted not in values) and contains(values, wanted)


def has_key(wanted: Any, entries: Mapping[Any, Any]) -> bool:
    """Return whether a map has a key; numbers of other types are the same key."""
    if type(wanted) is str:
        return wanted in entries
    if type(wanted) not in _KEYS or wanted not in entries:
        return False
    # To Python, True is 1.
    return any(equal(key, wanted) for key in entries) if wanted in (0, 1) else True


def item_at(values: list[Any], index: Any) -> Any:
    """Return an item of a list.

    Args:
        values: The list.
        index: Its place, from 0 on.

    Raises:
        EvaluationError: There is no such place.
    """
    if 0 <= (place := place_of(index)) < len(values):
        return values[place]
    raise EvaluationError(f"index out of bounds: {place}")


def place_of(index: Any) -> int:
    """Return the place in a list that an index stands for, which may be a number of another type.

    Raises:
        EvaluationError: It stands for none.
    """
    if type(index) is int or (isinstance(index, Uint) and index <= _MOST):
        return int(index)
    if type(index) is float and index.is_integer() and _LEAST < index < _MOST:
        return int(index)
    if isinstance(index, float | Uint):
        raise EvaluationError(f"unsupported index value {as_shown(index)} in list")
    raise EvaluationError(f"unsupported index type '{type_name(index)}' in list")


def entry_at(entries: Mapping[Any, Any], key: Any) -> Any:
    """Return the value of a key.

    Raises:
        EvaluationError: The map has no such key.
    """
    if has_key(key, entries):
        return entries[key]
    raise EvaluationError(f"no such key: {as_shown(key)}")


def as_shown(value: Any) -> str:
    """Return a value as messages of cel-go show it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return general(value) if isinstance(value, float) else str(value)


_Test = Callable[[Any, Any], bool]


def _ordered(holds: _Test) -> _Test:
    """Return a comparison of numbers of which one at least has a fraction: integers become numbers like it."""

    def compare(one: Any, other: Any) -> bool:
        left, right = float(one), float(other)
        if math.isnan(left) or math.isnan(right):
            raise EvaluationError("NaN values cannot be ordered")
        return holds(left, right)

    return compare


_SHORT = {"int": "int64", "uint": "uint64"}
# Which types are compared with which.
_COMPARED = (
    ("bool", "bool"), ("int", "int"), ("int", "double"), ("int", "uint"), ("uint", "uint"), ("uint", "double"),
    ("uint", "int"), ("double", "double"), ("double", "int"), ("double", "uint"), ("string", "string"),
    ("bytes", "bytes"), ("timestamp", "timestamp"), ("duration", "duration"),
)  # fmt: skip


def _comparison(name: str, holds: _Test) -> tuple[Overload, ...]:
    def declared(one: str, other: str) -> Overload:
        types = [_SHORT.get(kind, kind) for kind in ((one,) if one == other else (one, other))]
        call = _ordered(holds) if "double" in (one, other) else holds
        return Overload("_".join([name, *types]), "bool", (one, other), call, False)

    return tuple(declared(*pair) for pair in _COMPARED)


def _binary(name: str, kind: str, call: Callable[[Any, Any], Any]) -> Overload:
    return Overload(name, kind, (kind, kind), call, False)


_SIZED = {"bytes": "bytes", "list": "list(A)", "map": "map(A, B)", "string": "string"}

FUNCTIONS: Functions = {
    "_+_": (
        _binary("add_bytes", "bytes", operator.add),
        _binary("add_double", "double", operator.add),
        _binary("add_duration_duration", "duration", lambda one, other: Duration.checked(int(one) + int(other))),
        Overload(
            "add_duration_timestamp", "timestamp", ("duration", "timestamp"),
            lambda one, other: Timestamp.checked(other.nanos + one, other.offset), False,
        ),
        Overload(
            "add_timestamp_duration", "timestamp", ("timestamp", "duration"),
            lambda one, other: Timestamp.checked(one.nanos + other, one.offset), False,
        ),
        _binary("add_int64", "int", lambda one, other: _signed(one + other)),
        _binary("add_list", "list(A)", _joined),
        _binary("add_string", "string", operator.add),
        _binary("add_uint64", "uint", lambda one, other: _unsigned(int(one) + int(other))),
    ),
    "_-_": (
        _binary("subtract_double", "double", operator.sub),
        _binary("subtract_duration_duration", "duration", lambda one, other: Duration.checked(int(one) - int(other))),
        _binary("subtract_int64", "int", lambda one, other: _signed(one - other)),
        Overload(
            "subtract_timestamp_duration", "timestamp", ("timestamp", "duration"),
            lambda one, other: Timestamp.checked(one.nanos + Duration.checked(-int(other)), one.offset), False,
        ),
        Overload(
            "subtract_timestamp_timestamp", "duration", ("timestamp", "timestamp"),
            lambda one, other: Duration.checked(one.nanos - other.nanos), False,
        ),
        _binary("subtract_uint64", "uint", lambda one, other: _unsigned(int(one) - int(other))),
    ),
    "_*_": (
        _binary("multiply_double", "double", operator.mul),
        _binary("multiply_int64", "int", lambda one, other: _signed(one * other)),
        _binary("multiply_uint64", "uint", lambda one, other: _unsigned(int(one) * int(other))),
    ),
    "_/_": (
        _binary("divide_double", "double", _divided),
        _binary("divide_int64", "int", _quotient),
        _binary("divide_uint64", "uint", lambda one, other: _unsigned_quotient(int(one), int(other))),
    ),
    "_%_": (
        _binary("modulo_int64", "int", _remainder),
        _binary("modulo_uint64", "uint", lambda one, other: Uint(_remainder(int(one), int(other)))),
    ),
    "-_": (
        Overload("negate_double", "double", ("double",), operator.neg, False),
        Overload("negate_int64", "int", ("int",), lambda one: _signed(-one), False),
    ),
    "!_": (Overload("logical_not", "bool", ("bool",), operator.not_, False),),
    "_<_": _comparison("less", operator.lt),
    "_<=_": _comparison("less_equals", operator.le),
    "_>_": _comparison("greater", operator.gt),
    "_>=_": _comparison("greater_equals", operator.ge),
    "@in": (
        Overload("in_list", "bool", ("A", "list(A)"), is_in, False),
        Overload("in_map", "bool", ("A", "map(A, B)"), has_key, False),
    ),
    "_[_]": (
        Overload("index_list", "A", ("list(A)", "int"), item_at, False),
        Overload("index_map", "B", ("map(A, B)", "A"), entry_at, False),
    ),
    "size": tuple(
        overload
        for name, kind in _SIZED.items()
        for overload in (
            Overload(f"size_{name}", "int", (kind,), len, False), Overload(f"{name}_size", "int", (kind,), len),
        )
    ),
}  # fmt: skip
