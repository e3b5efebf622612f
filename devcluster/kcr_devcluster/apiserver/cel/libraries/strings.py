"""Functions of strings: those of the language, of its extension for strings in version 2, and of JSON pointers.

Source: github.com/google/cel-go/common/types/string.go; ext/strings.go; k8s.io/apiserver/pkg/cel/library/jsonpatch.go.
"""

import operator
from collections.abc import Sequence
from typing import Any

from kcr_devcluster.apiserver.cel.libraries.operators import as_shown
from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.libraries.string_formats import formatted
from kcr_devcluster.apiserver.cel.values import EvaluationError

# What Go takes for space; Python has four control characters more.
_SPACE = f"\t\n\v\f\r \x85\xa0\u1680{''.join(map(chr, range(0x2000, 0x200B)))}\u2028\u2029\u202f\u205f\u3000"
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code + 32: code for code in _LOWER}
_QUOTED = {
    ord(one): shown
    for one, shown in (
        ("\a", "\\a"), ("\b", "\\b"), ("\f", "\\f"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), ("\v", "\\v"),
        ("\\", "\\\\"), ('"', '\\"'),
    )
}  # fmt: skip


def _checked(text: str, place: int) -> int:
    if 0 <= place <= len(text):
        return place
    raise EvaluationError(f"index out of range: {place}")


def _character(text: str, place: int) -> str:
    return text[_checked(text, place) :][:1]


def _index(text: str, wanted: str, start: int = 0) -> int:
    if not wanted:
        return start
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return text.find(wanted, start)


def _last_index(text: str, wanted: str, start: int | None = None) -> int:
    if not wanted:
        return len(text) if start is None else start
    if start is None:
        return text.rfind(wanted)
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return text.rfind(wanted, 0, start + len(wanted)) if start < len(text) else -1


def _split(text: str, separator: str, most: int = -1) -> list[str]:
    if most == 0:
        return []
    if separator:
        return text.split(separator, most - 1 if most > 0 else -1)
    if not text or not 0 < most < len(text):
        return list(text)
    return [*text[: most - 1], text[most - 1 :]]


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is None:
        return text[_checked(text, start) :]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    return text[_checked(text, start) : _checked(text, end)]


def _joined(texts: Sequence[Any], separator: str = "") -> str:
    for one in texts:
        if not isinstance(one, str):
            raise EvaluationError(f"join: invalid input: {as_shown(one)}")
    return separator.join(texts)


def _quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


def _escaped_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


_TEXT = "string"
_TEXTS = "list(string)"

FUNCTIONS: Functions = {
    "contains": (Overload("contains_string", "bool", (_TEXT, _TEXT), operator.contains),),
    "startsWith": (Overload("starts_with_string", "bool", (_TEXT, _TEXT), str.startswith),),
    "endsWith": (Overload("ends_with_string", "bool", (_TEXT, _TEXT), str.endswith),),
    "charAt": (Overload("string_char_at_int", _TEXT, (_TEXT, "int"), _character),),
    "indexOf": (
        Overload("string_index_of_string", "int", (_TEXT, _TEXT), _index),
        Overload("string_index_of_string_int", "int", (_TEXT, _TEXT, "int"), _index),
    ),
    "lastIndexOf": (
        Overload("string_last_index_of_string", "int", (_TEXT, _TEXT), _last_index),
        Overload("string_last_index_of_string_int", "int", (_TEXT, _TEXT, "int"), _last_index),
    ),
    "lowerAscii": (Overload("string_lower_ascii", _TEXT, (_TEXT,), lambda text: text.translate(_LOWER)),),
    "upperAscii": (Overload("string_upper_ascii", _TEXT, (_TEXT,), lambda text: text.translate(_UPPER)),),
    "replace": (
        Overload("string_replace_string_string", _TEXT, (_TEXT, _TEXT, _TEXT), str.replace),
        Overload("string_replace_string_string_int", _TEXT, (_TEXT, _TEXT, _TEXT, "int"), str.replace),
    ),
    "split": (
        Overload("string_split_string", _TEXTS, (_TEXT, _TEXT), _split),
        Overload("string_split_string_int", _TEXTS, (_TEXT, _TEXT, "int"), _split),
    ),
    "substring": (
        Overload("string_substring_int", _TEXT, (_TEXT, "int"), _substring),
        Overload("string_substring_int_int", _TEXT, (_TEXT, "int", "int"), _substring),
    ),
    "trim": (Overload("string_trim", _TEXT, (_TEXT,), lambda text: text.strip(_SPACE)),),
    "format": (Overload("string_format", _TEXT, (_TEXT, "list(dyn)"), formatted),),
    "strings.quote": (Overload("strings_quote", _TEXT, (_TEXT,), _quote, False),),
    "join": (
        Overload("list_join", _TEXT, (_TEXTS,), _joined), Overload("list_join_string", _TEXT, (_TEXTS, _TEXT), _joined),
    ),
}  # fmt: skip

# Expressions of mutating policies alone have this one.
PATCH_FUNCTIONS: Functions = {
    "jsonpatch.escapeKey": (
        Overload("string_jsonpatch_escapeKey_string", _TEXT, (_TEXT,), _escaped_key, False),
    ),
}  # fmt: skip
