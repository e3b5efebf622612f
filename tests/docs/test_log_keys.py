"""The keys of log lines: docs/reference/logs.md has those of the code, and no others."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "logs.md"
# The test kit logs for its tests, and the development cluster for its user: neither is read by programs.
MODULES = [
    path
    for package in ("kcr", "controllers")
    for path in sorted((ROOT / package).rglob("*.py"))
    if path.relative_to(ROOT).parts[:2] not in (("kcr", "controllers"), ("kcr", "testing"))
]
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
BINDS = {"bind_contextvars", "bound_contextvars", "context_setters"}
# Made by the processors of `kcr.app.logs`, and by mappings that a line expands, with the module of each.
OF_PROCESSORS = {"event", "level", "timestamp", "logger", "exception", "trace_id", "span_id", "waited"}
EXPANDED = {
    "kcr/app/process.py": {"thread", "task", "where"},
    "kcr/app/run.py": {"controllers"},
    "kcr/client/calls.py": {"verb", "object"},
    "kcr/controller/observers/hot_loop.py": {"fields", "writers"},
    "kcr/informer/accumulator.py": {"request", "decode", "apply"},
    "kcr/log/ratelimited.py": {"controller", "namespace", "name"},
    # Of another's names: they are set and reset again.
    "kcr/log/__init__.py": set[str](),
}


def documented() -> set[str]:
    cells = re.findall(r"^\| (`.*?) \|", PAGE.read_text(), re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def logged_by(code: str) -> Iterator[str | None]:
    """Yield the keys of the lines of a module; None for a mapping that one expands."""
    for call in ast.walk(ast.parse(code)):
        if not isinstance(call, ast.Call):
            continue
        name = ast.unparse(call.func)
        logger, _, method = name.rpartition(".")
        if method in BINDS:
            yield from (str(one.value) for one in call.args if isinstance(one, ast.Constant))
        elif not (name == "log" or (method in LEVELS and re.search("log|failures", logger, re.IGNORECASE))):
            continue
        yield from (keyword.arg for keyword in call.keywords)


@pytest.mark.parametrize(
    ("code", "keys"),
    [
        ('_log.info("ready", lease=1)', ["lease"]),
        ('get_logger().warning("late", **fields)', [None]),
        ('self._failures.error(now, "lost", kind=kind)', ["kind"]),
        ('log("event", note=text)', ["note"]),
        ("bind_contextvars(controller=name)", ["controller"]),
        ('context_setters("namespace", "name")', ["namespace", "name"]),
        ('click.echo("done", err=True)', []),
    ],
)
def test_keys_of_a_line_are_found(code: str, keys: list[str | None]) -> None:
    assert list(logged_by(code)) == keys


def test_page_has_the_keys_of_the_code() -> None:
    found = dict[str, set[str | None]]()
    for path in MODULES:
        if keys := set(logged_by(path.read_text())):
            found[str(path.relative_to(ROOT))] = keys
    assert {module for module, keys in found.items() if None in keys} == set(EXPANDED)
    used = {key for keys in found.values() for key in keys if key not in (None, "exc_info")}
    assert documented() == used | OF_PROCESSORS | set[str]().union(*EXPANDED.values())
