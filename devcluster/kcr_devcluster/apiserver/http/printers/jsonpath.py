"""The JSONPath of printer columns: `.a.b[0]`, `['k']`, `[*]`, `..a`, `[?(@.type=="Ready")].status`.

Missing members are no errors: nothing is found.

Source: kubernetes/staging/src/k8s.io/client-go/util/jsonpath/{parser,jsonpath}.go.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kcr_devcluster.apiserver.protocol.field_errors import as_json

Finder = Callable[[Any], list[Any]]
_Step = Callable[[Any], Iterable[Any]]

_TOKEN = re.compile(
    r"""
      \.\.(?P<deep>[^.\[\]]+)
    | \.?\*(?P<every>)
    | \.(?P<name>(?:\\.|[^.\[\]\\])+)
    | \[\s*\?\((?P<filter>(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^)])*)\)\s*\]
    | \[\s*(?P<quoted>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")\s*\]
    | \[\s*\*\s*(?P<all>)\]
    | \[(?P<slice>-?\d*(?::-?\d*){0,2}(?:,\s*-?\d+)*)\]
    """,
    re.VERBOSE,
)
_FILTER = re.compile(r"\s*(?P<left>.+?)\s*(?P<operator>==|!=|<=|>=|<|>)\s*(?P<right>.+?)\s*")


def compile_path(path: str) -> Finder:
    """Return a function that finds the values at a path; for a path that is no JSONPath, it finds none."""
    steps, at = list[_Step](), 0
    while at < len(path):
        token = _TOKEN.match(path, at)
        if token is None:
            return lambda obj: []
        steps.append(_step(token))
        at = token.end()
    return lambda obj: _walk(steps, obj)


def _walk(steps: list[_Step], obj: Any) -> list[Any]:
    found = [obj]
    for step in steps:
        found = [one for value in found for one in step(value)]
    return found


def _step(token: re.Match[str]) -> _Step:
    match token.lastgroup:
        case "name":
            return _member(re.sub(r"\\(.)", r"\1", token["name"]))
        case "quoted":
            return _member(re.sub(r"\\(.)", r"\1", token["quoted"][1:-1]))
        case "deep":
            return lambda value: _descendants(value, token["deep"])
        case "filter":
            return _filter(token["filter"])
        case "slice":
            return _slice(token["slice"])
    return _children


def _member(name: str) -> _Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _descendants(value: Any, name: str) -> Iterator[Any]:
    if isinstance(value, dict) and name in value:
        yield value[name]
    for one in _children(value):
        yield from _descendants(one, name)


def _slice(text: str) -> _Step:
    if ":" in text:
        bounds = slice(*(int(part) if part else None for part in text.split(":")))
        return lambda value: value[bounds] if isinstance(value, list) else []
    places = [int(part) for part in text.split(",") if part.strip()]
    return lambda value: [
        value[place] for place in places if isinstance(value, list) and -len(value) <= place < len(value)
    ]


def _filter(text: str) -> _Step:
    found = _FILTER.fullmatch(text)
    if found is None:
        exists = _operand(text.strip())
        return lambda value: [one for one in _children(value) if exists(one)]
    left, right, compare = _operand(found["left"]), _operand(found["right"]), _COMPARISONS[found["operator"]]

    def step(value: Any) -> Iterable[Any]:
        for one in _children(value):
            ours, theirs = left(one), right(one)
            if ours and theirs and compare(ours[0], theirs[0]):
                yield one

    return step


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def holds(one: Any, other: Any) -> bool:
        numbers = isinstance(one, int | float) and isinstance(other, int | float)
        return (numbers or type(one) is type(other) is str) and compare(one, other)

    return holds


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda one, other: bool(one == other), "!=": lambda one, other: bool(one != other),
    "<": _ordered(lambda one, other: one < other), ">": _ordered(lambda one, other: one > other),
    "<=": _ordered(lambda one, other: one <= other), ">=": _ordered(lambda one, other: one >= other),
}  # fmt: skip


def _operand(text: str) -> Finder:
    if text.startswith("@"):
        return compile_path(text[1:])
    if text[:1] in ("'", '"'):
        literal: Any = text[1:-1]
    elif text in ("true", "false"):
        literal = text == "true"
    else:
        try:
            literal = float(text)
        except ValueError:
            return lambda obj: []
    return lambda obj: [literal]


def printed(value: Any) -> str | None:
    """Return a value as Go prints it in a column of texts: lists and objects as JSON."""
    if value is None:
        return None
    return value if isinstance(value, str) else as_json(value)
