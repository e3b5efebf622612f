"""Plants defects in a copy of the project: the code is found by its structure, not by its text.

A pattern is Python code in which a name of one capital letter stands for any code, the same code wherever it is
repeated, and the arguments `...` for any arguments. So a defect survives that code is reformatted or moved to another
module, and that its variables are renamed.
"""

import ast
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import NamedTuple

# Where a function is looked for, in this order: in the Job controller, in the library, in the development cluster, in
# the CronJob controller.
_PACKAGES = (Path("controllers/job"), Path("kcr"), Path("devcluster/kcr_devcluster"), Path("controllers/cronjob"))
_UNCOMPARED = frozenset({"ctx", "type_comment", "kind"})
Bound = dict[str, ast.AST]


class Edit(NamedTuple):
    """A change of the one place that matches a pattern in the functions of one name.

    Attributes:
        function: A function, a method, or a variable of a module.
        pattern: An expression or a statement in it.
        by: What it becomes; may use the capitals of the pattern.
        argument: The keyword argument to change instead of a pattern: `callee.argument`.
        also: A statement to run before the one that matches, instead of a change of it.
    """

    function: str
    pattern: str = ""
    by: str = "pass"
    argument: str = ""
    also: str = ""


class Defect(NamedTuple):
    """What is wrong, in a word, and what makes it so."""

    name: str
    edits: tuple[Edit, ...]

    def changed(self, tree: Path) -> dict[Path, str]:
        """Return the modules of a copy of the project that the defect changes, as they are with it.

        Raises:
            LookupError: A place is not there exactly once: the code has changed, and the defect has to follow.
        """
        modules: dict[Path, ast.Module] = {}
        changes: list[tuple[Path, _Change]] = []
        for edit in self.edits:
            path, node, bound = self._find(edit, tree)
            if path not in modules:
                modules[path] = ast.parse(path.read_text())
            # The other one has the same nodes in the same order, until the first change.
            number = [id(one) for one in ast.walk(_parsed(path))].index(id(node))
            changes.append((path, _Change(edit, list(ast.walk(modules[path]))[number], bound)))
        for path, change in changes:
            change.visit(modules[path])
        return {path: ast.unparse(ast.fix_missing_locations(module)) for path, module in modules.items()}

    def plant(self, tree: Path) -> None:
        """Change a copy of the project."""
        for path, text in self.changed(tree).items():
            path.write_text(text)

    def _find(self, edit: Edit, tree: Path) -> tuple[Path, ast.AST, Bound]:
        for package in _PACKAGES:
            found = [
                (path, node, bound)
                for path, text in _sources(tree / package)
                if f"def {edit.function}(" in text or f"{edit.function}: " in text
                for scope in _scopes(_parsed(path), edit.function)
                for node, bound in _matches(edit, scope)
            ]
            if len(found) == 1:
                return found[0]
            if found:
                break
        what = f"the argument {edit.argument!r}" if edit.argument else repr(edit.pattern)
        raise LookupError(
            f"{self.name}: {what} was found {len(found)} times in functions called {edit.function!r};"
            " the defect has to follow the code"
        )


def defect(name: str, *edits: Edit) -> Defect:
    """Return a defect."""
    return Defect(name, edits)


@cache
def _sources(package: Path) -> list[tuple[Path, str]]:
    return [(path, path.read_text()) for path in sorted(package.rglob("*.py"))]


@cache
def as_written(path: Path) -> str:
    """Return a module as `Defect.changed` would without a defect."""
    return ast.unparse(_parsed(path))


@cache
def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _scopes(module: ast.Module, name: str) -> Iterator[ast.AST]:
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name:
                yield node
            case ast.AnnAssign(target=ast.Name(id=target)) if target == name:
                yield node


def _matches(edit: Edit, scope: ast.AST) -> Iterator[tuple[ast.AST, Bound]]:
    pattern = _code(edit.pattern) if edit.pattern else None
    for node in ast.walk(scope):
        bound: Bound = {}
        if pattern is not None:
            if _match(pattern, node, bound):
                yield node, bound
        elif isinstance(node, ast.Call):
            callee, _, argument = edit.argument.partition(".")
            if ast.unparse(node.func).rpartition(".")[2] == callee:
                yield from ((keyword.value, bound) for keyword in node.keywords if keyword.arg == argument)


def _code(text: str) -> ast.AST:
    """Return an expression or a statement."""
    (statement,) = ast.parse(text).body
    return statement.value if isinstance(statement, ast.Expr) else statement


def _match(pattern: object, node: object, bound: Bound) -> bool:
    if isinstance(pattern, list) and isinstance(node, list):
        if len(pattern) == 1 and isinstance(pattern[0], ast.Constant) and pattern[0].value is Ellipsis:
            return True
        return len(pattern) == len(node) and all(_match(*pair, bound) for pair in zip(pattern, node, strict=True))
    if not isinstance(pattern, ast.AST) or not isinstance(node, ast.AST):
        return pattern == node
    if isinstance(pattern, ast.Name) and _is_wildcard(pattern.id):
        known = bound.setdefault(pattern.id, node)
        return known is node or ast.unparse(known) == ast.unparse(node)
    if type(pattern) is not type(node):
        return False
    fields = (name for name in pattern._fields if name not in _UNCOMPARED)
    return all(_match(getattr(pattern, name), getattr(node, name), bound) for name in fields)


def _is_wildcard(name: str) -> bool:
    return len(name) == 1 and name.isupper()


class _Change(ast.NodeTransformer):
    """Puts other code in the place of one node, or a statement before it."""

    def __init__(self, edit: Edit, target: ast.AST, bound: Bound) -> None:
        self._edit = edit
        self._target = target
        self._bound = bound

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        if isinstance(node, ast.Expr) and node.value is self._target and self._edit.by == "pass":
            return ast.Pass()
        if node is not self._target:
            return self.generic_visit(node)
        if self._edit.also:
            return [*_Filled(self._bound).visit(ast.parse(self._edit.also)).body, node]
        made: ast.AST = _Filled(self._bound).visit(_code(self._edit.by))
        return made


class _Filled(ast.NodeTransformer):
    """Puts the code that the capitals stand for in their place."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound

    def visit_Name(self, node: ast.Name) -> ast.AST:  # the name that ast calls
        return deepcopy(self._bound[node.id]) if _is_wildcard(node.id) else node
