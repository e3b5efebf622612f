"""Label and field selectors in the text form that queries use.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/labels/selector.go and pkg/fields/selector.go.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcr.api.durations import parse_int
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid
from kcr_devcluster.apiserver.protocol.names import label_value, qualified_name
from kcr_devcluster.apiserver.protocol.responses import bad_request

_TOKEN = re.compile(r"[ \t\r\n]*(!=|==|=|<|>|!|\(|\)|,|[^ \t\r\n!=<>(),]+)")
_SYMBOLS = frozenset(("", "!=", "==", "=", "<", ">", "!", "(", ")", ","))
# A term of a field selector; what escapes a comma is kept.
_TERM = re.compile(r"(?:\\.|[^,\\]|\\$)+", re.DOTALL)
_ESCAPED = re.compile(r"=|\\(.?)", re.DOTALL)
_OPERATORS = ("in", "notin", "=", "==", "!=", ">", "<")


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


class _RequirementError(Exception):
    """Why one requirement of a label selector is refused."""


def parse_labels(text: str) -> tuple[LabelTerm, ...]:
    """Parse a `labelSelector`.

    Raises:
        StatusError: 400, it cannot be parsed.
    """
    tokens = _Tokens(text)
    terms: list[LabelTerm] = []
    if not tokens.peek():
        return ()
    wanted = "!, identifier, or 'end of string'"
    while True:
        if (token := tokens.peek()) in _SYMBOLS and token != "!":
            raise bad_request(f"found '{token}', expected: {wanted}")
        try:
            terms.append(_label_term(tokens))
        except _RequirementError as error:
            raise bad_request(f"unable to parse requirement: {error}") from None
        if not (token := tokens.take()):
            return tuple(terms)
        if token != ",":
            raise bad_request(f"found '{token}', expected: ',' or 'end of string'")
        wanted = "identifier after ','"


def _label_term(tokens: _Tokens) -> LabelTerm:
    negated = tokens.peek() == "!" and bool(tokens.take())
    key = _identifier(tokens.take())
    _check([invalid("<nil>", key, "; ".join(reasons))] if (reasons := qualified_name(key)) else [])
    if negated or tokens.peek() in ("", ","):
        return LabelTerm(key, "!" if negated else "exists")
    operator = tokens.take()
    if operator not in _OPERATORS:
        raise _RequirementError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
    if operator in ("in", "notin"):
        values = _value_set(tokens)
    else:
        values = ("" if tokens.peek() in ("", ",") else _identifier(tokens.take()),)
    errors = []
    if operator in ("<", ">") and parse_int(values[0]) is None:
        errors.append(invalid("values[0]", values[0], "for 'Gt', 'Lt' operators, the value must be an integer"))
    for position, value in enumerate(sorted(set(values))):
        if reasons := label_value(value):
            errors.append(invalid(f"values[{position}][{key}]", value, "; ".join(reasons)))
    _check(errors)
    return LabelTerm(key, "=" if operator == "==" else operator, values)


def _value_set(tokens: _Tokens) -> tuple[str, ...]:
    if (token := tokens.take()) != "(":
        raise _RequirementError(f"found '{token}' expected: '('")
    if (token := tokens.peek()) in _SYMBOLS and token not in (",", ")"):
        raise _RequirementError(f"found '{token}', expected: ',', ')' or identifier")
    values: list[str] = []
    while True:
        if (token := tokens.peek()) in _SYMBOLS and token not in (",", ")"):
            raise _RequirementError(f"found '{token}', expected: ',', or identifier")
        values.append("" if token in (",", ")") else tokens.take())
        if (token := tokens.take()) == ")":
            return tuple(values)
        if token != ",":
            raise _RequirementError(f"found '{token}', expected: ',' or ')'")


def _identifier(token: str) -> str:
    if token in _SYMBOLS:
        raise _RequirementError(f"found '{token}', expected: identifier")
    return token


def _check(errors: list[FieldError]) -> None:
    if errors:
        said = ", ".join(f"{error.field}: {error.message}" for error in errors)
        raise _RequirementError(f"[{said}]" if len(errors) > 1 else said)


def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """Parse a `fieldSelector`; whether a path is supported is for the kind to say.

    Raises:
        StatusError: 400, it cannot be parsed.
    """
    terms = (_field_term(term, text) for term in _TERM.findall(text) if term)
    # Without a path and a value, a term holds for every object.
    return tuple(term for term in terms if term.path or term.value)


def _field_term(term: str, whole: str) -> FieldTerm:
    found = re.fullmatch(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
    if found is None:
        raise bad_request(f"invalid selector: '{whole}'; can't understand '{term}'")
    path, operator, value = found.groups()
    return FieldTerm(path, _ESCAPED.sub(_unescaped, value), operator == "!=")


def _unescaped(found: re.Match[str]) -> str:
    if found[0] == "=":
        raise bad_request(f"invalid field selector: unescaped character in value: {ord('=')}")
    if found[1] not in ("\\", ",", "="):
        raise bad_request(f"invalid field selector: invalid escape sequence: {found[0]}")
    return found[1]
