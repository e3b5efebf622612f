"""Programs: a checked expression becomes a function of Python, of the values of its variables."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.cel.checker import Checked, declarations, receiver_first
from kcr_devcluster.apiserver.cel.comprehensions import Rounds, all_or_exists, collected, collection, decided, general
from kcr_devcluster.apiserver.cel.declared import DeclaredTypes
from kcr_devcluster.apiserver.cel.steps import (
    Failed,
    Frame,
    Step,
    alike,
    choice,
    direct_call,
    dispatched_call,
    equals,
    is_certain,
    logical,
    not_strictly_false,
    optional_of,
    optional_selection,
    presence,
    selection,
)
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
from kcr_devcluster.apiserver.cel.values import EvaluationError, Object, Type, equal

# Types that Python compares as CEL does.
_PLAIN = frozenset({"int", "string", "bool", "bytes", "timestamp", "duration", "double"})
# Functions that are called when a program is made, where their argument is a literal.
_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "int", "string", "timestamp", "uint"})
NO_PROGRAM = "program instantiation failed: "


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
            "_&&_": lambda node: logical(*self.steps(node.arguments), decides=False),
            "_||_": lambda node: logical(*self.steps(node.arguments), decides=True),
            "_?_:_": lambda node: choice(*self.steps(node.arguments)),
            "_==_": lambda node: self._equality(node, wanted=True),
            "_!=_": lambda node: self._equality(node, wanted=False),
            "@not_strictly_false": lambda node: not_strictly_false(self.step(node.arguments[0])),
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
            return step if node.name in self.checked.environment.variables else alike(step, self._type(node))

        def accumulated(frame: Frame) -> Any:
            value = frame[slot]
            if value.__class__ is Failed:
                raise value.error
            return value

        return accumulated

    def _select(self, node: Select) -> Step:
        operand, (of, is_optional) = self.step(node.operand), unwrapped(self._type(node.operand))
        name, keeps_null = self._property(of, node.field)
        if is_optional:
            return optional_selection(operand, name, keeps_null=keeps_null, is_test=node.is_test)
        if node.is_test:
            return presence(operand, name, self._type_of_field(of, node.field), keeps_null=keeps_null)
        # Of objects that no schema describes, values are what they are.
        of = DYN if keeps_null else self._type(node)
        return selection(operand, name, node.field, of, keeps_null=keeps_null)

    def _optional_select(self, node: Call) -> Step:
        operand, field = node.arguments
        assert isinstance(field, Constant)
        of, _ = unwrapped(self._type(operand))
        name, keeps_null = self._property(of, field.value)
        return optional_selection(self.step(operand), name, keeps_null=keeps_null, is_test=False)

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
            return lambda frame: equals(left(frame), right(frame))
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
        if len(candidates) == 1 and all(map(is_certain, map(self._type, arguments), candidates[0].parameters)):
            call = candidates[0].overload.call
            if node.function in _CONVERSIONS and isinstance(arguments[0], Constant):
                return _converted(call, arguments[0].value)
            return (
                alike(direct_call(call, steps), self._type(node))
                if node.function == "_[_]"
                else direct_call(call, steps)
            )
        return dispatched_call(node.function, candidates, steps)

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
                elif optional_of(value).has_value:
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
                    if not optional_of(value).has_value:
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
