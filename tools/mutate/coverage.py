"""Which tests call which functions: each function of a copy of the project notes that it was called.

Tracing takes longer than the tests themselves. A line at the start of each function takes next to nothing.

This module is also the plugin of pytest, `-p tools.mutate.coverage`, that writes a line of JSON per test: its id, how
long it took, and the functions.
"""

import ast
import builtins
import hashlib
import json
import os
import sys
import time
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

FOLDER = "MUTATE_COVERAGE"
PACKAGES = ("kcr", "controllers", "devcluster/kcr_devcluster/apiserver")
_SET = "KCR_CALLED"
# Python runs it before all else, in each process.
SITE = f"import builtins\nbuiltins.{_SET} = set()\n"
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Recorded(NamedTuple):
    """What one test has called.

    Attributes:
        test: Its id.
        digest: The hash of its file.
        seconds: How long it took.
        functions: `path:name` of each function or method; those inside of others count as these.
    """

    test: str
    digest: str
    seconds: float
    functions: frozenset[str]


def noting(path: str, source: bytes) -> bytes:
    """Return a module whose functions note that they were called."""
    lines = source.splitlines(keepends=True)
    # From the last one, so that the lines before stay where they are.
    for name, node in sorted(_functions(ast.parse(source).body, ""), key=lambda pair: -pair[1].lineno):
        first = node.body[1] if ast.get_docstring(node) is not None and len(node.body) > 1 else node.body[0]
        # A decorated function inside begins with its decorator.
        line = min([first.lineno, *(one.lineno for one in getattr(first, "decorator_list", []))])
        indent = lines[line - 1][: first.col_offset]
        if not indent.strip():
            lines.insert(line - 1, indent + f"{_SET}.add({f'{path}:{name}'!r})\n".encode())
    return b"".join(lines)


def _functions(body: list[ast.stmt], scope: str) -> Iterator[tuple[str, _Function]]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield scope + name, node
            case ast.ClassDef(name=name, body=inner):
                yield from _functions(inner, f"{scope}{name}.")
            case ast.If(body=inner, orelse=other):
                yield from _functions([*inner, *other], scope)


@cache
def digest(path: Path) -> str:
    """Return the hash of a file: of tests that have changed since, nothing is known."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Write what a test, with its fixtures, has called."""
    called: set[str] = getattr(builtins, _SET)
    called.clear()
    start = time.perf_counter()
    try:
        return (yield)
    finally:
        seconds = round(time.perf_counter() - start, 3)
        line = {"test": item.nodeid, "digest": digest(item.path), "seconds": seconds, "functions": sorted(called)}
        # A process of xdist has a file of its own.
        with (Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def read(folder: Path) -> Iterator[Recorded]:
    """Yield what the tests have called."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            yield Recorded(row["test"], row["digest"], row["seconds"], frozenset(map(sys.intern, row["functions"])))
