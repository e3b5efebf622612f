"""YAML as Kubernetes reads it: plain scalars mean what go.yaml.in/yaml/v2 resolves, and the result is JSON.

Source: go.yaml.in/yaml/v2, resolve.go; sigs.k8s.io/yaml, convertToJSONableObject; Go's strconv.ParseInt, base 0.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

_BOOLEANS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NULLS = ("", "~", "null", "Null", "NULL")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGERS = (
    (re.compile(r"0[xX]([0-9a-fA-F]+)"), 16), (re.compile(r"0[oO]?([0-7]+)"), 8),
    (re.compile(r"0[bB]([01]+)"), 2), (re.compile(r"(0|[1-9][0-9]*)"), 10),
)  # fmt: skip


class NoJsonError(ValueError):
    """JSON has no such value."""


def read(text: str) -> list[Any]:
    """Return the values of the documents in a text."""
    return [_value(node) for node in _nodes(text)]


def _nodes(text: str) -> Iterator[yaml.Node]:
    yield from yaml.compose_all(text, Loader=yaml.BaseLoader)


def _value(node: Any) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {_name(_value(key)): _value(one) for key, one in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_value(one) for one in node.value]
    return _plain(node.value) if node.style is None else node.value


def _name(key: Any) -> str:
    if isinstance(key, bool):
        return str(key).lower()
    return key if isinstance(key, str) else str(key)


def _plain(text: str) -> Any:
    """Return what a plain scalar means."""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text in _NULLS:
        return None
    if text == "<<" or _INFINITE.fullmatch(text):
        raise NoJsonError(text)
    if text[0] not in "+-.0123456789":
        return text
    number = text if text[0] == "." else text.replace("_", "")
    sign, digits = (number[0], number[1:]) if number[:1] in ("+", "-") else ("", number)
    for pattern, base in _INTEGERS:
        if (found := pattern.fullmatch(digits)) and text[0] != ".":
            made = int(f"{sign}{found[1]}", base)
            return made if -(2**63) <= made < 2**64 else float(made)
    return float(number) if _FLOAT.fullmatch(number) else text
