"""Label and field selectors in the text form that queries use.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/labels/selector.go and pkg/fields/selector.go.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcr.api.integers import parse_int
from kcr_devcluster.apiserver.protocol.responses import bad_request

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_QUALIFIED_NAME = re.compile(rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}")
_LABEL_VALUE = re.compile(rf"(?:{_NAME})?")
_TOKEN = re.compile(r"\s*(!=|==|=|<|>|!|\(|\)|,|[^\s!=<>(),]+)")


class LabelTerm(NamedTuple):
    """One condition on labels. `operator` is one of `exists ! = != in notin < >`."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels satisfy this term; `!=` and `notin` also hold where the key is missing."""
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "!":
                return value is None
            case "=" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                # Without the label, no value is compared: kcr's own selectors list 64.
                return value is None or value not in self.values
            case _:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        ours, theirs = parse_int(value or ""), parse_int(self.values[0])
        if ours is None or theirs is None:
            return False
        return ours > theirs if self.operator == ">" else ours < theirs


class FieldTerm(NamedTuple):
    """One condition on a field: equal, or not equal."""

    path: str
    value: str
    negated: bool

    def holds(self, fields: Callable[[str], str]) -> bool:
        """Return whether the object whose fields are given satisfies this term."""
        return (fields(self.path) == self.value) != self.negated


class _Tokens:
    """The tokens of a label selector, one ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._position = 0

    def peek(self) -> str:
        """Return the next token, `""` at the end."""
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def take(self) -> str:
        """Return the next token and pass it."""
        token = self.peek()
        self._position += 1
        return token


def parse_labels(text: str) -> tuple[LabelTerm, ...]:
    """Parse a `labelSelector`.

    Raises:
        StatusError: 400, it cannot be parsed.
    """
    if not text.strip():
        return ()
    tokens, terms = _Tokens(text), []
    while True:
        terms.append(_label_term(tokens))
        match tokens.take():
            case "":
                return tuple(terms)
            case ",":
                continue
            case token:
                raise _unparsable(f"found '{token}', expected: ',' or 'end of string'")


def _label_term(tokens: _Tokens) -> LabelTerm:
    if tokens.peek() == "!":
        tokens.take()
        return LabelTerm(_key(tokens.take()), "!")
    key = _key(tokens.take())
    match tokens.peek():
        case "" | ",":
            return LabelTerm(key, "exists")
        case "=" | "==" | "!=":
            operator = tokens.take()
            value = "" if tokens.peek() in ("", ",") else tokens.take()
            return LabelTerm(key, "!=" if operator == "!=" else "=", (_value(key, value),))
        case "in" | "notin":
            return LabelTerm(key, tokens.take(), _value_set(key, tokens))
        case "<" | ">":
            return LabelTerm(key, tokens.take(), (_integer(tokens.take()),))
        case token:
            raise _unparsable(f"found '{token}', expected: in, notin, =, ==, !=, gt, lt")


def _value_set(key: str, tokens: _Tokens) -> tuple[str, ...]:
    if (token := tokens.take()) != "(":
        raise _unparsable(f"found '{token}' expected: '('")
    values: list[str] = []
    while True:
        value = "" if tokens.peek() in (",", ")") else tokens.take()
        values.append(_value(key, value))
        match tokens.take():
            case ")":
                return tuple(values)
            case ",":
                continue
            case token:
                raise _unparsable(f"found '{token}', expected: ',' or ')'")


def _key(token: str) -> str:
    if not token or token in "!=<>(),":
        raise _unparsable(f"found '{token}', expected: identifier")
    if not _QUALIFIED_NAME.fullmatch(token):
        raise _unparsable(
            f'<nil>: Invalid value: "{token}": name part must consist of alphanumeric characters, '
            "'-', '_' or '.', and must start and end with an alphanumeric character"
        )
    return token


def _value(key: str, token: str) -> str:
    if not _LABEL_VALUE.fullmatch(token):
        raise _unparsable(
            f'values[0][{key}]: Invalid value: "{token}": a valid label must be an empty string or consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
        )
    return token


def _integer(token: str) -> str:
    if parse_int(token) is None:
        raise _unparsable(
            f"values[0]: Invalid value: \"{token}\": for 'Gt', 'Lt' operators, the value must be an integer"
        )
    return token


def _unparsable(why: str) -> Exception:
    return bad_request(f"unable to parse requirement: {why}")


def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """Parse a `fieldSelector`; whether a path is supported is for the kind to say.

    Raises:
        StatusError: 400, it cannot be parsed.
    """
    return tuple(_field_term(term, text) for term in _split_unescaped(text) if term)


def _split_unescaped(text: str) -> list[str]:
    return re.findall(r"(?:\\.|[^,\\])+", text, re.DOTALL)


def _field_term(term: str, whole: str) -> FieldTerm:
    found = re.fullmatch(r"((?:\\.|[^=!\\])*)(!=|==|=)((?:\\.|[^=,\\])*)", term, re.DOTALL)
    if found is None:
        raise bad_request(f"invalid selector: '{whole}'; can't understand '{term}'")
    path, operator, value = found.groups()
    return FieldTerm(path, re.sub(r"\\(.)", r"\1", value), operator == "!=")
