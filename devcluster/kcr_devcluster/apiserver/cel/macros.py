"""The macros: calls that become other expressions before their types are checked.

Source: github.com/google/cel-spec/doc/langdef.md, "Macros"; github.com/google/cel-go/parser/macro.go,
cel/library.go and ext/{comprehensions,lists}.go.
"""

from collections.abc import Callable, Mapping

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

ACCUMULATOR = "@result"
_UNUSED, _SORTED = "#unused", "@__sortBy_input__"
_OVERWRITES = "iteration variable overwrites accumulator variable"


class MacroError(Exception):
    """The arguments are not what a macro takes.

    Args:
        node: The argument that is wrong.
        words: What is wrong.
    """

    def __init__(self, node: Node, words: str) -> None:
        super().__init__(words)
        self.node = node


class Builder:
    """Makes nodes with ids of their own, at the place of the macro.

    Args:
        new_id: Returns an id.
    """

    def __init__(self, new_id: Callable[[], int]) -> None:
        self._id = new_id

    def ident(self, name: str = ACCUMULATOR) -> Node:
        """Return the name of a variable."""
        return Ident(self._id(), name)

    def constant(self, value: object) -> Node:
        """Return a literal."""
        return Constant(self._id(), value)

    def list(self, *items: Node) -> Node:
        """Return a list."""
        return ListLiteral(self._id(), items, frozenset())

    def map(self) -> Node:
        """Return an empty map."""
        return MapLiteral(self._id(), "", ())

    def call(self, function: str, *arguments: Node, target: Node | None = None) -> Node:
        """Return a call."""
        return Call(self._id(), target, function, arguments)

    def test(self, of: Select) -> Node:
        """Return whether a field is there."""
        return Select(self._id(), of.operand, of.field, True)

    def bound(self, name: str, value: Node, result: Node) -> Node:
        """Return an expression in which a value has a name."""
        return Comprehension(
            self._id(), _UNUSED, "", self.list(), name, value, self.constant(False), self.ident(name), result
        )

    def fold(
        self, over: Node, names: tuple[str, str], parts: tuple[Node, Node, Node, Node], accumulator: str = ACCUMULATOR
    ) -> Node:
        """Return a fold.

        Args:
            over: The list or map.
            names: The variables of a round, the second `""` where there is one.
            parts: The start, the condition, the step and the result.
            accumulator: The name of what is put together.
        """
        start, condition, step, result = parts
        return Comprehension(self._id(), *names, over, accumulator, start, condition, step, result)

    def copied(self, node: Node) -> Node:
        """Return a node again, with new ids."""
        match node:
            case Select():
                return node._replace(id=self._id(), operand=self.copied(node.operand))
            case Call():
                target = None if node.target is None else self.copied(node.target)
                return node._replace(id=self._id(), target=target, arguments=tuple(map(self.copied, node.arguments)))
            case ListLiteral():
                return node._replace(id=self._id(), items=tuple(map(self.copied, node.items)))
            case MapLiteral():
                entries = tuple(
                    entry._replace(
                        id=self._id(), value=self.copied(entry.value),
                        key=entry.key if isinstance(entry.key, str) else self.copied(entry.key),
                    )
                    for entry in node.entries
                )  # fmt: skip
                return node._replace(id=self._id(), entries=entries)
            case Comprehension():
                over, start, condition, step, result = (
                    self.copied(one) for one in (node.over, node.start, node.condition, node.step, node.result)
                )
                return node._replace(
                    id=self._id(), over=over, start=start, condition=condition, step=step, result=result
                )
        return node._replace(id=self._id())


_Macro = Callable[[Builder, Node | None, tuple[Node, ...]], Node | None]
_Body = Callable[[Builder, Node, tuple[str, str], tuple[Node, ...]], Node]


def _has(build: Builder, _target: Node | None, arguments: tuple[Node, ...]) -> Node:
    (argument,) = arguments
    if isinstance(argument, Select) and not argument.is_test:
        return build.test(argument)
    raise MacroError(argument, "invalid argument to has() macro")


def _with_one(body: _Body, words: str) -> _Macro:
    """Return a macro whose first argument names a variable."""

    def macro(build: Builder, target: Node | None, arguments: tuple[Node, ...]) -> Node:
        assert target is not None
        return body(build, target, (_variable(arguments[0], words), ""), arguments[1:])

    return macro


def _with_two(body: _Body) -> _Macro:
    """Return a macro whose first two arguments name variables."""

    def macro(build: Builder, target: Node | None, arguments: tuple[Node, ...]) -> Node:
        assert target is not None
        first, second = (_variable(one, "argument must be a simple name") for one in arguments[:2])
        if first == second:
            raise MacroError(arguments[1], f"duplicate variable name: {first}")
        return body(build, target, (first, second), arguments[2:])

    return macro


def _variable(node: Node, words: str) -> str:
    if not isinstance(node, Ident) or node.name.startswith("."):
        raise MacroError(node, words)
    if node.name in (ACCUMULATOR, "__result__"):
        raise MacroError(node, _OVERWRITES)
    return node.name


def _all(build: Builder, target: Node, names: tuple[str, str], rest: tuple[Node, ...]) -> Node:
    going = build.call("@not_strictly_false", build.ident())
    step = build.call("_&&_", build.ident(), rest[0])
    return build.fold(target, names, (build.constant(True), going, step, build.ident()))


def _exists(build: Builder, target: Node, names: tuple[str, str], rest: tuple[Node, ...]) -> Node:
    going = build.call("@not_strictly_false", build.call("!_", build.ident()))
    step = build.call("_||_", build.ident(), rest[0])
    return build.fold(target, names, (build.constant(False), going, step, build.ident()))


def _exists_one(build: Builder, target: Node, names: tuple[str, str], rest: tuple[Node, ...]) -> Node:
    more = build.call("_+_", build.ident(), build.constant(1))
    step = build.call("_?_:_", rest[0], more, build.ident())
    result = build.call("_==_", build.ident(), build.constant(1))
    return build.fold(target, names, (build.constant(0), build.constant(True), step, result))


def _listed(build: Builder, target: Node, names: tuple[str, str], rest: tuple[Node, ...]) -> Node:
    step = build.call("_+_", build.ident(), build.list(rest[-1]))
    return _collected(build, target, names, (build.list(), step, *rest[:-1]))


def _mapped(build: Builder, target: Node, names: tuple[str, str], rest: tuple[Node, ...]) -> Node:
    step = build.call("cel.@mapInsert", build.ident(), build.ident(names[0]), rest[-1])
    return _collected(build, target, names, (build.map(), step, *rest[:-1]))


def _mapped_entries(build: Builder, target: Node, names: tuple[str, str], rest: tuple[Node, ...]) -> Node:
    step = build.call("cel.@mapInsert", build.ident(), rest[-1])
    return _collected(build, target, names, (build.map(), step, *rest[:-1]))


def _collected(build: Builder, target: Node, names: tuple[str, str], parts: tuple[Node, ...]) -> Node:
    """Return the fold of a start by a step, on a condition if there is one."""
    start, step, *conditions = parts
    for condition in conditions:
        step = build.call("_?_:_", condition, step, build.ident())
    return build.fold(target, names, (start, build.constant(True), step, build.ident()))


def _filtered(build: Builder, target: Node, names: tuple[str, str], rest: tuple[Node, ...]) -> Node:
    return _listed(build, target, names, (rest[0], build.ident(names[0])))


def _optional(name: str) -> _Macro:
    def macro(build: Builder, target: Node | None, arguments: tuple[Node, ...]) -> Node:
        variable, body = arguments
        if not isinstance(variable, Ident):
            raise MacroError(variable, f"{name}() variable name must be a simple identifier")
        assert target is not None
        bound = build.bound(variable.name, build.call("value", target=build.copied(target)), body)
        if name == "optMap":
            bound = build.call("optional.of", bound)
        there = build.call("hasValue", target=target)
        return build.call("_?_:_", there, bound, build.call("optional.none"))

    return macro


def _sorted_by(build: Builder, target: Node | None, arguments: tuple[Node, ...]) -> Node:
    if target is None or isinstance(target, Constant | MapLiteral):
        words = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(target or arguments[0], words)
    keys = _LISTED(build, build.ident(_SORTED), arguments)
    assert keys is not None
    result = build.call("@sortByAssociatedKeys", keys, target=build.ident(_SORTED))
    return build.bound(_SORTED, target, result)


_NAME, _IDENTIFIER = "argument must be a simple name", "argument is not an identifier"
_LISTED = _with_one(_listed, _IDENTIFIER)

# By the name, whether it is called on a value, and the number of arguments.
MACROS: Mapping[tuple[str, bool, int], _Macro] = {
    ("has", False, 1): _has,
    ("all", True, 2): _with_one(_all, _NAME), ("exists", True, 2): _with_one(_exists, _NAME),
    ("exists_one", True, 2): _with_one(_exists_one, _NAME),
    **{("map", True, size): _LISTED for size in (2, 3)},
    ("filter", True, 2): _with_one(_filtered, _IDENTIFIER),
    ("all", True, 3): _with_two(_all), ("exists", True, 3): _with_two(_exists),
    **{(name, True, 3): _with_two(_exists_one) for name in ("exists_one", "existsOne")},
    **{("transformList", True, size): _with_two(_listed) for size in (3, 4)},
    **{("transformMap", True, size): _with_two(_mapped) for size in (3, 4)},
    **{("transformMapEntry", True, size): _with_two(_mapped_entries) for size in (3, 4)},
    ("optMap", True, 2): _optional("optMap"), ("optFlatMap", True, 2): _optional("optFlatMap"),
    ("sortBy", True, 2): _sorted_by,
}  # fmt: skip
