"""Regular expressions: `matches`, `find` and `findAll`.

Source: github.com/google/cel-go/common/types/string.go, Match; k8s.io/apiserver/pkg/cel/library/regex.go.
"""

from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.schema.patterns import PatternError, compile_pattern, compile_search


def _matches(text: str, pattern: str) -> bool:
    try:
        return bool(compile_search(pattern)(text))
    except PatternError as error:
        raise EvaluationError(str(error)) from None


def _find(text: str, pattern: str) -> str:
    found = _found(text, pattern, 1)
    return found[0] if found else ""


def _found(text: str, pattern: str, limit: int = -1) -> list[str]:
    try:
        # Most texts that take Python's search exponential time do not match.
        if not compile_search(pattern)(text):
            return []
    except PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None
    found, end = list[str](), -1
    for match in compile_pattern(pattern).finditer(text):
        if len(found) == limit:
            break
        # Unlike Python, Go passes over an empty match at the end of the one before.
        if match[0] or match.start() != end:
            found.append(match[0])
        end = match.end()
    return found


_TEXT, _TEXTS = "string", "list(string)"

FUNCTIONS: Functions = {
    "matches": (
        Overload("matches", "bool", (_TEXT, _TEXT), _matches, False),
        Overload("matches_string", "bool", (_TEXT, _TEXT), _matches),
    ),
    "find": (Overload("string_find_string", _TEXT, (_TEXT, _TEXT), _find),),
    "findAll": (
        Overload("string_find_all_string", _TEXTS, (_TEXT, _TEXT), _found),
        Overload("string_find_all_string_int", _TEXTS, (_TEXT, _TEXT, "int"), _found),
    ),
}  # fmt: skip
