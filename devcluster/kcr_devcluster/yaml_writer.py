"""JSON values as YAML: the one writer of all manifests, roles, kubeconfigs and answers in YAML.

The form is that of kubectl and of the API server, go-yaml's: block style, lists not indented, lines folded at the first
blank behind column 80. A text that another reader of YAML would take for something else is quoted as well, unless it is
the server that answers.

Source: go.yaml.in/yaml/v2, encode.go, emitterc.go and sorter.go; sigs.k8s.io/yaml, JSONToYAML; yaml.org/type, bool, int
and float of YAML 1.1.
"""

import re
from collections.abc import Iterable
from functools import cmp_to_key
from typing import Any

import yaml

from kcr_devcluster.go_numbers import shortest_text
from kcr_devcluster.yaml_json import is_plain_text

_LISTS, _NUMBERS, _COLLECTIONS = (list, tuple), (int, float), (dict, list, tuple)
_WIDTH = 80
# A longer key is written behind a question mark.
_LONGEST_KEY = 128
# Texts with these need not be looked at more closely: they mean themselves everywhere.
_SIMPLE = re.compile(r"[A-Za-z][A-Za-z0-9./_-]{5,}")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
# What other readers than Kubernetes' take for numbers, beside all that PyYAML does.
_OTHERS_READ = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*(?::[0-9_]+)+(?:\.[0-9_]*)?"
    r"|(?=[._]*[0-9])[0-9_]*(?:\.[0-9_]*)?(?:[eE][-+]?[0-9_]+)?)"
)
# Indicators where a plain text must not have them.
_INDICATORS = re.compile(r"""[#,\[\]{}&*!|>'"%@`]|[-?:](?:[ \t]|\Z)|---|\.\.\.""")
_INSIDE = re.compile(r":(?:[ \t]|\Z)|[ \t\u2028\u2029]#")
# Characters that only a text in double quotes may have.
_SPECIAL = re.compile(r"[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
# Ends of lines to go-yaml alone.
_UNUSUAL = re.compile(r"[\u2028\u2029]")
_BREAK = "\n\u2028\u2029"
_ANY_BREAK = re.compile(f"[\r\x85{_BREAK}]")
_SPACE_AT_BREAK = re.compile(f" [{_BREAK}]")
_BREAK_AT_SPACE = re.compile(f"[{_BREAK}] ")
_LINE_START = re.compile(f"(?:^|(?<=[{_BREAK}]))(?=[^{_BREAK}])")
# Where a line may end.
_FOLD, _FOLD_DOUBLE = re.compile(r"(?<=[^ ]) (?=[^ ])"), re.compile(r"(?<=[^ ]) (?!\Z)")
_ESCAPED = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_NAMED = {
    0: "0", 7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 27: "e", 34: '"', 92: "\\",
    0x85: "N", 0xA0: "_", 0x2028: "L", 0x2029: "P",
}  # fmt: skip
_BYTE_ORDER_MARK = "\ufeff"


def yaml_text(value: object) -> str:
    """Return a JSON value as YAML that every reader reads; members stay in their order.

    Args:
        value: Plain values: maps, lists, texts, numbers, booleans and None.
    """
    return _Writer().document(value)


def yaml_answer(value: object) -> str:
    """Return a JSON value as the API server answers it: go-yaml's quotes, and its order of members."""
    return _Writer(is_answer=True).document(value)


def yaml_documents(values: Iterable[object]) -> str:
    """Return several JSON values as one YAML stream; see `yaml_text`."""
    return "---\n".join(map(yaml_text, values))


class _Writer:
    """Writes one document."""

    def __init__(self, *, is_answer: bool = False) -> None:
        self._is_answer = is_answer
        self._pieces: list[str] = []

    def document(self, value: object) -> str:
        """Return a document."""
        if isinstance(value, _COLLECTIONS) and value:
            self._collection(value, 0)
        else:
            self._line(self._scalar(value, 0, 2))
        return "".join(self._pieces)

    def _collection(self, value: Any, indent: int) -> None:
        """Write the lines of a map or list that is not empty; the first one is not indented."""
        lead = ""
        if isinstance(value, dict):
            for name in _in_order(value) if self._is_answer else value:
                self._member(lead, name, value[name], indent)
                lead = " " * indent
            return
        for one in value:
            self._value(f"{lead}-", one, indent, 0 if lead else indent)
            lead = " " * indent

    def _member(self, lead: str, name: str, value: Any, indent: int) -> None:
        if len(name.encode()) > _LONGEST_KEY or _ANY_BREAK.search(name):
            self._pieces.append(f"{lead}? ")
            self._line(self._scalar(name, indent + 2, indent + 2))
            self._value(f"{' ' * indent}:", value, indent)
            return
        key = f"{lead}{self._scalar(name, None, 0)}:"
        if not value or not isinstance(value, _COLLECTIONS):
            self._value(key, value, indent, 0 if lead else indent)
            return
        inside = indent + 2 if isinstance(value, dict) else indent
        self._pieces.append(f"{key}\n{' ' * inside}")
        self._collection(value, inside)

    def _value(self, before: str, value: Any, indent: int, offset: int = 0) -> None:
        """Write a value in the line of what is before it.

        Args:
            before: What is before it in its line, or behind so many columns of it.
            value: The value.
            indent: The indentation of the map or list that it belongs to.
            offset: How many columns.
        """
        self._pieces.append(f"{before} ")
        if value and isinstance(value, _COLLECTIONS):
            self._collection(value, indent + 2)
        else:
            self._line(self._scalar(value, offset + len(before) + 1, indent + 2))

    def _line(self, text: str) -> None:
        self._pieces.append(text if text[-1] in _BREAK else f"{text}\n")

    def _scalar(self, value: Any, column: int | None, indent: int) -> str:
        """Return a value that has no lines of its own.

        Args:
            value: The value; maps and lists are empty.
            column: Where it begins; None for a key, which is one line.
            indent: The indentation of its further lines.
        """
        if isinstance(value, str):
            if _SIMPLE.fullmatch(value):
                return value
            return self._text(value, column, indent)
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, _NUMBERS):
            return self._number(value)
        return "[]" if isinstance(value, _LISTS) else "{}"

    def _number(self, number: int | float) -> str:
        if not self._is_answer:
            text = repr(number)
            # Without a point, an exponent makes it text to readers of YAML 1.1.
            return text if "." in text else text.replace("e", ".0e")
        in_64_bits = type(number) is int and -(2**63) <= number < 2**64
        return str(number) if in_64_bits else shortest_text(repr(float(number)))

    def _text(self, text: str, column: int | None, indent: int) -> str:
        has_break = _ANY_BREAK.search(text) is not None
        is_special = _SPECIAL.search(text) or (not self._is_answer and _UNUSUAL.search(text))
        if is_special or (has_break and _SPACE_AT_BREAK.search(text)):
            return _double_quoted(text, column, indent)
        if "\n" in text:
            return _double_quoted(text, column, indent) if text[-1] == " " else _literal(text, indent)
        if not self._means_itself(text):
            return _double_quoted(text, column, indent)
        if not has_break and text[0] != " " != text[-1] and not _INDICATORS.match(text) and not _INSIDE.search(text):
            return _folded(text, column, indent)
        if _BREAK_AT_SPACE.search(text):
            return _double_quoted(text, column, indent)
        return _single_quoted(text, column, indent)

    def _means_itself(self, text: str) -> bool:
        """Return whether a plain text is read as text."""
        if not is_plain_text(text) or _BASE_60.fullmatch(text):
            return False
        return self._is_answer or not (_OTHERS_READ.fullmatch(text) or _is_read_otherwise(text))


def _is_read_otherwise(text: str) -> bool:
    """Return whether PyYAML takes a plain text for something else."""
    return any(pattern.match(text) for _, pattern in yaml.SafeLoader.yaml_implicit_resolvers.get(text[0], ()))


def _folded(text: str, column: int | None, indent: int, at: re.Pattern[str] = _FOLD) -> str:
    """Return the lines of a text: each ends at the first place behind the width."""
    if column is None or column + len(text) <= _WIDTH:
        return text
    lines, start, lead = [], 0, "\n" + " " * indent
    while found := at.search(text, max(start + _WIDTH + 1 - column, start)):
        lines.append(text[start : found.start()])
        start, column = found.end(), indent
        if text[start] == " ":
            # A blank that begins a line would be lost.
            text = f"{text[:start]}\\{text[start:]}"
    return lead.join([*lines, text[start:]])


def _single_quoted(text: str, column: int | None, indent: int) -> str:
    lines = re.split(f"([{_BREAK}]+)", text.replace("'", "''"))
    column = column if column is None else column + 1
    made = [_folded(lines[0], column, indent)]
    for breaks, line in zip(lines[1::2], lines[2::2], strict=True):
        made.append(breaks + " " * indent * bool(line) + _folded(line, column and indent, indent))
    return f"'{''.join(made)}'"


def _double_quoted(text: str, column: int | None, indent: int) -> str:
    # go-yaml looks for the mark at the beginning, whichever character it writes.
    pattern = re.compile("(?s).") if text[:1] == _BYTE_ORDER_MARK else _ESCAPED
    escaped = pattern.sub(_escape, text)
    return f'"{_folded(escaped, None if column is None else column + 1, indent, _FOLD_DOUBLE)}"'


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if name := _NAMED.get(code):
        return f"\\{name}"
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _literal(text: str, indent: int) -> str:
    hints = "2" if text[0] in f" {_BREAK}" else ""
    if text[-1] not in _BREAK:
        hints += "-"
    elif len(text) == 1 or text[-2] in _BREAK:
        hints += "+"
    return f"|{hints}\n" + _LINE_START.sub(" " * indent, text)


def _in_order(names: Iterable[str]) -> list[str]:
    """Return names in the order of go-yaml."""
    ordered = sorted(names)
    return ordered if _ORDERED.fullmatch("".join(ordered)) else sorted(ordered, key=_ORDER)


def _compare(one: str, other: str) -> int:
    """Return how go-yaml orders two names: numbers in them by their value, letters behind other characters."""
    place = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    if place is None:
        return len(one) - len(other)
    a, b = one[place], other[place]
    if a.isalpha() or b.isalpha():
        return ord(a) - ord(b) if a.isalpha() and b.isalpha() else 1 if a.isalpha() else -1
    follows = "0" in (a, b) and _NUMBER_BEFORE.search(one, 0, place) is not None
    first, second = _number_at(one, place, follows=follows), _number_at(other, place, follows=follows)
    return (first > second) - (first < second) or ord(a) - ord(b)


# Of these characters, the order is that of their codes.
_ORDERED = re.compile("[A-Za-z./-]*")
_ORDER = cmp_to_key(_compare)
_DIGITS, _NUMBER_BEFORE = re.compile("[0-9]*"), re.compile("[1-9]0*$")


def _number_at(text: str, place: int, *, follows: bool) -> tuple[int, str, int]:
    """Return what orders the number at a place: its digits, and how long it is; digits before it make it larger."""
    digits = _DIGITS.match(text, place)[0]  # type: ignore[index]  # it matches everywhere
    value = f"{int(follows)}{digits}".lstrip("0")
    return len(value), value, len(digits)
