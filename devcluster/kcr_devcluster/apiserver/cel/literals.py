"""Literals that are checked when an expression is compiled: durations, patterns, formats, items of several types.

Source: github.com/google/cel-go/cel/validator.go; ext/formatting.go.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcr_devcluster.apiserver.cel.checker import Checked, declarations, inner_nodes
from kcr_devcluster.apiserver.cel.libraries.string_formats import formatted
from kcr_devcluster.apiserver.cel.syntax import (
    Call,
    CompilationError,
    Constant,
    ListLiteral,
    MapLiteral,
    Node,
    SyntaxIssue,
    shown,
)
from kcr_devcluster.apiserver.cel.types import CelType, unwrapped
from kcr_devcluster.apiserver.cel.values import Duration, EvaluationError, Timestamp, Type, Uint, type_name

# The functions whose literal argument is tried, and the values before it.
_TRIED: Mapping[str, tuple[str, ...]] = {"duration": (), "timestamp": (), "matches": ("",)}
_FORMAT = "format"
_SAMPLES: Mapping[str, Any] = {
    "int": 0, "uint": Uint(0), "double": 0.0, "bool": True, "string": "NaN", "bytes": b"", "null_type": None,
    "timestamp": Timestamp(0), "duration": Duration(0), "type": Type("int"), "list": [], "map": {},
}  # fmt: skip


class _Sample:
    """Stands for a value of a type that no format shows, or of any type."""

    def __init__(self, cel_type: str) -> None:
        self.cel_type = cel_type


class _Arguments(list[Any]):
    """Samples of the arguments of a format; `used` counts those that were asked for."""

    used = 0

    def __getitem__(self, index: Any) -> Any:
        """Return a sample."""
        self.used = index + 1
        return super().__getitem__(index)


def check_literals(checked: Checked) -> None:
    """Refuse literals that are not what they are used as, and lists and maps whose items have several types.

    Raises:
        CompilationError: There are such.
    """
    issues = [
        SyntaxIssue(checked.parsed.positions.get(at, 0), words)
        for at, words in _issues(checked, checked.root, is_format=False)
    ]
    if issues:
        raise CompilationError(shown(checked.parsed.text, issues))


def _issues(checked: Checked, node: Node, *, is_format: bool) -> Iterator[tuple[int, str]]:
    """Yield the ids of literals, and what is wrong with them; what is formatted may have any types."""
    if isinstance(node, Call):
        yield from _tried(node)
        if node.function == _FORMAT:
            is_format = True
            yield from _misformatted(checked, node)
    elif not is_format and isinstance(node, ListLiteral | MapLiteral):
        for nodes, types in _aggregates(checked, node):
            yield from _mixed(nodes, types)
    for inner in inner_nodes(node):
        yield from _issues(checked, inner, is_format=is_format)


def _tried(node: Call) -> Iterator[tuple[int, str]]:
    before, literal = _TRIED.get(node.function), node.arguments[0] if node.arguments else None
    if before is None or not isinstance(literal, Constant):
        return
    overloads = (one.overload for one in declarations(node.function))
    wanted = ("string",) * len(before) + (type_name(literal.value),)
    call = next((one.call for one in overloads if one.parameters == wanted), None)
    try:
        if call is not None:
            call(*before, literal.value)
    except EvaluationError:
        yield literal.id, f"invalid {node.function} argument"


def _aggregates(checked: Checked, node: ListLiteral | MapLiteral) -> Iterator[tuple[Sequence[Node], Sequence[CelType]]]:
    """Yield the parts of a list or map that must be of one type, with their types."""
    types = checked.types
    if isinstance(node, ListLiteral):
        found = [types[one.id] for one in node.items]
        yield node.items, [unwrapped(one)[0] if at in node.optional else one for at, one in enumerate(found)]
    elif not node.type_name:
        keys = [entry.key for entry in node.entries if not isinstance(entry.key, str)]
        yield keys, [types[one.id] for one in keys]
        values = [(entry.value, types[entry.value.id], entry.is_optional) for entry in node.entries]
        yield (
            [value for value, _, _ in values],
            [unwrapped(found)[0] if is_optional else found for _, found, is_optional in values],
        )


def _mixed(nodes: Sequence[Node], found: Sequence[CelType]) -> Iterator[tuple[int, str]]:
    for node, one in zip(nodes, found, strict=True):
        if one != found[0]:
            yield node.id, f"expected type '{found[0]}' but found '{one}'"
            return


def _misformatted(checked: Checked, node: Call) -> Iterator[tuple[int, str]]:
    text, given = node.target, node.arguments[0] if len(node.arguments) == 1 else None
    if not isinstance(text, Constant) or not isinstance(text.value, str) or not isinstance(given, ListLiteral):
        return
    samples = _Arguments(_sample(checked.types[one.id]) for one in given.items)
    try:
        formatted(text.value, samples)
    except EvaluationError as error:
        is_of_argument = str(error).startswith("error during formatting")
        yield given.items[samples.used - 1].id if is_of_argument else node.id, str(error)
        return
    if len(samples) > samples.used:
        words = f"too many arguments supplied to string.format (expected {samples.used}, got {len(samples)})"
        yield node.id, words


def _sample(of: CelType) -> Any:
    return _SAMPLES[of.kind] if of.kind in _SAMPLES else _Sample(of.name or of.kind)
