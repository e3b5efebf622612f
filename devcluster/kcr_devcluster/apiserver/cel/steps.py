"""The steps of an evaluation: each is a function of the frame.

A frame is a list: the cost that is left, then the variables. What fails raises `EvaluationError`, and logical operators
look whether the result is known without it.

Source: github.com/google/cel-spec/doc/langdef.md, "Runtime Errors" and "Logical Operators".
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.cel.checker import Declaration
from kcr_devcluster.apiserver.cel.types import CelType
from kcr_devcluster.apiserver.cel.values import NONE, EvaluationError, Optional, equal, type_name

# Source: kubernetes/staging/src/k8s.io/apiserver/pkg/apis/cel/config.go, PerCallLimit.
COST_LIMIT = 1_000_000
OVER_BUDGET = "operation cancelled: actual cost limit exceeded"

Frame = list[Any]
Step = Callable[[Frame], Any]

NO_OVERLOAD = "no such overload"
# Types of Kubernetes: their values compare with their like only.
_OWN_TYPES = ("kubernetes.", "net.")
_UNGUARDED = frozenset({"flatten", "sort", "@sortByAssociatedKeys"})
_INDICES = frozenset({"_[_]", "_[?_]"})
# Functions of Kubernetes, whose errors name the types of the arguments.
_OF_KUBERNETES = frozenset({
    "quantity", "isQuantity", "semver", "isSemver", "url", "isURL", "ip", "isIP", "cidr", "isCIDR", "find", "findAll",
})  # fmt: skip
# The class of a value that is not what its schema says: JSON has one type of numbers, and texts may be no moments.
_UNLIKE: Mapping[str, tuple[type, str]] = {
    "int": (float, "invalid data, expected int, got float64"),
    "timestamp": (str, "Invalid date-time formatted string {0}: parsing time {0!r}"),
    "duration": (str, "Invalid duration {0}: unable to parse {0} as duration"),
}

_NO_MAP = "invalid data, expected a map for the provided schema with type=object"
_CONTAINERS: Mapping[str, tuple[type, str]] = {
    "struct": (dict, _NO_MAP), "map": (dict, _NO_MAP),
    "list": (list, "invalid data, expected an array for the provided schema with type=array"),
}  # fmt: skip


class CostExceededError(Exception):
    """An evaluation took too long."""


class Failed(NamedTuple):
    """An accumulator that has no value."""

    error: EvaluationError


def pay(frame: Frame, cost: int) -> None:
    """Take a cost from what is left.

    Raises:
        CostExceededError: Nothing is left.
    """
    frame[0] -= cost
    if frame[0] < 0:
        raise CostExceededError(OVER_BUDGET)


def attempt(step: Step, frame: Frame) -> Any:
    """Return the value of a step, or `Failed` with its error."""
    try:
        return step(frame)
    except EvaluationError as error:
        return Failed(error)


def logical(left: Step, right: Step, *, decides: bool) -> Step:
    """Return `||` or `&&`, for which a part that fails, or is no bool, matters only where the other does not decide.

    Args:
        left: The first part.
        right: The second one.
        decides: True for `||`, false for `&&`.
    """

    def run(frame: Frame) -> bool:
        try:
            one = left(frame)
        except EvaluationError as error:
            if attempt(right, frame) is decides:
                return bool(decides)
            raise error from None
        if one is decides:
            return bool(decides)
        other = right(frame)
        if other is decides:
            return bool(decides)
        if one is not (not decides) or other is not (not decides):
            raise EvaluationError(NO_OVERLOAD)
        return not decides

    return run


def choice(condition: Step, one: Step, other: Step) -> Step:
    """Return `?:`.

    Args:
        condition: Which of them is taken.
        one: The value where it holds.
        other: The value where it does not.
    """

    def run(frame: Frame) -> Any:
        found = condition(frame)
        if found is True:
            return one(frame)
        if found is False:
            return other(frame)
        raise EvaluationError(NO_OVERLOAD)

    return run


def not_strictly_false(step: Step) -> Step:
    """Return whether a step is anything but false, an error included."""

    def run(frame: Frame) -> bool:
        try:
            return step(frame) is not False
        except EvaluationError:
            return True

    return run


def equals(one: Any, other: Any) -> bool:
    """Return `==` of two values of which at least one has a type that is not known before."""
    kind = type_name(one)
    if kind.startswith(_OWN_TYPES) and kind != type_name(other):
        raise EvaluationError(NO_OVERLOAD)
    return equal(one, other)


def _missing(name: object) -> EvaluationError:
    return EvaluationError(f"no such key: {name}")


def selection(operand: Step, name: str, shown: str, of: CelType, *, keeps_null: bool) -> Step:
    """Return `operand.name`, which fails where the value is not what its schema says.

    Args:
        operand: The object.
        name: The field in values.
        shown: The field in the expression.
        of: The type of the field.
        keeps_null: Whether null is a value there, not a missing field.
    """
    wrong, words = _UNLIKE.get(of.kind, (None, ""))

    def run(frame: Frame) -> Any:
        value = operand(frame)
        if not isinstance(value, dict):
            raise _missing(shown)
        try:
            found = value[name]
        except KeyError:
            raise _missing(shown) from None
        if found is None and not keeps_null:
            raise _missing(shown)
        if found.__class__ is wrong:
            raise EvaluationError(words.format(found))
        return found

    return run


def alike(step: Step, of: CelType) -> Step:
    """Return the step of an item or entry, which fails where the value is not what its schema says."""
    if of.kind not in _UNLIKE:
        return step
    wrong, words = _UNLIKE[of.kind]

    def run(frame: Frame) -> Any:
        found = step(frame)
        if found.__class__ is wrong:
            raise EvaluationError(words.format(found))
        return found

    return run


def presence(operand: Step, name: str, of: CelType, *, keeps_null: bool) -> Step:
    """Return `has(operand.name)`.

    Args:
        operand: The object.
        name: The field in values.
        of: The type of the field.
        keeps_null: Whether null is a value there, not a missing field.
    """
    wanted, words = _CONTAINERS.get(of.kind, (object, ""))

    def run(frame: Frame) -> bool:
        value = operand(frame)
        if not isinstance(value, dict):
            raise EvaluationError(NO_OVERLOAD)
        if keeps_null:
            return name in value
        found = value.get(name)
        if found is not None and not isinstance(found, wanted):
            raise EvaluationError(words)
        return found is not None

    return run


def optional_of(value: Any) -> Optional:
    """Return a value that has to be an optional one.

    Raises:
        EvaluationError: It is another one.
    """
    if not isinstance(value, Optional):
        raise EvaluationError(NO_OVERLOAD)
    return value


def optional_selection(operand: Step, name: str, *, keeps_null: bool, is_test: bool) -> Step:
    """Return `operand.?name`, or `has()` of a field of an optional value.

    Args:
        operand: The object, or an optional one.
        name: The field in values.
        keeps_null: Whether null is a value there, not a missing field.
        is_test: Whether it is `has()`.
    """

    def run(frame: Frame) -> Any:
        value = operand(frame)
        if isinstance(value, Optional):
            if not value.has_value:
                return False if is_test else NONE
            value = value.content
        if not isinstance(value, dict):
            raise EvaluationError(NO_OVERLOAD)
        is_there = name in value and (keeps_null or value[name] is not None)
        if is_test:
            return is_there
        return Optional(True, value[name]) if is_there else NONE

    return run


def direct_call(call: Callable[..., Any], steps: list[Step]) -> Step:
    """Return the call of a function whose arguments are of its types."""
    match steps:
        case [one]:
            return lambda frame: call(one(frame))
        case [one, other]:
            return lambda frame: call(one(frame), other(frame))
    return lambda frame: call(*[step(frame) for step in steps])


def is_certain(given: CelType, wanted: CelType) -> bool:
    """Return whether values of a type surely are what an overload takes.

    Args:
        given: The type of the values.
        wanted: That of the parameter.
    """
    if wanted.kind in ("param", "dyn"):
        return True
    if given.kind in ("dyn", "null_type", "error"):
        return False
    return all(map(is_certain, given.parameters, wanted.parameters))


def dispatched_call(function: str, candidates: Sequence[Declaration], steps: list[Step]) -> Step:
    """Return the call of the overload that takes the values.

    Args:
        function: The name of the function.
        candidates: Its overloads, in the order in which they are tried.
        steps: The arguments.
    """
    # Upstream does not look into the lists that these functions take.
    fits = _is_of_kind if function in _UNGUARDED else _fits

    # Any index may be asked for: the function says what is wrong with it.
    is_index = function in _INDICES

    def run(frame: Frame) -> Any:
        values = [step(frame) for step in steps]
        for one in candidates:
            if all(map(fits, values, one.parameters)) or (is_index and _is_of_kind(values[0], one.parameters[0])):
                return one.overload.call(*values)
        raise EvaluationError(_no_overload(function, values))

    return run


def _no_overload(function: str, values: Sequence[Any]) -> str:
    if function == "_[_]" and not isinstance(values[0], list | dict):
        return str(_missing(values[1]))
    if function == "size":
        return f"{NO_OVERLOAD}: size"
    if function in _OF_KUBERNETES:
        return f"{NO_OVERLOAD}: {function}({', '.join(map(type_name, values))})"
    return NO_OVERLOAD


def _fits(value: Any, wanted: CelType) -> bool:
    """Return whether a value is what an overload takes; of lists and maps, the first items tell."""
    if wanted.kind in ("param", "dyn"):
        return True
    kind = type_name(value)
    if wanted.kind == "list":
        return kind == "list" and (not value or _fits(value[0], wanted.parameters[0]))
    if wanted.kind == "map":
        if not isinstance(value, dict):
            return False
        first = next(iter(value.items()), None)
        return first is None or all(map(_fits, first, wanted.parameters))
    return kind == (wanted.name or wanted.kind)


def _is_of_kind(value: Any, wanted: CelType) -> bool:
    return wanted.kind == "param" or type_name(value) == (wanted.name or wanted.kind)
