"""The check of types: what type each part of an expression has, and which overloads its calls may take.

Source: github.com/google/cel-spec/doc/langdef.md; github.com/google/cel-go/checker/checker.go.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from typing import NamedTuple, Protocol

from kcr_devcluster.apiserver.cel.libraries import Overload, functions
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
    Parsed,
    Select,
    SyntaxIssue,
    shown,
)
from kcr_devcluster.apiserver.cel.types import (
    BOOL,
    DURATION,
    DYN,
    ERROR,
    INT,
    STRING,
    TIMESTAMP,
    TYPE_NAMES,
    CelType,
    Substitutions,
    list_of,
    map_of,
    most_general,
    optional_of,
    parsed_type,
    type_of_type,
    unwrapped,
)
from kcr_devcluster.apiserver.cel.values import type_name

# Names that are known to the check, and to no program.
_UNUSABLE: Mapping[str, CelType] = {"timestamp": TIMESTAMP, "duration": DURATION}
_OPTIONAL_SELECT = "_?._"


class Declaration(NamedTuple):
    """How a function may be called.

    Attributes:
        overload: The overload.
        result: The type of its value.
        parameters: The types of its arguments, those of a member with the receiver first.
    """

    overload: Overload
    result: CelType
    parameters: tuple[CelType, ...]


class Types(Protocol):
    """What an environment knows of objects.

    Attributes:
        constructs: Whether expressions construct objects.
    """

    constructs: bool

    def field(self, type_name: str, field: str) -> CelType | None:
        """Return the type of a field of an object, None for a field that there is not.

        Args:
            type_name: The name of the object's type.
            field: The name of the field.
        """
        ...

    def constructed(self, type_name: str) -> CelType | None:
        """Return the type that an expression constructs by a name, None for no such type."""
        ...


class Environment(NamedTuple):
    """What an expression may name.

    Attributes:
        variables: The types of the variables.
        types: The types of objects.
    """

    variables: Mapping[str, CelType]
    types: Types


class Checked(NamedTuple):
    """An expression whose types are checked.

    Attributes:
        parsed: The expression.
        root: Its tree, in which qualified names of types and functions are resolved.
        types: The types of its nodes, by their ids.
        overloads: The ids of the overloads that calls may take, by the ids of the calls.
        result: The type of its value.
        environment: What it may name.
    """

    parsed: Parsed
    root: Node
    types: Mapping[int, CelType]
    overloads: Mapping[int, tuple[str, ...]]
    result: CelType
    environment: Environment


def _declared(overload: Overload) -> Declaration:
    return Declaration(overload, parsed_type(overload.returns), tuple(map(parsed_type, overload.parameters)))


# The operators that are evaluated in a way of their own.
_OPERATORS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "_&&_": ("logical_and", "bool", ("bool", "bool")), "_||_": ("logical_or", "bool", ("bool", "bool")),
    "_?_:_": ("conditional", "T", ("bool", "T", "T")), "_==_": ("equals", "bool", ("T", "T")),
    "_!=_": ("not_equals", "bool", ("T", "T")), "@not_strictly_false": ("not_strictly_false", "bool", ("bool",)),
}  # fmt: skip


def _no_call(*_values: object) -> object:
    raise NotImplementedError


@cache
def _declarations(*, with_patches: bool) -> Mapping[str, tuple[Declaration, ...]]:
    operators = {
        name: (_declared(Overload(found, returns, parameters, _no_call, False)),)
        for name, (found, returns, parameters) in _OPERATORS.items()
    }
    known = functions(with_patches=with_patches)
    return operators | {name: tuple(map(_declared, overloads)) for name, overloads in known.items()}


def declarations(name: str, *, with_patches: bool = True) -> tuple[Declaration, ...]:
    """Return how a function may be called; empty for no function.

    Args:
        name: Its name.
        with_patches: Whether those of patches are declared.
    """
    return _declarations(with_patches=with_patches).get(name, ())


def check(parsed: Parsed, environment: Environment) -> Checked:
    """Return an expression with its types.

    Args:
        parsed: The expression.
        environment: What it may name.

    Raises:
        CompilationError: Its types do not fit, or it names what is not there.
    """
    run = _Check(parsed, environment)
    root = run.visit(parsed.root)
    run.raise_issues()
    types = {at: run.found.resolved(one, is_final=True) for at, one in run.types.items()}
    return Checked(parsed, root, types, run.overloads, types[root.id], environment)


class _Check:
    """One check; `visit` returns a node with resolved names, and keeps its type."""

    def __init__(self, parsed: Parsed, environment: Environment) -> None:
        self.types: dict[int, CelType] = {}
        self.overloads: dict[int, tuple[str, ...]] = {}
        self.found = Substitutions()
        self._parsed, self._environment = parsed, environment
        self._locals: dict[str, CelType] = {}
        self._numbers = count()
        self._issues: list[SyntaxIssue] = []
        self._forms: Mapping[type, Callable[..., tuple[Node, CelType]]] = {
            Constant: self._constant, Ident: self._ident, Select: self._select, Call: self._call,
            ListLiteral: self._list, MapLiteral: self._map, Comprehension: self._comprehension,
        }  # fmt: skip

    def raise_issues(self) -> None:
        """Raise `CompilationError` if there are issues."""
        if self._issues:
            raise CompilationError(shown(self._parsed.text, self._issues))

    def visit(self, node: Node) -> Node:
        """Check a node and what is in it."""
        resolved, found = self._forms[type(node)](node)
        self.types[node.id] = found
        return resolved

    def _type(self, node: Node) -> CelType:
        return self.types[node.id]

    def _issue(self, at: int, words: str) -> None:
        self._issues.append(SyntaxIssue(self._parsed.positions.get(at, 0), words))

    def _fresh(self) -> CelType:
        return CelType("param", f"_var{next(self._numbers)}")

    def _fits(self, given: CelType, wanted: CelType) -> bool:
        return self.found.try_assign((given,), (wanted,))

    @staticmethod
    def _constant(node: Constant) -> tuple[Node, CelType]:
        return node, CelType(type_name(node.value))

    def _ident(self, node: Ident) -> tuple[Node, CelType]:
        found = self._locals.get(node.name) or self._global(node.name)
        if found is None:
            self._undeclared(node.id, node.name)
        return node._replace(name=node.name.lstrip(".")), found or ERROR

    def _global(self, name: str) -> CelType | None:
        name = name.lstrip(".")
        if (found := self._environment.variables.get(name)) is not None:
            return found
        named = TYPE_NAMES.get(name) or _UNUSABLE.get(name) or self._environment.types.constructed(name)
        return None if named is None else type_of_type(named)

    def _declares(self, name: str) -> bool:
        return bool(declarations(name, with_patches=self._environment.types.constructs))

    def _undeclared(self, at: int, name: str) -> None:
        self._issue(at, f"undeclared reference to '{name}' (in container '')")

    def _select(self, node: Select) -> tuple[Node, CelType]:
        if (name := qualified_name(node)) and name.partition(".")[0] not in self._locals:
            found = self._global(name)
            if found is not None:
                return Ident(node.id, name.lstrip(".")), found
        operand, found = self._field(node.id, node.operand, node.field)
        if node.is_test:
            found = BOOL
        return node._replace(operand=operand), self.found.resolved(found)

    def _field(self, at: int, operand: Node, field: str) -> tuple[Node, CelType]:
        """Return the operand of a selection, resolved, and the type of the field."""
        resolved = self.visit(operand)
        of, is_optional = unwrapped(self.found.resolved(self._type(operand)))
        found = DYN
        if of.kind == "map":
            found = of.parameters[1]
        elif of.kind == "struct":
            known = self._environment.types.field(of.name, field)
            if known is None:
                self._issue(at, f"undefined field '{field}'")
            found = known or ERROR
        elif of.kind == "param":
            self._fits(DYN, of)
        elif of.kind not in ("dyn", "error"):
            self._issue(at, f"type '{of}' does not support field selection")
        return resolved, optional_of(found) if is_optional else found

    def _call(self, node: Call) -> tuple[Node, CelType]:
        if node.function == _OPTIONAL_SELECT:
            return self._optional_select(node)
        arguments = tuple(map(self.visit, node.arguments))
        node = node._replace(arguments=arguments)
        target = node.target
        if target is not None:
            prefix = qualified_name(target)
            name = f"{prefix}.{node.function}".lstrip(".")
            if prefix and self._declares(name):
                node = node._replace(target=None, function=name)
            else:
                node = node._replace(target=self.visit(target))
        function = node.function.lstrip(".")
        if not self._declares(function):
            self._undeclared(node.id, node.function)
            return node, ERROR
        node = node._replace(function=function)
        given = tuple(self._type(one) for one in receiver_first(node))
        return node, self._resolve(node, given)

    def _resolve(self, node: Call, given: tuple[CelType, ...]) -> CelType:
        """Return the type of a call's value, and keep the overloads that it may take."""
        result = None
        chosen: list[str] = []
        for one in declarations(node.function):
            if one.overload.is_member != (node.target is not None):
                continue
            if node.function in ("_&&_", "_||_"):
                return self._logical(node, given)
            parameters, returned = self._instance(one)
            if not self.found.try_assign(given, parameters):
                continue
            chosen.append(one.overload.id)
            found = self.found.resolved(returned)
            result = found if result is None else result if result in (DYN, found) else DYN
        if result is None:
            shown_types = [str(self.found.resolved(one, is_final=True)) for one in given]
            target = f"{shown_types.pop(0)}." if node.target is not None else ""
            applied = f"{target}({', '.join(shown_types)})"
            self._issue(node.id, f"found no matching overload for '{node.function}' applied to '{applied}'")
            return ERROR
        self.overloads[node.id] = tuple(chosen)
        return result

    def _logical(self, node: Call, given: tuple[CelType, ...]) -> CelType:
        is_wrong = False
        for argument, found in zip(node.arguments, given, strict=True):
            if not self._fits(found, BOOL):
                self._issue(argument.id, f"expected type 'bool' but found '{found}'")
                is_wrong = True
        self.overloads[node.id] = ("logical_and" if node.function == "_&&_" else "logical_or",)
        return ERROR if is_wrong else BOOL

    def _instance(self, one: Declaration) -> tuple[tuple[CelType, ...], CelType]:
        """Return the parameters and the result of an overload, with fresh type parameters."""
        names = dict.fromkeys(found for part in (*one.parameters, one.result) for found in _parameters_in(part))
        if not names:
            return one.parameters, one.result
        fresh = Substitutions({name: self._fresh() for name in names})
        return tuple(map(fresh.resolved, one.parameters)), fresh.resolved(one.result)

    def _optional_select(self, node: Call) -> tuple[Node, CelType]:
        operand, field = node.arguments
        name = field.value if isinstance(field, Constant) else None
        if not isinstance(name, str):
            self._issue(field.id, "unsupported optional field selection: the field is no text")
            return node, ERROR
        resolved, found = self._field(node.id, operand, name)
        self.types[field.id] = STRING
        self.overloads[node.id] = ("select_optional_field",)
        found = self.found.resolved(found)
        return node._replace(arguments=(resolved, field)), found if unwrapped(found)[1] else optional_of(found)

    def _list(self, node: ListLiteral) -> tuple[Node, CelType]:
        joined = None
        items: list[Node] = []
        for position, item in enumerate(node.items):
            items.append(self.visit(item))
            found = self._content(item) if position in node.optional else self._type(item)
            joined = self._joined(joined, found)
        return node._replace(items=tuple(items)), list_of(joined or self._fresh())

    def _content(self, node: Node) -> CelType:
        """Return the type of what an optional item or entry has, if it has something."""
        found, is_optional = unwrapped(self._type(node))
        if not is_optional and found.kind != "dyn":
            self._issue(node.id, f"expected type '{optional_of(found)}' but found '{found}'")
        return found

    def _joined(self, before: CelType | None, found: CelType) -> CelType:
        if before is None:
            return found
        return most_general(before, found) if self._fits(before, found) else DYN

    def _map(self, node: MapLiteral) -> tuple[Node, CelType]:
        if node.type_name:
            return self._object(node)
        of_keys, of_values = None, None
        entries: list[Entry] = []
        for entry in node.entries:
            assert not isinstance(entry.key, str)
            key, value = self.visit(entry.key), self.visit(entry.value)
            of_keys = self._joined(of_keys, self._type(entry.key))
            found = self._content(entry.value) if entry.is_optional else self._type(entry.value)
            of_values = self._joined(of_values, found)
            entries.append(entry._replace(key=key, value=value))
        return node._replace(entries=tuple(entries)), map_of(of_keys or self._fresh(), of_values or self._fresh())

    def _object(self, node: MapLiteral) -> tuple[Node, CelType]:
        of = self._environment.types.constructed(node.type_name.lstrip("."))
        if of is None:
            named = TYPE_NAMES.get(node.type_name)
            if named is None:
                self._undeclared(node.id, node.type_name)
            else:
                self._issue(node.id, f"'{node.type_name}' is not a message type")
            return node, ERROR
        entries: list[Entry] = []
        for entry in node.entries:
            value = self.visit(entry.value)
            entries.append(entry._replace(value=value))
            # A field that there is not has a type without a name.
            field = self._environment.types.field(of.name, str(entry.key))
            found = self._content(entry.value) if entry.is_optional else self._type(entry.value)
            if field is None or not self._fits(field, found):
                words = f"expected type of field '{entry.key}' is '{field or ''}' but provided type is '{found}'"
                self._issue(entry.id, words)
        return node._replace(entries=tuple(entries)), of

    def _comprehension(self, node: Comprehension) -> tuple[Node, CelType]:
        over, start = self.visit(node.over), self.visit(node.start)
        ranged, accumulated = self.found.resolved(self._type(node.over)), self._type(node.start)
        outer = self._locals
        self._locals = {**outer, node.accumulator: accumulated}
        within = self._locals
        self._locals = within | self._iterated(node, ranged)
        condition = self.visit(node.condition)
        self._assert(node.condition, BOOL)
        step = self.visit(node.step)
        self._assert(node.step, accumulated)
        self._locals = within
        result = self.visit(node.result)
        self._locals = outer
        found = self.found.resolved(self._type(node.result))
        return node._replace(over=over, start=start, condition=condition, step=step, result=result), found

    def _iterated(self, node: Comprehension, ranged: CelType) -> dict[str, CelType]:
        """Return the types of the variables of a comprehension."""
        if ranged.kind == "list":
            item = ranged.parameters[0]
            return {node.variable: INT, node.second: item} if node.second else {node.variable: item}
        if ranged.kind == "map":
            key, entry = ranged.parameters
            return {node.variable: key, node.second: entry} if node.second else {node.variable: key}
        found = DYN
        if ranged.kind in ("dyn", "error", "param"):
            self._fits(DYN, ranged)
        else:
            found = ERROR
            words = f"expression of type '{ranged}' cannot be range of a comprehension (must be list, map, or dynamic)"
            self._issue(node.over.id, words)
        return dict.fromkeys(filter(None, (node.variable, node.second)), found)

    def _assert(self, node: Node, wanted: CelType) -> None:
        if not self._fits(wanted, self._type(node)):
            self._issue(node.id, f"expected type '{wanted}' but found '{self._type(node)}'")


def receiver_first(node: Call) -> tuple[Node, ...]:
    """Return the arguments of a call, those of a member with the receiver first."""
    return node.arguments if node.target is None else (node.target, *node.arguments)


def qualified_name(node: Node) -> str:
    """Return the name that a chain of selections spells, such as `ip.isCanonical`; `""` for other nodes."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.is_test:
        parts.append(node.field)
        node = node.operand
    return ".".join((node.name, *reversed(parts))) if isinstance(node, Ident) else ""


def _parameters_in(of: CelType) -> Iterator[CelType]:
    if of.kind == "param":
        yield of
    for one in of.parameters:
        yield from _parameters_in(one)


def inner_nodes(node: Node) -> Sequence[Node]:
    """Return the nodes that a node is made of."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return receiver_first(node)
        case ListLiteral():
            return node.items
        case MapLiteral():
            return [
                part for entry in node.entries for part in (entry.key, entry.value) if not isinstance(part, str)
            ]  # fmt: skip
        case Comprehension():
            return (node.over, node.start, node.condition, node.step, node.result)
    return ()
