"""Regular expressions: `matches`, `find` and `findAll`.

Source: github.com/google/cel-go/common/types/string.go, Match; k8s.io/apiserver/pkg/cel/library/regex.go.
"""

import re

from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.schema.patterns import PatternError, compile_matcher


def _matches(text: str, pattern: str) -> bool:
    try:
        return compile_matcher(pattern).search(text) is not None
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return compile_matcher(pattern)
    except PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _find(text: str, pattern: str) -> str:
    found = _compiled(pattern).search(text)
    return "" if found is None else found[0]


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    compiled, at, end = _compiled(pattern), 0, -1
    found: list[str] = []
    while at <= len(text) and len(found) != limit and (match := compiled.search(text, at)) is not None:
        # An empty match does not count at the end of the one before; after it, the search goes on behind a character.
        is_empty = match.end() == at
        if not is_empty or match.start() != end:
            found.append(match[0])
        end = match.end()
        at = end + is_empty
    return found


_TEXT, _TEXTS = "string", "list(string)"

FUNCTIONS: Functions = {
    "matches": (
        Overload("matches", "bool", (_TEXT, _TEXT), _matches, False),
        Overload("matches_string", "bool", (_TEXT, _TEXT), _matches),
    ),
    "find": (Overload("string_find_string", _TEXT, (_TEXT, _TEXT), _find),),
    "findAll": (
        Overload("string_find_all_string", _TEXTS, (_TEXT, _TEXT), _find_all),
        Overload("string_find_all_string_int", _TEXTS, (_TEXT, _TEXT, "int"), _find_all),
    ),
}  # fmt: skip
