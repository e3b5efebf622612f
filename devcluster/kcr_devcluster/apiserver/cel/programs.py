"""Evaluation: a checked expression becomes a function of Python, of the values of its variables.

A frame is a list: the cost that is left, then the variables. What fails raises `EvaluationError`, and logical operators
and macros look whether the result is known without it.

Source: github.com/google/cel-spec/doc/langdef.md, "Runtime Errors" and "Logical Operators".
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.cel.checker import Checked, Declaration, declarations, receiver_first
from kcr_devcluster.apiserver.cel.declared import DeclaredTypes
from kcr_devcluster.apiserver.cel.syntax import (
    Call,
    CompilationError,
    Comprehension,
    Constant,
    Entry,
    Ident,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
)
from kcr_devcluster.apiserver.cel.types import DYN, TYPE_NAMES, CelType, unwrapped
from kcr_devcluster.apiserver.cel.values import (
    NONE,
    EvaluationError,
    Object,
    Optional,
    Type,
    equal,
    type_name,
)

# Source: kubernetes/staging/src/k8s.io/apiserver/pkg/apis/cel/config.go, PerCallLimit.
COST_LIMIT = 1_000_000
OVER_BUDGET = "operation cancelled: actual cost limit exceeded"

Frame = list[Any]
Step = Callable[[Frame], Any]

NO_OVERLOAD = "no such overload"
# Types of Kubernetes: their values compare with their like only.
_OWN_TYPES = ("kubernetes.", "net.")
# Types that Python compares as CEL does.
_PLAIN = frozenset({"int", "string", "bool", "bytes", "timestamp", "duration", "double"})
# Functions that are called when a program is made, where their argument is a literal.
_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"})
_UNGUARDED = frozenset({"flatten", "sort", "@sortByAssociatedKeys"})
_INDICES = frozenset({"_[_]", "_[?_]"})
NO_PROGRAM = "program instantiation failed: "
# Functions of Kubernetes, whose errors name the types of the arguments.
_OF_KUBERNETES = frozenset({
    "quantity", "isQuantity", "semver", "isSemver", "url", "isURL", "ip", "isIP", "cidr", "isCIDR", "find", "findAll",
})  # fmt: skip
_GO_TYPES: Mapping[str, str] = {
    "int": "Int", "uint": "Uint", "double": "Double", "bool": "Bool", "string": "String", "bytes": "Bytes",
    "null_type": "Null", "timestamp": "Timestamp", "duration": "Duration",
}  # fmt: skip
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


class _Failed(NamedTuple):
    """An accumulator that has no value."""

    error: EvaluationError


class _Unhashable:
    """A key that is a list or map: nothing finds its entry."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Program(NamedTuple):
    """An expression that can be evaluated.

    Attributes:
        run: The function of a frame.
        variables: The names of the variables, in the order of the frame.
        rest: What is in a frame behind the variables at first.
    """

    run: Step
    variables: tuple[str, ...]
    rest: tuple[None, ...]


class Plan:
    """The making of one program."""

    def __init__(
        self,
        checked: Checked,
        types: DeclaredTypes,
        slots: dict[str, int],
    ) -> None:
        self.size = len(slots) + 1
        self.checked, self._types, self._slots = checked, types, slots
        self._accumulators: frozenset[str] = frozenset()
        self._forms: Mapping[type, Callable[..., Step]] = {
            Constant: self._constant, Ident: self._ident, Select: self._select, Call: self._call,
            ListLiteral: self._list, MapLiteral: self._map, Comprehension: self._comprehension,
        }  # fmt: skip
        self._special: Mapping[str, Callable[[Call], Step]] = {
            "_&&_": lambda node: _logical(*self.steps(node.arguments), decides=False),
            "_||_": lambda node: _logical(*self.steps(node.arguments), decides=True),
            "_?_:_": lambda node: _choice(*self.steps(node.arguments)),
            "_==_": lambda node: self._equality(node, wanted=True),
            "_!=_": lambda node: self._equality(node, wanted=False),
            "@not_strictly_false": lambda node: _not_strictly_false(self.step(node.arguments[0])),
            "_?._": self._optional_select,
        }  # fmt: skip

    def step(self, node: Node) -> Step:
        """Return the function of a node."""
        return self._forms[type(node)](node)

    def steps(self, nodes: Sequence[Node]) -> list[Step]:
        """Return the functions of nodes whose values a call takes."""
        return [self.step(one) for one in nodes]

    def _type(self, node: Node) -> CelType:
        return self.checked.types[node.id]

    @staticmethod
    def _constant(node: Constant) -> Step:
        value = node.value
        return lambda _: value

    def _ident(self, node: Ident) -> Step:
        slot = self._slots.get(node.name)
        if slot is None:
            if node.name not in TYPE_NAMES:
                raise CompilationError(f"{NO_PROGRAM}reference to undefined type: {node.name}")
            of = TYPE_NAMES[node.name]
            named = Type(of.name or of.kind)
            return lambda _: named
        if node.name not in self._accumulators:
            step = operator.itemgetter(slot)
            return step if node.name in self.checked.environment.variables else _alike(step, self._type(node))

        def accumulated(frame: Frame) -> Any:
            value = frame[slot]
            if value.__class__ is _Failed:
                raise value.error
            return value

        return accumulated

    def _select(self, node: Select) -> Step:
        operand, (of, is_optional) = self.step(node.operand), unwrapped(self._type(node.operand))
        name, keeps_null = self._property(of, node.field)
        if is_optional:
            return _select_optional(operand, name, keeps_null=keeps_null, is_test=node.is_test)
        if node.is_test:
            return _test(operand, name, self._type_of_field(of, node.field), keeps_null=keeps_null)
        # Of objects that no schema describes, values are what they are.
        of = DYN if keeps_null else self._type(node)
        return _selection(operand, name, node.field, of, keeps_null=keeps_null)

    def _optional_select(self, node: Call) -> Step:
        operand, field = node.arguments
        assert isinstance(field, Constant)
        of, _ = unwrapped(self._type(operand))
        name, keeps_null = self._property(of, field.value)
        return _select_optional(self.step(operand), name, keeps_null=keeps_null, is_test=False)

    def _property(self, of: CelType, field: str) -> tuple[str, bool]:
        """Return the name of a field in values of a type, and whether null is a value there, not a missing field."""
        name = self._types.property_name(of.name, field) if of.kind == "struct" else None
        return name or field, name is None

    def _type_of_field(self, of: CelType, field: str) -> CelType:
        return (self._types.field(of.name, field) if of.kind == "struct" else None) or DYN

    def _equality(self, node: Call, *, wanted: bool) -> Step:
        left, right = self.steps(node.arguments)
        one, other = (self._type(part) for part in node.arguments)
        if one == other and one.kind in _PLAIN:
            if wanted:
                return lambda frame: left(frame) == right(frame)
            return lambda frame: left(frame) != right(frame)
        if wanted:
            return lambda frame: _equal(left(frame), right(frame))
        return lambda frame: not equal(left(frame), right(frame))

    def _call(self, node: Call) -> Step:
        if (special := self._special.get(node.function)) is not None:
            return special(node)
        chosen = set(self.checked.overloads[node.id])
        arguments = receiver_first(node)
        candidates = [one for one in declarations(node.function) if one.overload.id in chosen]
        if node.function in ("find", "findAll"):
            _try_pattern(node.arguments[0])
        steps = self.steps(arguments)
        if len(candidates) == 1 and all(map(_is_certain, map(self._type, arguments), candidates[0].parameters)):
            call = candidates[0].overload.call
            if node.function in _CONVERSIONS and isinstance(arguments[0], Constant):
                return _converted(call, arguments[0].value)
            return _alike(_direct(call, steps), self._type(node)) if node.function == "_[_]" else _direct(call, steps)
        return _dispatched(node.function, candidates, steps)

    def _list(self, node: ListLiteral) -> Step:
        steps = self.steps(node.items)
        if not node.optional:
            return lambda frame: [step(frame) for step in steps]
        planned = [(step, position in node.optional) for position, step in enumerate(steps)]

        def build(frame: Frame) -> list[Any]:
            found = []
            for step, is_optional in planned:
                value = step(frame)
                if not is_optional:
                    found.append(value)
                elif _optional(value).has_value:
                    found.append(value.content)
            return found

        return build

    def _map(self, node: MapLiteral) -> Step:
        planned = [(self._key(entry), self.step(entry.value), entry.is_optional) for entry in node.entries]
        name = node.type_name.lstrip(".")

        def build(frame: Frame) -> dict[Any, Any]:
            found: dict[Any, Any] = Object() if name else {}
            if isinstance(found, Object):
                found.type_name = name
            for key, step, is_optional in planned:
                at, value = key(frame), step(frame)
                if is_optional:
                    if not _optional(value).has_value:
                        continue
                    value = value.content
                found[at] = value
            return found

        return build

    def _key(self, entry: Entry) -> Step:
        if isinstance(entry.key, str):
            name = entry.key
            return lambda _: name
        step = self.step(entry.key)
        if self._type(entry.key).kind == "string":
            return step

        def key(frame: Frame) -> Any:
            found = step(frame)
            return found if found.__hash__ is not None else _Unhashable(found)

        return key

    def _comprehension(self, node: Comprehension) -> Step:
        over, start = self.step(node.over), self.step(node.start)
        outer, accumulators = self._slots, self._accumulators
        self._slots = dict(outer)
        slots = [self._slot(name) for name in (node.accumulator, node.variable, node.second)]
        self._accumulators = (accumulators | {node.accumulator}) - {node.variable, node.second}
        try:
            return self.fold(node, over, start, slots)
        finally:
            self._slots, self._accumulators = outer, accumulators

    def _slot(self, name: str) -> int:
        if name:
            self._slots[name] = self.size
        self.size += 1
        return self.size - 1

    def fold(self, node: Comprehension, over: Step, start: Step, slots: list[int]) -> Step:
        """Return the function of a comprehension.

        Args:
            node: The comprehension.
            over: What it goes over.
            start: What the accumulator is at first.
            slots: Those of the accumulator and the variables.
        """
        rounds = Rounds(over, slots[1], slots[2] if node.second else 0, 1)
        if (predicate := all_or_exists(node)) is not None:
            body, decides = predicate
            return decided(rounds, self.step(body), decides=decides)
        if (found := collected(node)) is not None:
            condition, body = found
            return collection(rounds, None if condition is None else self.step(condition), self.step(body))
        steps = (self.step(node.condition), self.step(node.step), self.step(node.result))
        return general(rounds, slots[0], start, steps)


def _try_pattern(pattern: Node) -> None:
    if isinstance(pattern, Constant):
        (overload, *_) = (one.overload for one in declarations("find"))
        try:
            overload.call("", pattern.value)
        except EvaluationError as error:
            said = str(error).removeprefix("Illegal regex: ")
            raise CompilationError(f"{NO_PROGRAM}{said}") from None


def _converted(call: Callable[..., Any], literal: Any) -> Step:
    try:
        value = call(literal)
    except EvaluationError as error:
        raise CompilationError(f"{NO_PROGRAM}{error}") from None
    return lambda _: value


class Rounds(NamedTuple):
    """What a comprehension goes over.

    Attributes:
        over: The step of the list or map.
        first: The slot of the variable.
        second: The slot of a second variable, 0 for none.
        cost: What a round costs at least.
    """

    over: Step
    first: int
    second: int
    cost: int

    def values(self, frame: Frame) -> Any:
        """Return the list or map, after its rounds were paid."""
        found = self.over(frame)
        if not isinstance(found, list | dict):
            kind = type_name(found)
            raise EvaluationError(f"got 'types.{_GO_TYPES.get(kind, kind)}', expected iterable type")
        return found

    def pairs(self, found: Any) -> Any:
        """Return the values of two variables for each round."""
        return enumerate(found) if isinstance(found, list) else list(found.items())

    def items(self, frame: Frame) -> Any:
        """Yield once a round, after its variables are set."""
        found = self.values(frame)
        first, second, cost = self.first, self.second, self.cost
        if second:
            for one, other in self.pairs(found):
                pay(frame, cost)
                frame[first], frame[second] = one, other
                yield
        else:
            for one in found if isinstance(found, list) else list(found):
                pay(frame, cost)
                frame[first] = one
                yield


def pay(frame: Frame, cost: int) -> None:
    """Take a cost from what is left.

    Raises:
        CostExceededError: Nothing is left.
    """
    frame[0] -= cost
    if frame[0] < 0:
        raise CostExceededError(OVER_BUDGET)


def _is_named(node: Node, name: str) -> bool:
    return isinstance(node, Ident) and node.name == name


def all_or_exists(node: Comprehension) -> tuple[Node, bool] | None:
    """Return the predicate of `all` or `exists`, and which of its values decides; None for other comprehensions."""
    if not isinstance(node.start, Constant) or not isinstance(node.start.value, bool):
        return None
    step, decides = node.step, not node.start.value
    if not isinstance(step, Call) or step.function != ("_||_" if decides else "_&&_"):
        return None
    if not _is_named(node.result, node.accumulator) or not _is_named(step.arguments[0], node.accumulator):
        return None
    return step.arguments[1], decides


def decided(rounds: Rounds, predicate: Step, *, decides: bool) -> Step:
    """Return the function of `all` or `exists`.

    Args:
        rounds: What they go over.
        predicate: What is asked of each value.
        decides: Which answer is that for all of them.
    """

    def run(frame: Frame) -> bool:
        failed = None
        for _ in rounds.items(frame):
            try:
                found = predicate(frame)
            except EvaluationError as error:
                failed = failed or error
                continue
            if found is decides:
                return bool(decides)
            if found is not (not decides):
                failed = failed or EvaluationError(NO_OVERLOAD)
        if failed is not None:
            raise failed
        return not decides

    return run


def collected(node: Comprehension) -> tuple[Node | None, Node] | None:
    """Return the condition, None without one, and the item of `map` or `filter`; None for other comprehensions."""
    is_endless = isinstance(node.condition, Constant) and node.condition.value is True
    is_empty = isinstance(node.start, ListLiteral) and not node.start.items
    if not (is_endless and is_empty and _is_named(node.result, node.accumulator)):
        return None
    condition, step = None, node.step
    if isinstance(step, Call) and step.function == "_?_:_":
        condition, step, other = step.arguments
        if not _is_named(other, node.accumulator):
            return None
    if not isinstance(step, Call) or step.function != "_+_" or not _is_named(step.arguments[0], node.accumulator):
        return None
    added = step.arguments[1]
    if not isinstance(added, ListLiteral) or len(added.items) != 1 or added.optional:
        return None
    return condition, added.items[0]


def collection(rounds: Rounds, condition: Step | None, body: Step) -> Step:
    """Return the function of `map` or `filter`.

    Args:
        rounds: What they go over.
        condition: Which values are taken, None for all.
        body: What is made of a value.
    """
    if condition is None:
        return lambda frame: [body(frame) for _ in rounds.items(frame)]

    def run(frame: Frame) -> list[Any]:
        found = []
        for _ in rounds.items(frame):
            held = condition(frame)
            if held is True:
                found.append(body(frame))
            elif held is not False:
                raise EvaluationError(NO_OVERLOAD)
        return found

    return run


def general(rounds: Rounds, accumulator: int, start: Step, steps: tuple[Step, Step, Step]) -> Step:
    """Return the function of any comprehension.

    Args:
        rounds: What it goes over.
        accumulator: The slot of the accumulator.
        start: What that is at first.
        steps: The condition, what a round makes of the accumulator, and the result.
    """
    condition, step, result = steps

    def run(frame: Frame) -> Any:
        frame[accumulator] = _attempt(start, frame)
        for _ in rounds.items(frame):
            if condition(frame) is False:
                break
            frame[accumulator] = _attempt(step, frame)
        return result(frame)

    return run


def _attempt(step: Step, frame: Frame) -> Any:
    try:
        return step(frame)
    except EvaluationError as error:
        return _Failed(error)


def _logical(left: Step, right: Step, *, decides: bool) -> Step:
    """Return `||` or `&&`, for which a part that fails, or is no bool, matters only where the other does not decide."""

    def run(frame: Frame) -> bool:
        try:
            one = left(frame)
        except EvaluationError as error:
            if _attempt(right, frame) is decides:
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


def _choice(condition: Step, one: Step, other: Step) -> Step:
    def run(frame: Frame) -> Any:
        found = condition(frame)
        if found is True:
            return one(frame)
        if found is False:
            return other(frame)
        raise EvaluationError(NO_OVERLOAD)

    return run


def _not_strictly_false(step: Step) -> Step:
    def run(frame: Frame) -> bool:
        try:
            return step(frame) is not False
        except EvaluationError:
            return True

    return run


def _equal(one: Any, other: Any) -> bool:
    kind = type_name(one)
    if kind.startswith(_OWN_TYPES) and kind != type_name(other):
        raise EvaluationError(NO_OVERLOAD)
    return equal(one, other)


def _missing(name: object) -> EvaluationError:
    return EvaluationError(f"no such key: {name}")


def _selection(operand: Step, name: str, shown: str, of: CelType, *, keeps_null: bool) -> Step:
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


def _alike(step: Step, of: CelType) -> Step:
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


def _test(operand: Step, name: str, of: CelType, *, keeps_null: bool) -> Step:
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


def _optional(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise EvaluationError(NO_OVERLOAD)
    return value


def _select_optional(operand: Step, name: str, *, keeps_null: bool, is_test: bool) -> Step:
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


def _direct(call: Callable[..., Any], steps: list[Step]) -> Step:
    match steps:
        case [one]:
            return lambda frame: call(one(frame))
        case [one, other]:
            return lambda frame: call(one(frame), other(frame))
    return lambda frame: call(*[step(frame) for step in steps])


def _is_certain(given: CelType, wanted: CelType) -> bool:
    """Return whether values of a type surely are what an overload takes."""
    if wanted.kind in ("param", "dyn"):
        return True
    if given.kind in ("dyn", "null_type", "error"):
        return False
    return all(map(_is_certain, given.parameters, wanted.parameters))


def _dispatched(function: str, candidates: Sequence[Declaration], steps: list[Step]) -> Step:
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
