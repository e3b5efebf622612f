"""Functions of lists and maps: the extension for lists in version 3, sets, Kubernetes' own, and what macros need.

Source: github.com/google/cel-go/ext/{lists,sets,comprehensions}.go; k8s.io/apiserver/pkg/cel/library/lists.go.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from kcr_devcluster.apiserver.cel.libraries.operators import FUNCTIONS as OPERATORS
from kcr_devcluster.apiserver.cel.libraries.operators import as_shown, has_key, is_in
from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import Duration, EvaluationError, Uint, contains, equal, type_name

# A longer list costs more than an expression may.
_LONGEST = 1_000_000
_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_NUMBERS = ("int", "uint", "double")
_SUMMABLE: Mapping[str, Any] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
# The ids of two functions have the names that Protobuf has for types.
_LONG = {"duration": "google.protobuf.Duration", "timestamp": "google.protobuf.Timestamp"}
_ADD = {overload.parameters[0]: overload.call for overload in OPERATORS["_+_"] if len(set(overload.parameters)) == 1}


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    asked = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{asked}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{asked}, start index must be less than or equal to end index")
    if len(values) < end:
        raise EvaluationError(f"{asked}, list is length {len(values)}")
    return list(values[start:end])


def _flat(values: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    found: list[Any] = []
    for one in values:
        if isinstance(one, list) and depth:
            found += _flat(one, depth - 1)
        else:
            found.append(one)
    return found


def _range(count: int) -> list[int]:
    if count > _LONGEST:
        raise EvaluationError("operation cancelled: actual cost limit exceeded")
    return list(range(count))


def _distinct(values: list[Any]) -> list[Any]:
    if all(type(one) is str for one in values):
        return list(dict.fromkeys(values))
    found: list[Any] = []
    for one in values:
        if not contains(found, one):
            found.append(one)
    return found


def _sorted(values: list[Any], keys: list[Any]) -> list[Any]:
    if len(values) != len(keys):
        raise EvaluationError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got "
            f"{len(values)} and {len(keys)} elements respectively"
        )
    if not values:
        return values
    if (kind := type_name(keys[0])) not in _COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if any(type_name(key) != kind for key in keys):
        raise EvaluationError("list elements must have the same type")
    places = sorted(range(len(keys)), key=keys.__getitem__)
    return [values[place] for place in places]


def _contains_all(values: list[Any], wanted: list[Any]) -> bool:
    return all(is_in(one, values) for one in wanted)


def _are_equivalent(one: list[Any], other: list[Any]) -> bool:
    return _contains_all(one, other) and _contains_all(other, one)


def _intersect(one: list[Any], other: list[Any]) -> bool:
    return any(is_in(item, other) for item in one)


def _checked(values: Sequence[Any]) -> Sequence[Any]:
    """Return values that all have an order, though maybe not one with each other."""
    if all(type_name(one) in _COMPARABLE for one in values):
        return values
    raise EvaluationError("no such overload")


def _precedes(one: Any, other: Any) -> bool:
    """Return whether a value is less than another; values that cannot be compared are not."""
    kind, another = type_name(one), type_name(other)
    return bool((kind == another or (kind in _NUMBERS and another in _NUMBERS)) and one < other)


def _is_sorted(values: Sequence[Any]) -> bool:
    return not any(_precedes(other, one) for one, other in pairwise(_checked(values)))


def _extreme(name: str, is_better: Callable[[Any, Any], bool]) -> Callable[[Sequence[Any]], Any]:
    def call(values: Sequence[Any]) -> Any:
        if not values:
            raise EvaluationError(f"{name} called on empty list")
        found = values[0]
        for one in _checked(values):
            if is_better(one, found):
                found = one
        return found

    return call


_least = _extreme("min", _precedes)
_most = _extreme("max", lambda one, found: _precedes(found, one))


def _sum(kind: str, zero: Any) -> Overload:
    add = _ADD[kind]

    def call(values: Sequence[Any]) -> Any:
        total = zero
        for one in values:
            if type_name(one) != kind:
                raise EvaluationError("no such overload")
            total = add(total, one)
        return total

    return Overload(f"list_{kind}_sum_{kind}", kind, (f"list({kind})",), call)


def _index(values: Sequence[Any], wanted: Any) -> int:
    return next((place for place, one in enumerate(values) if equal(one, wanted)), -1)


def _last_index(values: Sequence[Any], wanted: Any) -> int:
    return next((place for place in range(len(values) - 1, -1, -1) if equal(values[place], wanted)), -1)


def _inserted(entries: Mapping[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if has_key(key, entries):
        raise EvaluationError(f"insert failed: key {as_shown(key)} already exists")
    return {**entries, key: value}


def _merged(entries: Mapping[Any, Any], more: Mapping[Any, Any]) -> Mapping[Any, Any]:
    for key, value in more.items():
        entries = _inserted(entries, key, value)
    return entries


_LIST, _MAP = "list(T)", "map(K, V)"


def _sets(name: str, call: Callable[[list[Any], list[Any]], bool]) -> tuple[Overload, ...]:
    return (Overload(f"list_sets_{name}_list", "bool", (_LIST, _LIST), call, False),)


FUNCTIONS: Functions = {
    "slice": (Overload("list_slice", _LIST, (_LIST, "int", "int"), _slice),),
    "flatten": (
        Overload("list_flatten", _LIST, (f"list({_LIST})",), _flat),
        Overload("list_flatten_int", "list(dyn)", ("list(dyn)", "int"), _flat),
    ),
    "lists.range": (Overload("lists_range", "list(int)", ("int",), _range, False),),
    "reverse": (Overload("list_reverse", _LIST, (_LIST,), lambda values: values[::-1]),),
    "distinct": (Overload("list_distinct", _LIST, (_LIST,), _distinct),),
    "sort": tuple(
        Overload(
            f"list_{_LONG.get(kind, kind)}_sort", f"list({kind})", (f"list({kind})",),
            lambda values: _sorted(values, values),
        )
        for kind in _COMPARABLE
    ),
    "@sortByAssociatedKeys": tuple(
        Overload(f"list_{_LONG.get(kind, kind)}_sortByAssociatedKeys", _LIST, (_LIST, f"list({kind})"), _sorted)
        for kind in _COMPARABLE
    ),
    "sets.contains": _sets("contains", _contains_all),
    "sets.equivalent": _sets("equivalent", _are_equivalent),
    "sets.intersects": _sets("intersects", _intersect),
    "isSorted": tuple(
        Overload(f"list_{kind}_is_sorted_bool", "bool", (f"list({kind})",), _is_sorted) for kind in _COMPARABLE
    ),
    "sum": tuple(_sum(kind, zero) for kind, zero in _SUMMABLE.items()),
    "min": tuple(Overload(f"list_{kind}_min_{kind}", kind, (f"list({kind})",), _least) for kind in _COMPARABLE),
    "max": tuple(Overload(f"list_{kind}_max_{kind}", kind, (f"list({kind})",), _most) for kind in _COMPARABLE),
    "indexOf": (Overload("list_a_index_of_int", "int", ("list(A)", "A"), _index),),
    "lastIndexOf": (Overload("list_a_last_index_of_int", "int", ("list(A)", "A"), _last_index),),
    "cel.@mapInsert": (
        Overload("@mapInsert_map_key_value", _MAP, (_MAP, "K", "V"), _inserted, False),
        Overload("@mapInsert_map_map", _MAP, (_MAP, _MAP), _merged, False),
    ),
}  # fmt: skip
