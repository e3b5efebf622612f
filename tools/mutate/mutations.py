"""The small changes of a module, each of which some test has to notice.

A change is a replacement of a few bytes: a comparison with the next one or its opposite, `and` with `or`, a condition
with its negation, a number with the next one, a word with another, a sum with a difference, `min` with `max`, a result
with None; a call without one of its arguments; a statement that is left out.

Left out is what no behaviour depends on: docstrings, annotations, types, decorators, `if TYPE_CHECKING`, `__repr__`,
`__all__`, logs, f-strings, and texts: strings with a space, and those of exceptions and of help.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

_COMPARISONS: dict[type[ast.cmpop], tuple[str, tuple[str, ...]]] = {
    ast.Lt: ("<", ("<=", ">=")),
    ast.LtE: ("<=", ("<", ">")),
    ast.Gt: (">", (">=", "<=")),
    ast.GtE: (">=", (">", "<")),
    ast.Eq: ("==", ("!=",)),
    ast.NotEq: ("!=", ("==",)),
    ast.Is: (r"\bis\b", ("is not",)),
    ast.IsNot: (r"\bis\s+not\b", ("is",)),
    ast.In: (r"\bin\b", ("not in",)),
    ast.NotIn: (r"\bnot\s+in\b", ("in",)),
}
_SUMS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
}
_EXTREMES = {"min": "max", "max": "min"}
_LOGS = {"_log", "log", "_logger", "logger", "logging", "warnings"}
_TYPES = {"Annotated", "Literal", "NewType", "ParamSpec", "TypeVar", "TypeVarTuple", "cast"}
_UNREAD = {"__all__", "__slots__"}
_TEXTS = {"description", "help", "help_text", "message"}
_SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "type_params", "bound"}
_LONGEST = 60


class Mutant(NamedTuple):
    """One change of one module.

    Attributes:
        path: The module, from the root of the project.
        function: The function or method, with its class; `<module>` outside.
        entry: The outermost function around it, by which the tests that call it are found; empty outside.
        start: Where the replaced bytes begin.
        end: And end.
        kind: What is changed, such as `comparison`; a sample has as many of each.
        before: The code that is changed, on one line and shortened.
        by: What replaces it.
        number: Which one it is, of those that look the same in a function.
    """

    path: str
    function: str
    entry: str
    start: int
    end: int
    kind: str
    before: str
    by: str
    number: int = 1

    @property
    def identity(self) -> str:
        """What names it in the table of verdicts, and does not change with the line."""
        again = f" #{self.number}" if self.number > 1 else ""
        return f"{self.path} {self.function}: {self.before} => {self.by or 'nothing'}{again}"

    def apply(self, source: bytes) -> bytes:
        """Return a module with the change."""
        return source[: self.start] + self.by.encode() + source[self.end :]


def mutants(path: str, source: bytes) -> list[Mutant]:
    """Return all changes of a module that leave it valid Python, in the order of its code."""
    found = _Finder(path, source).find()
    seen: Counter[str] = Counter()
    numbered = []
    for one in found:
        seen[one.identity] += 1
        numbered.append(one._replace(number=seen[one.identity]))
    return numbered


def is_valid(mutant: Mutant, source: bytes) -> bool:
    """Return whether a changed module can be compiled: a removed argument may leave a comma."""
    try:
        compile(mutant.apply(source), mutant.path, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


class _Finder:
    """Walks through a module, and knows in which function it is."""

    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self._scopes: list[str] = []
        self._entry = ""

    def find(self) -> list[Mutant]:
        return [one for node in ast.parse(self._source).body for one in self._visit(node)]

    def _visit(self, node: ast.AST) -> Iterator[Mutant]:
        if _is_skipped(node):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from self._enter(node)
            return
        yield from self._changes(node)
        yield from self._children(node)

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> Iterator[Mutant]:
        outer = self._entry
        self._scopes.append(node.name)
        if not isinstance(node, ast.ClassDef) and not outer:
            self._entry = ".".join(self._scopes)
        yield from self._children(node)
        self._scopes.pop()
        self._entry = outer

    def _children(self, node: ast.AST) -> Iterator[Mutant]:
        for name, value in ast.iter_fields(node):
            if name in _SKIPPED_FIELDS:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_text(node, child):
                    yield from self._visit(child)

    def _changes(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                pattern, others = _COMPARISONS[type(operator)]
                for by in others:
                    yield from self._operator("comparison", left, right, pattern, by)
            case ast.BoolOp(op=operator, values=values):
                old, new = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
                for left, right in pairwise(values):
                    yield from self._operator("condition", left, right, rf"\b{old}\b", new)
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _SUMS:
                yield from self._operator("arithmetic", left, right, *_SUMS[type(operator)])
            case ast.UnaryOp(op=ast.Not()):
                yield self._mutant("condition", node, self._offset(node), self._offset(node) + len("not "), "")
            case ast.Constant(value=value):
                yield from self._constant(node, value)
            case ast.Call():
                yield from self._call(node)
            case ast.stmt():
                yield from self._statement(node)

    def _statement(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield self._mutant("result", node, self._offset(value), self._end(value), "None")
            case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Delete() | ast.Raise():
                yield self._whole("statement", node, "pass")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield self._whole("statement", node, "pass")
            case ast.Break():
                yield self._whole("statement", node, "continue")
            case ast.Continue():
                yield self._whole("statement", node, "break")
            case ast.If(test=test) | ast.While(test=test) if not _is_condition(test):
                code = self._code(test)
                yield self._mutant("condition", test, self._offset(test), self._end(test), f"not ({code})")

    def _operator(self, kind: str, left: ast.AST, right: ast.AST, pattern: str, by: str) -> Iterator[Mutant]:
        """Yield a change of the operator between two operands, which may be in parentheses."""
        start = self._end(left)
        found = re.search(pattern.encode(), self._source[start : self._offset(right)])
        if found is not None:
            yield self._mutant(kind, (left, right), start + found.start(), start + found.end(), by)

    def _constant(self, node: ast.Constant, value: object) -> Iterator[Mutant]:
        match value:
            case bool():
                yield self._whole("constant", node, str(not value))
            case int() | float():
                yield self._whole("constant", node, repr(value + 1))
            case "":
                yield self._whole("word", node, '"mutated"')
            case str():
                yield self._whole("word", node, '""')

    def _call(self, node: ast.Call) -> Iterator[Mutant]:
        if (name := _name(node.func)) in _EXTREMES and isinstance(node.func, ast.Name):
            yield self._mutant("arithmetic", node, self._offset(node.func), self._end(node.func), _EXTREMES[name])
        given: list[ast.AST] = sorted([*node.args, *node.keywords], key=self._offset)
        for place, argument in enumerate(given):
            is_last = len(node.args) > 1 and argument is node.args[-1]
            if _is_text(node, argument):
                continue
            if isinstance(argument, ast.keyword) or is_last:
                start = self._end(given[place - 1]) if place else self._offset(argument)
                yield self._mutant("argument", node, start, self._end(argument), "")

    def _whole(self, kind: str, node: ast.AST, by: str) -> Mutant:
        return self._mutant(kind, node, self._offset(node), self._end(node), by)

    def _mutant(self, kind: str, node: ast.AST | tuple[ast.AST, ast.AST], start: int, end: int, by: str) -> Mutant:
        where = ".".join(self._scopes) or "<module>"
        first, last = node if isinstance(node, tuple) else (node, node)
        replaced = " ".join(self._source[start:end].decode().split())
        context = " ".join(self._source[self._offset(first) : self._end(last)].decode().split())
        before = context if replaced == context else f"`{replaced}` in {context}"
        return Mutant(self._path, where, self._entry, start, end, kind, before[:_LONGEST], by)

    def _code(self, node: ast.AST) -> str:
        return self._source[self._offset(node) : self._end(node)].decode()

    def _offset(self, node: ast.AST) -> int:
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]  # of all nodes that are changed
        return int(self._lines[line - 1] + column)

    def _end(self, node: ast.AST) -> int:
        line, column = node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]  # see above
        return int(self._lines[line - 1] + column)


def _is_condition(test: ast.AST) -> bool:
    """Return whether a condition has a change of its own that negates it."""
    return isinstance(test, ast.Compare | ast.BoolOp | ast.Constant) or (
        isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    )


def _is_skipped(node: ast.AST) -> bool:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.Import() | ast.ImportFrom() | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.FunctionDef(name="__repr__" | "__str__"):
            return True
        case ast.Assign(targets=[ast.Name(id=name)]) if name in _UNREAD:
            return True
        case ast.Expr(value=call):
            return _is_log(call)
        case ast.Call():
            return _is_log(node) or _name(node.func) in _TYPES
        case ast.Subscript(value=ast.Name(id=name)):
            return name in _TYPES
    return False


def _is_log(node: ast.AST) -> bool:
    """Return whether a call writes a log: of a logger, or of what one of its methods has returned."""
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Attribute) and node.attr in _LOGS:
            return True
    return isinstance(node, ast.Name) and node.id in _LOGS


def _is_text(parent: ast.AST, child: ast.AST) -> bool:
    """Return whether code is for people: the text of an exception, or of help."""
    match child:
        case ast.keyword(arg=name):
            return name in _TEXTS
        case ast.JoinedStr():
            return True
        case ast.Constant(value=str() as text):
            return " " in text
    return isinstance(parent, ast.Raise) and isinstance(child, ast.Call)


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
