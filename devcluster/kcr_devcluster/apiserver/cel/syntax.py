"""Syntax trees of expressions, and how errors in their texts are shown.

Source: github.com/google/cel-spec/proto/cel/expr/syntax.proto; github.com/google/cel-go/common/error.go.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

# Longer lines are not shown with their errors.
_LONGEST_LINE = 16_384
# What stands below a character that takes more than a byte.
_WIDE_DOT, _WIDE_MARK = "\uff0e", "\uff3e"


class SyntaxIssue(NamedTuple):
    """What is wrong in an expression.

    Attributes:
        offset: The place, in characters from the beginning; -1 for none.
        words: What is wrong, in cel-go's words.
    """

    offset: int
    words: str


class CompilationError(Exception):
    """An expression that does not compile; the message is cel-go's."""


class Constant(NamedTuple):
    """A literal of a scalar type."""

    id: int
    value: Any


class Ident(NamedTuple):
    """The name of a variable or of a type."""

    id: int
    name: str


class Select(NamedTuple):
    """A field of a value, or, for `has`, whether it is there."""

    id: int
    operand: "Node"
    field: str
    is_test: bool


class Call(NamedTuple):
    """A call of a function, of an operator or, with a target, of a member."""

    id: int
    target: "Node | None"
    function: str
    arguments: "tuple[Node, ...]"


class ListLiteral(NamedTuple):
    """A list; `optional` are the positions of the items that are left out where they have no value."""

    id: int
    items: "tuple[Node, ...]"
    optional: frozenset[int]


class Entry(NamedTuple):
    """An entry of a map, or a field of an object, whose key is its name."""

    id: int
    key: "Node | str"
    value: "Node"
    is_optional: bool


class MapLiteral(NamedTuple):
    """A map or, with the name of a type, an object."""

    id: int
    type_name: str
    entries: tuple[Entry, ...]


class Comprehension(NamedTuple):
    """What macros become: a fold over a list or map."""

    id: int
    variable: str
    second: str
    over: "Node"
    accumulator: str
    start: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"


Node = Constant | Ident | Select | Call | ListLiteral | MapLiteral | Comprehension


class Parsed(NamedTuple):
    """An expression as a tree.

    Attributes:
        text: The expression.
        root: Its tree.
        positions: The offset of each node in the text, in characters, by its id.
    """

    text: str
    root: Node
    positions: Mapping[int, int]


def shown(text: str, issues: list[SyntaxIssue]) -> str:
    """Return the issues of an expression as cel-go shows them, in the order of their places."""
    lines = text.split("\n")
    placed = sorted(((*_placed(text, one), one) for one in issues), key=lambda one: one[:2])
    return "\n".join(_shown("" if line < 0 else lines[line], line, column, one.words) for line, column, one in placed)


def _placed(text: str, issue: SyntaxIssue) -> tuple[int, int]:
    if issue.offset < 0:
        return -2, -1
    return text.count("\n", 0, issue.offset), issue.offset - text.rfind("\n", 0, issue.offset) - 1


def _shown(line: str, number: int, column: int, words: str) -> str:
    said = f"ERROR: <input>:{number + 1}:{column + 1}: {words}"
    if number < 0 or len(line.encode()) > _LONGEST_LINE:
        return said
    before = "".join("." if ord(one) < 128 else _WIDE_DOT for one in line[:column])
    mark = _WIDE_MARK if line[column : column + 1] > "\x7f" else "^"
    return f"{said}\n | {line.replace(chr(9), ' ')}\n | {before}{mark}"
