"""The estimated cost of an expression: rules that could take too long are refused when a definition is created.

Source: github.com/google/cel-go/checker/cost.go; kubernetes/staging/src/k8s.io/apiserver/pkg/cel/library/cost.go;
github.com/google/cel-go/ext (sets, lists, strings).
"""

from collections.abc import Callable, Mapping
from math import ceil
from typing import NamedTuple

from kcr_devcluster.apiserver.cel.checker import Checked, receiver_first
from kcr_devcluster.apiserver.cel.declared import Declared
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
from kcr_devcluster.apiserver.cel.types import OPTIONAL, CelType

# Costs do not grow above it.
MOST = (1 << 64) - 1
LIST_COST, MAP_COST, OBJECT_COST = 10, 30, 40
TRAVERSAL_COST, PATTERN_COST = 0.1, 0.25
AUTHORIZATION_COST = 350_000
_ADDRESS_BYTES = (4, 16)
_NAME_PATTERN = 128
# The macros' accumulator: values in it are no fields of a variable.
_ACCUMULATORS = frozenset({"@result", "__result__"})
_SCALAR_KINDS = frozenset({"bool", "double", "duration", "int", "timestamp", "uint"})


class Span(NamedTuple):
    """The least and the most that a size or a cost may be."""

    least: int
    most: int

    def __add__(self, other: object) -> "Span":
        """Return the sum of two spans."""
        assert isinstance(other, Span)
        return Span(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def times(self, other: "Span") -> "Span":
        """Return the product of two spans."""
        return Span(min(self.least * other.least, MOST), min(self.most * other.most, MOST))

    def scaled(self, factor: float) -> "Span":
        """Return the span of each end multiplied, and rounded up."""
        return Span(_scaled(self.least, factor), _scaled(self.most, factor))

    def union(self, other: "Span") -> "Span":
        """Return the span that has both in it."""
        return Span(min(self.least, other.least), max(self.most, other.most))


def _scaled(value: int, factor: float) -> int:
    # As a float rounds: beyond what an integer holds, to the most.
    product = ceil(float(value) * factor)
    return MOST if product >= MOST else product


def _fixed(value: int) -> Span:
    return Span(value, value)


NOTHING, ONE, UNKNOWN = _fixed(0), _fixed(1), Span(0, MOST)


class _Entries(NamedTuple):
    """The sizes of the keys or positions, and of the values, of a list or map."""

    kind: str
    key: Span
    value: Span


class _Variable(NamedTuple):
    """A variable of a comprehension: the path of its value, and the sizes of it and of its entries."""

    path: tuple[str, ...]
    size: Span | None
    entries: _Entries | None


class Operand(NamedTuple):
    """The receiver or an argument of a call, as the costs of functions see it.

    Attributes:
        node: Its node; None for the items of a list.
        path: The path of its value from a variable, empty where it has none.
        type: Its type.
        size: Its size as known from the expression; None where it is not.
    """

    node: Node | None
    path: tuple[str, ...]
    type: CelType
    size: Span | None


class CallCost(NamedTuple):
    """The cost of a call without that of its arguments, and the size of its value where that is known."""

    cost: Span
    size: Span | None = None


class Estimator:
    """One estimate."""

    def __init__(self, checked: Checked, root: Declared | None) -> None:
        """Estimate the cost of an expression.

        Args:
            checked: The expression.
            root: The declared type of its variables. Upstream takes every name, even that of a type, for one of them.
        """
        self._checked, self._root = checked, root
        self._paths: dict[int, tuple[str, ...]] = {}
        self._sizes: dict[int, Span] = {}
        self._entries: dict[int, _Entries] = {}
        self._variables: dict[str, _Variable] = {}
        self._forms: Mapping[type, Callable[..., Span]] = {
            Constant: lambda _: NOTHING, Ident: self._ident, Select: self._select, Call: self._call,
            ListLiteral: self._list, MapLiteral: self._map, Comprehension: self._comprehension,
        }  # fmt: skip

    def cost(self, node: Node) -> Span:
        """Return the cost of a node."""
        return self._forms[type(node)](node)

    def size(self, operand: Operand) -> Span:
        """Return the size of an operand."""
        return operand.size or self._declared_size(operand.path) or UNKNOWN

    def items(self, operand: Operand) -> Operand | None:
        """Return the items of an operand that is a list."""
        if not operand.type.parameters:
            return None
        path = (*operand.path, "@items") if operand.path else ()
        return Operand(None, path, operand.type.parameters[0], None)

    def entries(self, operand: Operand) -> _Entries | None:
        """Return the sizes of an operand's entries."""
        return None if operand.node is None else self._entries_of(operand.node)

    def keep_entries(self, node: Node, entries: _Entries | None) -> None:
        """Keep the sizes of the entries of a call's value."""
        if entries is not None:
            self._entries[node.id] = entries

    def _ident(self, node: Ident) -> Span:
        variable = self._variables.get(node.name)
        self._paths[node.id] = (node.name,) if variable is None else variable.path
        return ONE

    def _select(self, node: Select) -> Span:
        cost = self.cost(node.operand)
        if node.is_test:
            return cost
        self._paths[node.id] = (*self._path(node.operand), node.field)
        is_lookup = self._checked.types[node.operand.id].kind in ("map", "struct", "param")
        return cost + ONE if is_lookup else cost

    def _call(self, node: Call) -> Span:
        if node.function == "dyn":
            (argument,) = node.arguments
            cost = self.cost(argument)
            self._copy_sizes(node, argument)
            return cost + ONE
        costs = [self.cost(one) for one in receiver_first(node)]
        operands = [self._operand(one) for one in receiver_first(node)]
        overloads = self._checked.overloads.get(node.id, ())
        if not overloads:
            return NOTHING
        result, size = Span(MOST, 0), None
        for overload in overloads:
            one = self._of_overload(node, overload, operands, costs)
            result = result.union(one.cost)
            if one.size is not None:
                size = one.size if size is None else size.union(one.size)
            if overload in ("index_list", "index_map"):
                entries = self._entries_of(receiver_first(node)[0])
                size = None if entries is None else entries.value
                step = "@items" if overload == "index_list" else "@values"
                self._paths[node.id] = (*self._path(receiver_first(node)[0]), step)
            size = size or self._size(node)
        if size is not None:
            self._sizes[node.id] = size
        return result

    def _of_overload(self, node: Call, overload: str, operands: list[Operand], costs: list[Span]) -> CallCost:
        """Return the cost of a call with its arguments, if it takes an overload."""
        if overload in ("logical_and", "logical_or"):
            return CallCost(Span(costs[0].least, (costs[0] + costs[1]).most))
        if overload == "conditional":
            size = (operands[1].size or UNKNOWN).union(operands[2].size or UNKNOWN)
            self.keep_entries(node, _joined(self.entries(operands[1]), self.entries(operands[2])))
            return CallCost(costs[0] + costs[1].union(costs[2]), size)
        found = call_cost(self, node, overload, operands)
        return CallCost(sum(costs, found.cost), found.size)

    def _operand(self, node: Node) -> Operand:
        path = self._path(node)
        if path and path[0] in _ACCUMULATORS:
            path = ()
        return Operand(node, path, self._checked.types[node.id], self._size(node))

    def _list(self, node: ListLiteral) -> Span:
        cost = sum(map(self.cost, node.items), NOTHING)
        self._entries[node.id] = _Entries("list", ONE, self._widest(node.items))
        return cost + _fixed(LIST_COST)

    def _widest(self, nodes: tuple[Node, ...]) -> Span:
        span = Span(MOST if nodes else 0, 0)
        for one in nodes:
            span = span.union(self._size(one) or UNKNOWN)
        return span

    def _map(self, node: MapLiteral) -> Span:
        keys = tuple(entry.key for entry in node.entries if not isinstance(entry.key, str))
        values = tuple(entry.value for entry in node.entries)
        cost = sum(map(self.cost, (*keys, *values)), NOTHING)
        if node.type_name:
            return cost + _fixed(OBJECT_COST)
        self._entries[node.id] = _Entries("map", self._widest(keys), self._widest(values))
        return cost + _fixed(MAP_COST)

    def _comprehension(self, node: Comprehension) -> Span:
        cost = self.cost(node.over) + self.cost(node.start)
        outer = dict(self._variables)
        bound = _Variable(self._path(node.start), self._size(node.start), self._entries_of(node.start))
        self._variables[node.accumulator] = bound
        if _is_binding(node):
            cost += self.cost(node.result)
            self._copy_sizes(node, node.result)
            self._variables = outer
            return cost
        self._iterate(node)
        of_round = self.cost(node.condition) + self.cost(node.step)
        for name in (node.variable, node.second):
            self._variables.pop(name, None)
        self._variables[node.accumulator] = bound
        cost += self.cost(node.result)
        self._variables = outer
        rounds = self._size(node.over) or UNKNOWN
        self._keep_size(node, rounds)
        return cost + rounds.times(of_round)

    def _keep_size(self, node: Comprehension, rounds: Span) -> None:
        if isinstance(node.start, Constant):
            if (size := self._size(node.start)) is not None:
                self._sizes[node.id] = size
        elif isinstance(node.start, ListLiteral | MapLiteral):
            self._sizes[node.id] = rounds
            self.keep_entries(node, self._entries_of(node.step))

    def _iterate(self, node: Comprehension) -> None:
        """Declare the variables that a comprehension goes round with."""
        entries, path = self._entries_of(node.over), self._path(node.over)
        is_list = (entries.kind if entries else self._checked.types[node.over.id].kind) == "list"
        key = _Variable((*path, "@indices" if is_list else "@keys"), entries and entries.key, None)
        value = _Variable((*path, "@items" if is_list else "@values"), entries and entries.value, None)
        if node.second:
            self._variables |= {node.variable: key, node.second: value}
        else:
            self._variables[node.variable] = value if is_list else key

    def _path(self, node: Node) -> tuple[str, ...]:
        if isinstance(node, Ident) and (variable := self._variables.get(node.name)) is not None:
            return variable.path
        return self._paths.get(node.id, ())

    def _copy_sizes(self, node: Node, other: Node) -> None:
        if (size := self._size(other)) is not None:
            self._sizes[node.id] = size
        self.keep_entries(node, self._entries_of(other))

    def _size(self, node: Node) -> Span | None:
        if (known := self._sizes.get(node.id)) is not None:
            return known
        if (known := _literal_size(node)) is not None:
            return known
        if (known := self._declared_size(self._path(node))) is not None:
            self._sizes[node.id] = known
            return known
        if _is_scalar(self._checked.types[node.id]):
            return ONE
        variable = self._variables.get(node.name) if isinstance(node, Ident) else None
        return None if variable is None else variable.size

    def _declared_size(self, path: tuple[str, ...]) -> Span | None:
        found = self._root if path else None
        for step in path[1:]:
            if found is None:
                return None
            found = found.step(step)
        return None if found is None else Span(0, found.most)

    def _entries_of(self, node: Node) -> _Entries | None:
        if (known := self._entries.get(node.id)) is not None:
            return known
        variable = self._variables.get(node.name) if isinstance(node, Ident) else None
        return None if variable is None else variable.entries


def _joined(one: _Entries | None, other: _Entries | None) -> _Entries | None:
    if one is None or other is None:
        return None
    return _Entries(one.kind, one.key.union(other.key), one.value.union(other.value))


def _is_binding(node: Comprehension) -> bool:
    """Return whether a comprehension only gives a value a name."""
    is_empty = isinstance(node.over, ListLiteral) and not node.over.items
    never = isinstance(node.condition, Constant) and node.condition.value is False
    return is_empty and never and node.accumulator != "__result__"


def _literal_size(node: Node) -> Span | None:
    match node:
        case Constant(_, str() | bytes() as value):
            return _fixed(len(value))
        case Constant():
            return ONE
        case ListLiteral():
            return _fixed(len(node.items))
        case MapLiteral() if not node.type_name:
            return _fixed(len(node.entries))
    return None


def _is_scalar(of: CelType) -> bool:
    return of.kind in _SCALAR_KINDS or (of.name == OPTIONAL and _is_scalar(of.parameters[0]))


_Rule = Callable[[Estimator, Call, str, list[Operand]], "CallCost | None"]


def call_cost(estimator: Estimator, node: Call, overload: str, operands: list[Operand]) -> CallCost:
    """Return the cost of a call without that of its arguments.

    Args:
        estimator: The estimate.
        node: The call.
        overload: The id of the overload that it takes.
        operands: The arguments, those of a member with the receiver first.
    """
    for rule in (_OF_LISTS.get(node.function), _BY_FUNCTION.get(node.function), _BY_OVERLOAD.get(overload)):
        if rule is not None and (found := rule(estimator, node, overload, operands)) is not None:
            return found
    return CallCost(ONE)


def _sized(operand: Operand) -> Span:
    return operand.size or UNKNOWN


def _constant_cost(cost: int) -> _Rule:
    return lambda *_: CallCost(_fixed(cost))


def _traversal(factor: float = TRAVERSAL_COST, *, keeps_size: bool = False) -> _Rule:
    """Return the rule of functions that read their first operand."""

    def rule(estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
        size = estimator.size(operands[0])
        return CallCost(size.scaled(factor), size if keeps_size else None)

    return rule


def _selector(estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    size = estimator.size(operands[1])
    return CallCost(_fixed(LIST_COST) + size.scaled(TRAVERSAL_COST) + size.scaled(0.5).scaled(LIST_COST + OBJECT_COST))


def _each_item(estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    items = estimator.items(operands[0])
    if items is None:
        return CallCost(estimator.size(operands[0]).scaled(TRAVERSAL_COST))
    cost = ONE
    if items.type.kind in ("string", "bytes"):
        cost += estimator.size(items).scaled(TRAVERSAL_COST)
    return CallCost(estimator.size(operands[0]).times(cost))


def _replace(estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    size, old, new = (estimator.size(one) for one in operands[:3])
    least, most = _shortest(size.least, old, new), _longest(size.most, old, new)
    return CallCost(size.scaled(2 * TRAVERSAL_COST), Span(least, most))


def _longest(size: int, old: Span, new: Span) -> int:
    """Return the length of a text where as much as can be is replaced."""
    if old.least == 0:
        return min(min(size + 1, MOST) * new.most + size, MOST)
    if new.most <= old.least:
        return size
    return min(ceil(float(size) / old.least) * new.most, MOST)


def _shortest(size: int, old: Span, new: Span) -> int:
    if old.most == 0:
        return min(min(size + 1, MOST) * new.least + size, MOST)
    if old.most <= new.least:
        return size
    return min(ceil(float(size) / old.most) * new.least, MOST)


def _split(estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    size = estimator.size(operands[0])
    most = size.most
    if len(operands) > 2 and isinstance(limit := operands[2].node, Constant) and isinstance(limit.value, int):
        most = limit.value if limit.value >= 0 else limit.value + MOST + 1
    return CallCost(size.scaled(2 * TRAVERSAL_COST), Span(0, most))


def _join(estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    count, size = estimator.size(operands[0]), NOTHING
    if (items := estimator.items(operands[0])) is not None:
        size = count.times(estimator.size(items))
    if len(operands) > 1:
        between = Span(max(count.least - 1, 0), max(count.most - 1, 0))
        size += estimator.size(operands[1]).times(between)
    return CallCost(size.scaled(TRAVERSAL_COST), size)


def _find(estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    size = estimator.size(operands[0])
    pattern = estimator.size(operands[1]).scaled(PATTERN_COST)
    return CallCost((size + ONE).scaled(TRAVERSAL_COST).times(pattern), Span(0, size.most))


def _ip(estimator: Estimator, _node: Call, overload: str, operands: list[Operand]) -> CallCost:
    if overload == "cidr_ip":
        return CallCost(ONE)
    return CallCost(estimator.size(operands[0]).scaled(TRAVERSAL_COST))


def _contains_address(*, is_network: bool) -> _Rule:
    def rule(estimator: Estimator, _node: Call, overload: str, operands: list[Operand]) -> CallCost:
        size = Span(*_ADDRESS_BYTES)
        cost = (size + size).scaled(TRAVERSAL_COST)
        if is_network:
            cost += size.scaled(TRAVERSAL_COST) + ONE
        if overload.endswith("_string"):
            cost += estimator.size(operands[1]).scaled(TRAVERSAL_COST)
        return CallCost(cost)

    return rule


def _validate(estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    # As upstream has it, by the size of the second operand of the call.
    size = estimator.size(operands[1])
    return CallCost(size.scaled(TRAVERSAL_COST).scaled(_NAME_PATTERN * PATTERN_COST))


def _equals(_estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost | None:
    one, other = operands
    if one.type != other.type:
        return None
    if one.type.name in ("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver") or (
        one.type.name.startswith("kubernetes.authorization.")
    ):
        return CallCost(ONE)
    if one.type.name == "kubernetes.NamedFormat":
        return CallCost(Span(1, 64).scaled(TRAVERSAL_COST))
    if one.type.name == "kubernetes.URL":
        most = other.size.most if other.size is not None else 1
        return CallCost(Span(1, most).scaled(TRAVERSAL_COST))
    return None


def _compared(_estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    most = min(_sized(operands[0]).most, _sized(operands[1]).most)
    return CallCost(Span(1 if most else 0, most).scaled(TRAVERSAL_COST))


def _bytes_of_text(_estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    size = _sized(operands[0])
    return CallCost(size.scaled(TRAVERSAL_COST), Span(size.least, (size.most * 4) & MOST))


def _text_of_bytes(_estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    size = _sized(operands[0])
    return CallCost(size.scaled(TRAVERSAL_COST), Span(size.least // 4, size.most))


def _quote(_estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    size = _sized(operands[0])
    return CallCost(size.scaled(TRAVERSAL_COST), Span(size.least + 2, (size.most * 2 + 2) & MOST))


def _second_traversed(factor: float) -> _Rule:
    return lambda _estimator, _node, _overload, operands: CallCost(_sized(operands[1]).scaled(factor))


def _matches(_estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    text = (_sized(operands[0]) + ONE).scaled(TRAVERSAL_COST)
    return CallCost(text.times(_sized(operands[1]).scaled(PATTERN_COST)))


def _contains(_estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    one, other = (_sized(operand).scaled(TRAVERSAL_COST) for operand in operands[:2])
    return CallCost(one.times(other))


def _added(*, is_list: bool) -> _Rule:
    def rule(estimator: Estimator, node: Call, _overload: str, operands: list[Operand]) -> CallCost:
        size = _sized(operands[0]) + _sized(operands[1])
        estimator.keep_entries(node, _joined(estimator.entries(operands[0]), estimator.entries(operands[1])))
        return CallCost(ONE if is_list else size.scaled(TRAVERSAL_COST), size)

    return rule


def _new_list(size: Span, factor: float = 1) -> CallCost:
    return CallCost(size.scaled(factor) + ONE + _fixed(LIST_COST), size)


def _literal(operand: Operand, otherwise: int) -> int:
    if isinstance(operand.node, Constant) and type(operand.node.value) is int:
        return max(operand.node.value, 0)
    return otherwise


def _slice(estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    end = _literal(operands[2], estimator.size(operands[0]).most)
    return _new_list(_fixed((end - _literal(operands[1], 0)) & MOST))


def _range(_estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    return _new_list(_fixed(_literal(operands[0], MOST)))


def _reverse(estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    return _new_list(estimator.size(operands[0]))


def _flatten(estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
    depth = _literal(operands[1], MOST) if len(operands) > 1 else 1
    return _new_list(estimator.size(operands[0]), depth)


def _quadratic(position: int) -> _Rule:
    """Return the rule of functions that compare each item of a list with each other."""

    def rule(estimator: Estimator, node: Call, overload: str, operands: list[Operand]) -> CallCost:
        size = estimator.size(operands[position])
        is_text = node.function != "distinct" and overload.startswith(("list_string", "list_bytes"))
        return _new_list(size.times(size), 2 + TRAVERSAL_COST if is_text else 2)

    return rule


def _sets(factor: int) -> _Rule:
    def rule(estimator: Estimator, _node: Call, _overload: str, operands: list[Operand]) -> CallCost:
        size = estimator.size(operands[0]).times(estimator.size(operands[1]))
        return CallCost(size.scaled(factor) + ONE)

    return rule


_OF_LISTS: Mapping[str, _Rule] = {
    "slice": _slice, "lists.range": _range, "reverse": _reverse, "flatten": _flatten, "distinct": _quadratic(0),
    "sort": _quadratic(0), "@sortByAssociatedKeys": _quadratic(1), "sets.contains": _sets(1),
    "sets.intersects": _sets(1), "sets.equivalent": _sets(2),
}  # fmt: skip
_NOMINAL = (
    "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name", "allowed", "reason", "error",
    "errored", "masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast",
    "isLinkLocalUnicast", "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger", "asApproximateFloat",
    "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch", "getScheme", "getHostname",
    "getHost", "getPort", "getEscapedPath", "getQuery",
)  # fmt: skip
_BY_FUNCTION: Mapping[str, _Rule] = {
    **dict.fromkeys(_NOMINAL, _constant_cost(1)),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _each_item),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _traversal(keeps_size=True)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _traversal(keeps_size=True)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _traversal()),
    **dict.fromkeys(("find", "findAll"), _find), **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    "check": _constant_cost(AUTHORIZATION_COST), "replace": _replace, "split": _split, "join": _join, "ip": _ip,
    "ip.isCanonical": _traversal(2 * TRAVERSAL_COST), "containsIP": _contains_address(is_network=False),
    "containsCIDR": _contains_address(is_network=True), "validate": _validate, "_==_": _equals,
}  # fmt: skip
_BY_OVERLOAD: Mapping[str, _Rule] = {
    **dict.fromkeys(
        (f"{kind}_{of}" for kind in ("less", "greater", "less_equals", "greater_equals") for of in ("string", "bytes")),
        _compared,
    ),
    "equals": _compared, "not_equals": _compared, "add_string": _added(is_list=False),
    "add_bytes": _added(is_list=False), "add_list": _added(is_list=True), "string_to_bytes": _bytes_of_text,
    "bytes_to_string": _text_of_bytes, "strings_quote": _quote, "string_format": _traversal(),
    "starts_with_string": _second_traversed(TRAVERSAL_COST), "ends_with_string": _second_traversed(TRAVERSAL_COST),
    "in_list": _second_traversed(1), "matches_string": _matches, "contains_string": _contains,
}  # fmt: skip
