"""Regular expressions of Go (RE2), compiled to those of Python.

Syntax that RE2 has and Python lacks is translated; syntax that Python has and RE2 lacks is refused with Go's messages,
for a real API server would refuse it as well.

Source: Go's regexp/syntax, parse.go; github.com/google/re2/wiki/Syntax.
"""

import re
import sys
import unicodedata
from functools import lru_cache

from kcr.api.durations import parse_int

_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": r"\x00-\x7F", "blank": r"\t ", "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": r"!-/:-@\[-`{-~", "space": r"\t\n\v\f\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
# The characters that mean the same in both after a backslash, beside punctuation.
_SAME = frozenset("AbBdDsSwWafnrtv")
_GROUP = re.compile(r"\(\?(?:P?<(\w+)>|([imsU]*(?:-[imsU]+)?)([:)]))")
_NAMED = re.compile(r"\(\?P?<(?=.)[^>]*>?", re.DOTALL)
_CLASS_NAME = re.compile(r"\\([pP])(?:\{(\^?)(\w+)\}|(\w))")
_POSIX_NAME = re.compile(r"\[:(\^?)(\w+):\]")
_HEX = re.compile(r"\\x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})")
_REPEAT = re.compile(r"[*+?]|\{[0-9]+(?:,[0-9]*)?\}")
_BAD_RANGE = re.compile(r"bad character range ((?:.|\\.)-(\\.)?.*) at position", re.DOTALL)
_MOST_REPEATS = 1000
# The end of a group that may match several times, the flag for letters in both cases, flags that begin amid a group.
_FOR_RE2 = re.compile(r"\)(?:[*+]|\{\d+,)|\(\?[a-zA-Z]*i|.\(\?[a-zA-Z-]+\)", re.DOTALL)
# What RE2 has and Go has not: a byte.
_BYTE = re.compile(r"(?:[^\\]|\\[^C])*\\C", re.DOTALL)
_CATEGORIES = re.compile("C[cfos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?")


class PatternError(ValueError):
    """A text that is no regular expression of Go; the message is Go's."""

    def __init__(self, why: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {why}: `{part}`")


@lru_cache(2048)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return a regular expression of Go as one of Python.

    Raises:
        PatternError: Go refuses the pattern.
    """
    translated = _Translation(pattern).run()
    try:
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        if found := _BAD_RANGE.match(str(error)):
            why = ("invalid escape sequence", found[2]) if found[2] else ("invalid character class range", found[1])
            raise PatternError(*why) from None
        raise PatternError(str(error), pattern) from None


@lru_cache(2048)
def compile_matcher(pattern: str) -> re.Pattern[str]:
    """Return a regular expression of Go for searches in texts that others wrote.

    It is RE2's where Python's takes exponential time, does not know which letters are the same, or lacks the syntax;
    elsewhere Python's is a hundred times as fast.

    Raises:
        PatternError: Go refuses the pattern.
    """
    try:
        compiled = compile_pattern(pattern)
    except PatternError:
        faster = None if _BYTE.match(pattern) else _compiled_by_re2(pattern)
        if faster is None:
            raise
        return faster
    faster = _compiled_by_re2(pattern) if _FOR_RE2.search(pattern) else None
    return compiled if faster is None else faster


def _compiled_by_re2(pattern: str) -> re.Pattern[str] | None:
    """Return the expression of RE2; None where it is not installed, or the pattern needs too much memory."""
    try:
        import re2  # noqa: PLC0415  # loaded with the first such pattern
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        compiled: re.Pattern[str] = re2.compile(pattern, options)
    except re2.error:
        return None
    return compiled


@lru_cache(64)
def _category(name: str) -> str:
    """Return the characters of a Unicode category, as they stand in a class; `""` for an unknown one."""
    if not _CATEGORIES.fullmatch(name):
        return ""
    ranges: list[str] = []
    start = previous = -2
    for code in range(sys.maxunicode + 1):
        if not unicodedata.category(chr(code)).startswith(name):
            continue
        if code != previous + 1:
            if start >= 0:
                ranges.append(f"\\U{start:08x}-\\U{previous:08x}")
            start = code
        previous = code
    return "".join([*ranges, f"\\U{start:08x}-\\U{previous:08x}"])


class _Translation:
    """One pass over a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._made: list[str] = []
        # Whether `$` means the end of a line, for the group that is open and those around it.
        self._multiline = [False]

    def run(self) -> str:
        """Return the pattern for Python."""
        while self._at < len(self._pattern):
            match self._pattern[self._at]:
                case "\\":
                    self._escape(in_class=False)
                case "[":
                    self._class()
                case "(":
                    self._group()
                case ")":
                    if len(self._multiline) == 1:
                        raise PatternError("unexpected )", self._pattern)
                    self._multiline.pop()
                    self._take(")")
                case "$":
                    self._take("$", "$" if self._multiline[-1] else r"\Z")
                case character:
                    if not self._repeat():
                        # In Go, `{` begins a repetition only where both bounds or the lower one follow.
                        self._take(character, r"\{" if character == "{" else character)
        if len(self._multiline) > 1:
            raise PatternError("missing closing )", self._pattern)
        return "".join(self._made)

    def _take(self, text: str, made: str | None = None) -> None:
        self._at += len(text)
        self._made.append(text if made is None else made)

    def _repeat(self) -> bool:
        found = _REPEAT.match(self._pattern, self._at)
        if found is None:
            return False
        text = found[0]
        counts = map(parse_int, re.findall("[0-9]+", text))
        if any(count is None or count > _MOST_REPEATS for count in counts):
            raise PatternError("invalid repeat count", text)
        if not self._made or self._made[-1] in ("(", "(?:", "|"):
            raise PatternError("missing argument to repetition operator", text)
        end = found.end()
        if self._pattern[end : end + 1] == "?":
            text, end = text + "?", end + 1
        if more := _REPEAT.match(self._pattern, end):
            raise PatternError("invalid nested repetition operator", text + more[0])
        self._take(text)
        return True

    def _group(self) -> None:
        if not self._pattern.startswith("(?", self._at):
            self._multiline.append(self._multiline[-1])
            self._take("(")
            return
        found = _GROUP.match(self._pattern, self._at)
        if found is None or "U" in (found[2] or ""):
            if named := _NAMED.match(self._pattern, self._at):
                raise PatternError("invalid named capture", named[0])
            raise PatternError("invalid or unsupported Perl syntax", self._pattern[self._at : self._at + 3])
        if found[1]:
            self._multiline.append(self._multiline[-1])
            self._take(found[0], f"(?P<{found[1]}>")
            return
        on, _, off = found[2].partition("-")
        multiline = (self._multiline[-1] or "m" in on) and "m" not in off
        if found[3] == ")":
            # Python knows flags of a group, and none from here on: the rest of the group becomes one.
            rest = self._rest_of_group(found.end())
            self._pattern = f"{self._pattern[: found.end() - 1]}:{rest}){self._pattern[found.end() + len(rest) :]}"
        self._multiline.append(multiline)
        self._take(found[0], f"(?{found[2]}:")

    def _rest_of_group(self, start: int) -> str:
        depth, at, in_class = 0, start, False
        while at < len(self._pattern):
            character = self._pattern[at]
            if character == "\\":
                at += 1
            elif in_class:
                in_class = character != "]"
            elif character == "[":
                in_class = True
                at += self._pattern[at + 1 : at + 2] == "]"
            elif character == "(":
                depth += 1
            elif character == ")":
                if depth == 0:
                    break
                depth -= 1
            at += 1
        return self._pattern[start:at]

    def _escape(self, *, in_class: bool) -> None:
        escape = self._pattern[self._at : self._at + 2]
        if escape == r"\Q" and not in_class:
            literal, end, _ = self._pattern[self._at + 2 :].partition(r"\E")
            self._take(rf"\Q{literal}{end}", re.escape(literal))
        elif escape == r"\z" and not in_class:
            self._take(escape, r"\Z")
        elif found := _HEX.match(self._pattern, self._at):
            self._take(found[0], f"\\U{int(found[1] or found[2], 16):08x}")
        elif found := _CLASS_NAME.match(self._pattern, self._at):
            self._take(found[0], self._unicode(found, in_class=in_class))
        elif escape == "\\":
            raise PatternError("trailing backslash at end of expression", "")
        elif escape[1] in _SAME or not (escape[1].isalnum() or ord(escape[1]) > 127):
            self._take(escape)
        else:
            raise PatternError("invalid escape sequence", escape)

    def _unicode(self, found: re.Match[str], *, in_class: bool) -> str:
        members = _category(found[3] or found[4])
        negated = (found[1] == "P") != bool(found[2])
        if not members or (negated and in_class):
            raise PatternError("invalid character class range", found[0])
        return members if in_class else f"[{'^' if negated else ''}{members}]"

    def _class(self) -> None:
        start = self._at
        opening = "[^" if self._pattern.startswith("[^", start) else "["
        self._take(opening)
        if self._pattern.startswith("]", self._at):
            self._take("]", r"\]")
        while self._at < len(self._pattern):
            character = self._pattern[self._at]
            if character == "]":
                self._take("]")
                return
            if character == "\\":
                self._escape(in_class=True)
            elif found := _POSIX_NAME.match(self._pattern, self._at):
                if found[1] or found[2] not in _POSIX:
                    raise PatternError("invalid character class range", found[0])
                self._take(found[0], _POSIX[found[2]])
            else:
                # Python warns about characters that may become set operations in a later version.
                self._take(character, f"\\{character}" if character in "[&~|" else character)
        raise PatternError("missing closing ]", self._pattern[start:])
