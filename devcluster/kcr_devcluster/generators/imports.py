"""The imports of a module in the order that formatters give them, which depends on the name of the project."""

import ast
import sys
from collections.abc import Iterator
from itertools import groupby

# As `[tool.ruff]` of a new project says.
LINE_LENGTH = 120


def with_sorted_imports(source: str, package: str) -> str:
    """Return a module with the imports at its beginning sorted in blocks: of Python, of other packages, its own.

    Args:
        source: A module whose imports follow each other without comments.
        package: The package that the module belongs to.

    Source: the default order of ruff and isort (rule I001).
    """
    imports = list(_imports(ast.parse(source)))
    if not imports:
        return source
    ordered = sorted(imports, key=lambda one: (_block(one, package), isinstance(one, ast.ImportFrom), _module(one)))
    blocks = ("".join(map(_line, block)) for _, block in groupby(ordered, key=lambda one: _block(one, package)))
    lines = source.splitlines(keepends=True)
    first, last = imports[0].lineno - 1, imports[-1].end_lineno
    return "".join([*lines[:first], "\n".join(blocks), *lines[last:]])


def _imports(module: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    for statement in module.body:
        match statement:
            case ast.Import() | ast.ImportFrom():
                yield statement
            case ast.Expr(value=ast.Constant()):
                continue
            case _:
                return


def _module(one: ast.Import | ast.ImportFrom) -> str:
    return (one.module or "") if isinstance(one, ast.ImportFrom) else one.names[0].name


def _block(one: ast.Import | ast.ImportFrom, package: str) -> int:
    top = _module(one).partition(".")[0]
    if top in sys.stdlib_module_names:
        return 0
    return 2 if top == package else 1


def _line(one: ast.Import | ast.ImportFrom) -> str:
    line = f"{ast.unparse(one)}\n"
    if len(line) <= LINE_LENGTH + 1 or isinstance(one, ast.Import):
        return line
    names = "".join(f"    {ast.unparse(name)},\n" for name in one.names)
    return f"from {one.module} import (\n{names})\n"
