"""What evaluations cost: limits per expression, and budgets for all expressions of an object or a policy.

Upstream counts the cost of each step of an evaluation. Here, an evaluation counts its rounds of loops alone, from which
follows what it cost at most; only where that is beyond a limit, the expression is evaluated again step by step.

Source: github.com/google/cel-go/interpreter/{runtimecost,interpretable,planner}.go; github.com/google/cel-go/ext/
{lists,sets}.go; kubernetes/staging/src/k8s.io/apiserver/pkg/cel/library/cost.go, CallCost.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from math import ceil
from typing import Any, NamedTuple

import msgspec

from kcr_devcluster.apiserver.cel.checker import Checked, inner_nodes, receiver_first
from kcr_devcluster.apiserver.cel.comprehensions import Rounds, all_or_exists, collected, collection, decided, general
from kcr_devcluster.apiserver.cel.costs import (
    AUTHORIZATION_COST,
    LIST_COST,
    MAP_COST,
    OBJECT_COST,
    PATTERN_COST,
    TRAVERSAL_COST,
)
from kcr_devcluster.apiserver.cel.declared import DeclaredTypes
from kcr_devcluster.apiserver.cel.libraries.addresses import CIDR, IP
from kcr_devcluster.apiserver.cel.programs import Plan, Program
from kcr_devcluster.apiserver.cel.steps import COST_LIMIT, NO_OVERLOAD, CostExceededError, Frame, Step, pay
from kcr_devcluster.apiserver.cel.syntax import (
    Call,
    Comprehension,
    Constant,
    Ident,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
)
from kcr_devcluster.apiserver.cel.types import TYPE_NAMES
from kcr_devcluster.apiserver.cel.values import EvaluationError, Optional

# No step without a loop costs more, but for those that depend on sizes.
_MOST_OF_STEP = 41
# Calls that cost nothing themselves.
_FREE = frozenset({"_&&_", "_||_", "_?_:_", "or", "orValue"})
# What calls cost at least that costs more, or whose value is not bound by that of the values: they are metered.
# What the function of an overload raises where a value is not what its schema says.
_MISMATCHES = (TypeError, AttributeError, ValueError)
_UNBOUND: Mapping[str, int] = {"check": AUTHORIZATION_COST, "lists.range": 2 * COST_LIMIT}
_INDICES = frozenset({"_[_]", "_[?_]", "_?._"})
_CONVERSIONS = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"})


UNLIMITED = 1 << 62


class OutOfBudgetError(Exception):
    """The evaluations of an object or policy cost too much together."""


class UnmeteredError(Exception):
    """The evaluations of an object may have cost too much together: they have to be metered."""


class Bound(NamedTuple):
    """What a round of an evaluation costs at most: so much, so much per byte of the values, and per byte and byte."""

    fixed: int
    linear: float
    quadratic: float

    def of(self, size: int) -> float:
        """Return the cost, given how many bytes the values have."""
        return self.fixed + size * (self.linear + self.quadratic * size)

    def union(self, other: "Bound") -> "Bound":
        """Return what is a bound of both."""
        linear, quadratic = max(self.linear, other.linear), max(self.quadratic, other.quadratic)
        return Bound(max(self.fixed, other.fixed), linear, quadratic)


class Metered(NamedTuple):
    """An expression that can be evaluated within a budget.

    Attributes:
        program: Its program.
        bound: What an evaluation costs at most.
        metered: Makes the program that counts costs.
    """

    program: Program
    bound: Bound
    metered: Callable[[], Program]


class Tally:
    """A budget of which surely not all is spent: the rounds of all loops are counted, and judged in the end.

    Attributes:
        is_spent: Whether nothing is left; that is not known yet.
    """

    is_spent = False

    def __init__(self, size: int) -> None:
        """Count rounds.

        Args:
            size: How many bytes the values have.
        """
        self._size, self._left, self._count, self._most = size, COST_LIMIT, 0, 0.0

    def expect(self, count: int, bound: Bound) -> None:
        """Announce evaluations.

        Args:
            count: How many.
            bound: What a round of each costs at most.
        """
        self._count += count
        self._most = max(self._most, bound.of(self._size))

    def evaluate(self, expression: Metered, values: Sequence[Any]) -> Any:
        """Return the value of an expression.

        Args:
            expression: The expression.
            values: The values of its variables.

        Raises:
            EvaluationError: It has none.
            UnmeteredError: It may take too long.
        """
        run, _, rest = expression.program
        frame = [self._left, *values, *rest]
        try:
            return run(frame)
        except _MISMATCHES:
            # A value is not what its schema says.
            raise EvaluationError(NO_OVERLOAD) from None
        except CostExceededError:
            raise UnmeteredError from None
        finally:
            self._left = frame[0]

    def judge(self) -> None:
        """Make sure that the evaluations did not cost too much.

        Raises:
            UnmeteredError: They may have.
        """
        if (COST_LIMIT - self._left + self._count) * self._most > COST_LIMIT:
            raise UnmeteredError


class Budget:
    """What may be spent on the expressions of one object or policy.

    Attributes:
        size: How many bytes the values have that expressions look at.
        is_metered: Whether costs are counted exactly.
    """

    def __init__(self, total: int, size: int, *, is_metered: bool = False) -> None:
        """Have a budget.

        Args:
            total: The budget.
            size: How many bytes the values have.
            is_metered: Whether costs are counted exactly; else `UnmeteredError` is raised where they have to be.
        """
        self._left: float = total
        self.size, self.is_metered = size, is_metered

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.is_metered and self._left <= 0

    def expect(self, count: int, bound: Bound) -> None:
        """Announce evaluations, of which each is counted."""

    def evaluate(self, expression: Metered, values: Sequence[Any]) -> Any:
        """Return the value of an expression.

        Args:
            expression: The expression.
            values: The values of its variables.

        Raises:
            EvaluationError: It has none.
            CostExceededError: It takes too long.
            OutOfBudgetError: All expressions together take too long.
            UnmeteredError: They may do so.
        """
        if self.is_metered:
            return self._metered(expression, values)
        run, _, rest = expression.program
        frame = [COST_LIMIT, *values, *rest]
        try:
            found = run(frame)
        except _MISMATCHES:
            # A value is not what its schema says.
            found = EvaluationError(NO_OVERLOAD)
        except EvaluationError as error:
            found = error
        except CostExceededError:
            return self._metered(expression, values)
        most = (COST_LIMIT + 1 - frame[0]) * expression.bound.of(self.size)
        if most > COST_LIMIT:
            return self._metered(expression, values)
        self._left -= most
        if self._left < 0:
            raise UnmeteredError
        if found.__class__ is EvaluationError:
            raise found
        return found

    def _metered(self, expression: Metered, values: Sequence[Any]) -> Any:
        run, _, rest = expression.metered()
        frame = [COST_LIMIT, *values, *rest]
        try:
            return run(frame)
        except _MISMATCHES:
            raise EvaluationError(NO_OVERLOAD) from None
        finally:
            self._left -= COST_LIMIT - frame[0]
            if self._left < 0:
                raise OutOfBudgetError if self.is_metered else UnmeteredError


def size_of(*values: Any) -> int:
    """Return how many bytes values have."""
    return sum(len(msgspec.json.encode(value)) for value in values if value is not None)


def compile_program(checked: Checked, types: DeclaredTypes) -> Metered:
    """Return the program of an expression.

    Raises:
        CompilationError: A literal pattern is no regular expression.
    """

    @cache
    def metered() -> Program:
        return _program(_MeteredPlan(checked, types, _slots(checked)), checked)

    return Metered(_program(Plan(checked, types, _slots(checked)), checked), _bound(checked.root), metered)


def _slots(checked: Checked) -> dict[str, int]:
    return {name: position for position, name in enumerate(checked.environment.variables, 1)}


def _program(plan: Plan, checked: Checked) -> Program:
    run = plan.step(checked.root)
    variables = tuple(checked.environment.variables)
    return Program(run, variables, (None,) * (plan.size - len(variables) - 1))


def _bound(root: Node) -> Bound:
    fixed, linear, quadratic = 0, 0.0, 0.0
    for node in _all_nodes(root):
        fixed += _MOST_OF_STEP
        if not isinstance(node, Call):
            continue
        if node.function in _UNBOUND:
            fixed += _UNBOUND[node.function]
        elif (cost := _SIZED.get(node.function)) is not None:
            literal = _longest_literal(node)
            fixed += literal
            if not cost.is_product:
                linear += 0.6
            elif literal:
                linear += 0.1 * literal
            else:
                quadratic += 0.55
    return Bound(fixed, linear, quadratic)


def _longest_literal(node: Call) -> int:
    texts = (one.value for one in receiver_first(node) if isinstance(one, Constant))
    return max((len(one) for one in texts if isinstance(one, str | bytes)), default=0)


def _all_nodes(node: Node) -> Iterator[Node]:
    yield node
    for inner in inner_nodes(node):
        yield from _all_nodes(inner)


def _is_attribute(node: Node) -> bool:
    """Return whether a node is, for cel-go, a variable with steps from it, or a choice between such."""
    match node:
        case Ident():
            return node.name not in TYPE_NAMES
        case Select():
            return True
        case Call():
            return node.function in (*_INDICES, "_?_:_")
    return False


def _is_folded(node: Node) -> bool:
    """Return whether cel-go evaluates a node when the program is made."""
    match node:
        case Constant():
            return True
        case ListLiteral():
            return not node.optional and all(map(_is_folded, node.items))
        case MapLiteral():
            return not node.type_name and all(
                not entry.is_optional and not isinstance(entry.key, str) and _is_folded(entry.key)
                and _is_folded(entry.value) for entry in node.entries
            )  # fmt: skip
        case Call():
            return node.function in _CONVERSIONS and all(map(_is_folded, receiver_first(node)))
    return isinstance(node, Ident) and node.name in TYPE_NAMES


class _MeteredPlan(Plan):
    """A program that pays for each step."""

    def __init__(self, checked: Checked, types: DeclaredTypes, slots: dict[str, int]) -> None:
        super().__init__(checked, types, slots)
        # Nodes that are steps of an attribute, which is paid for where it ends.
        self._within = set(map(id, self._inner_attributes(checked.root)))
        # Where the values of arguments are kept, by the identity of their nodes.
        self._kept: dict[int, int] = {}

    def _inner_attributes(self, root: Node) -> Iterator[Node]:
        for node in _all_nodes(root):
            parts: Sequence[Node] = ()
            if isinstance(node, Select):
                parts = (node.operand,)
            elif isinstance(node, Call) and node.function in _INDICES:
                parts = node.arguments
            elif isinstance(node, Call) and node.function == "_?_:_":
                parts = node.arguments[1:]
            yield from filter(_is_attribute, parts)

    def step(self, node: Node) -> Step:
        """Return the function of a node, which pays."""
        step = super().step(node)
        if _is_folded(node):
            return step
        cost = self._cost(node)
        if isinstance(node, Call) and node.function not in (*_FREE, *_INDICES):
            return self._call_step(node, step)
        return _paid(step, cost) if cost else step

    def _cost(self, node: Node) -> int:
        """Return the cost of a node that does not depend on values."""
        ends = int(_is_attribute(node) and id(node) not in self._within)
        match node:
            case Select():
                # A test for presence costs nothing.
                return 1 + (0 if node.is_test else ends)
            case Call():
                return 1 + ends if node.function in _INDICES else 0
            case ListLiteral():
                return LIST_COST
            case MapLiteral():
                return OBJECT_COST if node.type_name else MAP_COST
            case Ident():
                return ends
        return 0

    def steps(self, nodes: Sequence[Node]) -> list[Step]:
        """Return the functions of nodes, which keep their values."""
        return [self._keeping(node) for node in nodes]

    def _keeping(self, node: Node) -> Step:
        step, slot = self.step(node), self.size
        self._kept[id(node)] = slot
        self.size += 1

        def run(frame: Frame) -> Any:
            value = frame[slot] = step(frame)
            return value

        return run

    def _call_step(self, node: Call, step: Step) -> Step:
        slots = [self._kept[id(one)] for one in receiver_first(node) if id(one) in self._kept]
        overloads = self.checked.overloads.get(node.id, ())
        function, overload = node.function, overloads[0] if len(overloads) == 1 else ""
        # A search in a list of literals is one in a set.
        if function == "@in" and _is_folded(node.arguments[1]) and overload == "in_list":
            return step

        def run(frame: Frame) -> Any:
            found = step(frame)
            pay(frame, call_cost(function, [frame[slot] for slot in slots], found))
            return found

        return run

    def fold(self, node: Comprehension, over: Step, start: Step, slots: list[int]) -> Step:
        """Return the function of a comprehension, which pays for what the other steps of its macro cost."""
        second = slots[2] if node.second else 0
        if (predicate := all_or_exists(node)) is not None:
            body, decides = predicate
            # The condition, and the accumulator before the predicate; at the end, the accumulator again.
            of_condition = 3 if decides else 2
            rounds = Rounds(over, slots[1], second, of_condition + 1)
            return _ended(decided(rounds, self.step(body), decides=decides), 1)
        if (found := collected(node)) is not None:
            condition, body = found
            rounds = Rounds(over, slots[1], second, 0)
            # The accumulator, the list of one item, and their sum.
            added = _paid(self.step(body), 2 + (0 if _is_folded(body) else LIST_COST))
            test = None if condition is None else self.step(condition)
            return _ended(collection(rounds, test, added), 1)
        steps = (self.step(node.condition), self.step(node.step), self.step(node.result))
        return general(Rounds(over, slots[1], second, 0), slots[0], start, steps)


def _paid(step: Step, cost: int) -> Step:
    def run(frame: Frame) -> Any:
        pay(frame, cost)
        return step(frame)

    return run


def _ended(step: Step, cost: int) -> Step:
    def run(frame: Frame) -> Any:
        found = step(frame)
        pay(frame, cost)
        return found

    return run


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, Optional):
        return _size(value.content) if value.has_value else 1
    if isinstance(value, IP):
        return value.address.max_prefixlen // 8
    return ceil(value.bits / 8) if isinstance(value, CIDR) else 1


def _traversed(value: Any) -> int:
    match value:
        case str():
            return int(len(value.encode()) * TRAVERSAL_COST)
        case bytes():
            return int(len(value) * TRAVERSAL_COST)
        case list():
            return sum(map(_traversed, value))
        case dict():
            return sum(_traversed(key) + _traversed(one) for key, one in value.items())
    return 1


def _scaled(size: float, factor: float = TRAVERSAL_COST) -> int:
    return ceil(size * factor)


class _Sized(NamedTuple):
    """The cost of a function, given its arguments and its value.

    Attributes:
        of: The cost.
        is_product: Whether it grows with the product of two sizes.
    """

    of: Callable[[Sequence[Any], Any], int]
    is_product: bool = False


def _first(factor: float = TRAVERSAL_COST) -> _Sized:
    return _Sized(lambda values, _: _scaled(_size(values[0]), factor))


def _new_list(size: float) -> int:
    return int(size) + 1 + LIST_COST


def _self_compared(items: Sequence[Any]) -> int:
    is_text = bool(items) and isinstance(items[0], str | bytes)
    return _new_list(len(items) ** 2 * (2 + (TRAVERSAL_COST if is_text else 0)))


def _contains_address(values: Sequence[Any], *, is_network: bool) -> int:
    size = _size(values[0])
    cost = _scaled(2 * size) + (_scaled(size) + 1 if is_network else 0)
    return cost + (_scaled(_size(values[1])) if isinstance(values[1], str) else 0)


def _matched(values: Sequence[Any], pattern: int) -> int:
    return _scaled(_size(values[0]) + 1) * _scaled(pattern, PATTERN_COST)


def _equal(values: Sequence[Any], _: Any) -> int:
    if any(getattr(one, "cel_type", "").startswith(("net.", "kubernetes.")) for one in values[:1]):
        return 1
    return _scaled(min(map(_size, values)))


_compared = _Sized(lambda values, _: _scaled(min(map(_size, values))))
_matches = _Sized(lambda values, _: _matched(values, _size(values[1])), is_product=True)
_traversal = _Sized(lambda values, _: _traversed(values[0]))
_selector = _Sized(
    lambda values, _: (
        LIST_COST + _scaled(_size(values[1])) + _scaled(_scaled(_size(values[1]), 0.5), LIST_COST + OBJECT_COST)
    )
)
_SIZED: Mapping[str, _Sized] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal),
    **dict.fromkeys(("url", "lowerAscii", "upperAscii", "substring", "trim", "jsonpatch.escapeKey"), _first()),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _first()),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first(2 * TRAVERSAL_COST)),
    **dict.fromkeys(("startsWith", "endsWith", "strings.quote", "format"), _first()),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("matches", "find", "findAll"), _matches),
    **dict.fromkeys(("_<_", "_<=_", "_>_", "_>=_"), _Sized(
        lambda values, _: _scaled(min(map(_size, values))) if isinstance(values[0], str | bytes) else 1)),
    "_==_": _Sized(_equal), "_!=_": _compared,
    "_+_": _Sized(lambda values, _: _scaled(sum(map(_size, values))) if isinstance(values[0], str | bytes) else 1),
    "ip": _Sized(lambda values, _: _scaled(_size(values[0])) if isinstance(values[0], str) else 1),
    "bytes": _Sized(lambda values, _: _scaled(_size(values[0])) if isinstance(values[0], str) else 1),
    "string": _Sized(lambda values, _: _scaled(_size(values[0])) if isinstance(values[0], bytes) else 1),
    "join": _Sized(lambda _, found: _scaled(_size(found), 2 * TRAVERSAL_COST)),
    "contains": _Sized(lambda values, _: _scaled(_size(values[0])) * _scaled(_size(values[1])), is_product=True),
    "containsIP": _Sized(lambda values, _: _contains_address(values, is_network=False)),
    "containsCIDR": _Sized(lambda values, _: _contains_address(values, is_network=True)),
    "validate": _Sized(lambda values, _: _matched(values[1:], values[0].pattern_size)),
    "@in": _Sized(lambda values, _: _size(values[1]) if isinstance(values[1], list) else 1),
    "sets.contains": _Sized(lambda values, _: 1 + _size(values[0]) * _size(values[1]), is_product=True),
    "sets.intersects": _Sized(lambda values, _: 1 + _size(values[0]) * _size(values[1]), is_product=True),
    "sets.equivalent": _Sized(lambda values, _: 1 + 2 * _size(values[0]) * _size(values[1]), is_product=True),
    "slice": _Sized(lambda _, found: _new_list(_size(found))),
    "reverse": _Sized(lambda _, found: _new_list(_size(found)) if isinstance(found, list) else 1),
    "lists.range": _Sized(lambda _, found: _new_list(_size(found)), is_product=True),
    "flatten": _Sized(lambda values, _: _new_list(_size(values[0]) * (values[1] if len(values) > 1 else 1))),
    "distinct": _Sized(lambda values, _: _self_compared(values[0]), is_product=True),
    "sort": _Sized(lambda values, _: _self_compared(values[0]), is_product=True),
    "@sortByAssociatedKeys": _Sized(lambda values, _: _self_compared(values[1]), is_product=True),
    "check": _Sized(lambda _values, _found: AUTHORIZATION_COST),
}  # fmt: skip


def call_cost(function: str, values: Sequence[Any], found: Any) -> int:
    """Return what a call cost, without its arguments.

    Args:
        function: The function.
        values: The arguments, those of a member with the receiver first.
        found: Its value.
    """
    rule = _SIZED.get(function)
    return 1 if rule is None else rule.of(values, found)
