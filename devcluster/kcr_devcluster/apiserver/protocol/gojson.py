"""JSON as the real server's decoder reads it: the maximum depth, invalid bytes, and the messages of errors.

Source: Go's encoding/json, scanner.go and decode.go; sigs.k8s.io/json.
"""

import re
import sys
from array import array
from itertools import accumulate
from typing import Any

import msgspec

from kcr_devcluster.go_numbers import NumberRangeError, WrittenNumber, float64

MAX_DEPTH = 10_000
# The depth of a text with no more opening brackets is not measured: it cannot be too deep.
_FEW_BRACKETS = 200
TOO_DEEP = "exceeded max depth"

_KINDS = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
# Escapes of strings; a pair of them stands for a character of more than 16 bits.
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)
_encode = msgspec.json.Encoder().encode
# They occur in strings only.
_HTML = tuple((one.encode(), b"\\u%04x" % ord(one)) for one in "<>&\u2028\u2029")
# How the two separators of lines begin.
_LINE = "\u2028".encode()[:2]
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))
# Opening brackets count one, closing ones minus one, as signed bytes.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_SPACES = re.compile(rb"[ \t\r\n]*")
_STRING_START = re.compile(rb'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+')
_HALF_ESCAPE = re.compile(rb"\\u[0-9a-fA-F]{0,3}")
_LITERALS = {word[:1]: word for word in (b"true", b"false", b"null")}
# The parts of a number: what a part begins with, the digits that follow, and where the scanner is if they do not.
_NUMBER = tuple((re.compile(start), re.compile(digits), context) for start, digits, context in (
    (rb"-?", rb"0|[1-9][0-9]*", "in numeric literal"),
    (rb"\.", rb"[0-9]+", "after decimal point in numeric literal"),
    (rb"[eE][-+]?", rb"[0-9]+", "in exponent of numeric literal"),
))  # fmt: skip
_OF_VALUE, _OF_KEY = "looking for beginning of value", "looking for beginning of object key string"
# What follows a key, and a value in an object or an array.
_AFTER = {
    b":": (b":", "after object key"), b"}": (b",}", "after object key:value pair"),
    b"]": (b",]", "after array element"),
}  # fmt: skip


_decode = msgspec.json.Decoder(float_hook=float64).decode
_decode_with_texts = msgspec.json.Decoder(float_hook=WrittenNumber).decode


def decode_json(body: bytes, *, with_texts: bool = False) -> Any:
    """Decode a JSON text.

    Bytes that are no UTF-8, and half a pair of escapes, become the replacement character.

    Args:
        body: The text.
        with_texts: Whether numbers that are written otherwise than integers keep their texts; any may be infinite then.

    Raises:
        NumberRangeError: A number is too large for a float.
        ValueError: It is no JSON, or nested too deep; the message is the server's.
    """
    check_depth(body)
    try:
        return _decode_with_texts(body) if with_texts else _decode(body)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        if isinstance(error.__cause__, NumberRangeError):
            raise error.__cause__ from None
        if _is_encoding_error(error):
            return decode_json(body.decode("utf-8", "replace").encode(), with_texts=with_texts)
        if (paired := _ESCAPE.sub(_paired, body)) != body:
            return decode_json(paired, with_texts=with_texts)
        raise ValueError(_syntax_error(body)) from None


def _paired(escape: re.Match[bytes]) -> bytes:
    """Return an escape as it is, or the replacement character for one half of a pair without the other."""
    return "\ufffd".encode() if escape["half"] else escape[0]


def _is_encoding_error(error: Exception) -> bool:
    """Return whether bytes are no UTF-8. msgspec 0.22 raises UnicodeDecodeError for it, 0.23 its own DecodeError."""
    return isinstance(error, UnicodeDecodeError) or str(error).startswith("Invalid UTF-8")


def escaped(text: bytes) -> bytes:
    """Return a JSON text as Go's encoder writes it: characters with a meaning in HTML are escapes.

    Source: Go's encoding/json, encode.go, htmlSafeSet.
    """
    # One byte is searched for much faster than several.
    if b"<" in text or b">" in text or b"&" in text or (_LINE[:1] in text and _LINE in text):
        for character, escape in _HTML:
            text = text.replace(character, escape)
    return text


def unescaped_length(text: bytes) -> int:
    """Return how long an escaped text was before."""
    return len(text) - sum((len(escape) - len(character)) * text.count(escape) for character, escape in _HTML)


def encode_json(value: object) -> bytes:
    """Return the JSON text of a value as Go's encoder writes it."""
    return escaped(_encode(value))


def kind_of(value: object) -> str:
    """Return the name of a value's type in JSON: `object`, `array`, `string`, `number`, `bool` or `null`."""
    return _KINDS.get(type(value), "number")


def check_depth(body: bytes) -> None:
    """Refuse a JSON text that is nested too deep, for the server or for this interpreter.

    Raises:
        ValueError: It is nested too deep.
    """
    if is_deep(body):
        raise ValueError(TOO_DEEP)


def is_deep(body: bytes, *, at_most: int | None = None) -> bool:
    """Return whether a JSON text is nested deeper than this interpreter can walk through.

    Args:
        body: The text.
        at_most: How deep it may be at most for that to count; None for any depth.
    """
    if body.count(b"[") + body.count(b"{") <= _FEW_BRACKETS:
        return False
    depth = _depth(body)
    return depth > max_depth() and (at_most is None or depth <= at_most)


def max_depth() -> int:
    """Return how many levels are accepted: upstream's 10,000 where the recursion limit allows for them.

    Functions that walk through values need up to three frames per level, and their callers need some.
    """
    return min(MAX_DEPTH, max(_FEW_BRACKETS, (sys.getrecursionlimit() - 200) // 4))


def _depth(body: bytes) -> int:
    steps = array("b", _STRING.sub(b"", body).translate(_STEPS, _NO_BRACKETS))
    return max(accumulate(steps), default=0)


class _UnexpectedError(Exception):
    """A character has no place where it is.

    Attributes:
        at: Its position.
        context: What the scanner is reading there.
    """

    def __init__(self, at: int, context: str) -> None:
        super().__init__()
        self.at, self.context = at, context


def _syntax_error(body: bytes) -> str:
    """Return what Go's scanner says of a text that is no JSON."""
    try:
        _scan(body)
    except _UnexpectedError as error:
        at = body[error.at : error.at + 4].decode("utf-8", "replace")[:1]
        return f"invalid character {_quoted(at)} {error.context}" if at else "unexpected end of JSON input"
    return "json: cannot unmarshal number into Go value of type float64"


def _scan(body: bytes) -> None:
    """Read a text as Go's scanner does.

    Raises:
        _UnexpectedError: It is no JSON.
    """
    # How the open objects and arrays end; a colon, for a key that waits for its value.
    ends: list[bytes] = []
    at = _scan_value(body, _skip(body, 0), ends)
    while ends:
        at = _skip(body, at)
        expected, context = _AFTER[ends[-1]]
        found = body[at : at + 1]
        if not found or found not in expected:
            raise _UnexpectedError(at, context)
        at += 1
        if found == ends[-1]:
            ends.pop()
        if found == b"," and ends[-1] == b"}":
            at = _scan_key(body, _skip(body, at), ends)
        elif found in b",:":
            at = _scan_value(body, _skip(body, at), ends)
    at = _skip(body, at)
    if at < len(body):
        raise _UnexpectedError(at, "after top-level value")


def _skip(body: bytes, at: int) -> int:
    found = _SPACES.match(body, at)
    assert found is not None  # it matches nothing as well
    return found.end()


def _scan_value(body: bytes, at: int, ends: list[bytes]) -> int:
    """Return the position behind a value, or behind what opens it."""
    first = body[at : at + 1]
    if first in (b"{", b"["):
        end, at = (b"}" if first == b"{" else b"]"), _skip(body, at + 1)
        if body[at : at + 1] == end:
            return at + 1
        ends.append(end)
        return _scan_key(body, at, ends) if end == b"}" else _scan_value(body, at, ends)
    if first == b'"':
        return _scan_string(body, at)
    if first in _LITERALS:
        return _scan_literal(body, at, _LITERALS[first])
    if not first or first not in b"-0123456789":
        raise _UnexpectedError(at, _OF_VALUE)
    return _scan_number(body, at)


def _scan_literal(body: bytes, at: int, word: bytes) -> int:
    for place, letter in enumerate(word, at):
        if body[place : place + 1] != bytes((letter,)):
            raise _UnexpectedError(place, f"in literal {word.decode()} (expecting {chr(letter)!r})")
    return at + len(word)


def _scan_number(body: bytes, at: int) -> int:
    for start, digits, context in _NUMBER:
        if (found := start.match(body, at)) is None:
            continue
        if (rest := digits.match(body, found.end())) is None:
            raise _UnexpectedError(found.end(), context)
        at = rest.end()
    return at


def _scan_key(body: bytes, at: int, ends: list[bytes]) -> int:
    if body[at : at + 1] != b'"':
        raise _UnexpectedError(at, _OF_KEY)
    ends.append(b":")
    return _scan_string(body, at)


def _scan_string(body: bytes, at: int) -> int:
    found = _STRING_START.match(body, at)
    assert found is not None  # it begins with a quote
    at = found.end()
    if body[at : at + 1] == b'"':
        return at + 1
    if escape := _HALF_ESCAPE.match(body, at):
        raise _UnexpectedError(escape.end(), "in \\u hexadecimal character escape")
    if body[at : at + 1] == b"\\":
        raise _UnexpectedError(at + 1, "in string escape code")
    raise _UnexpectedError(at, "in string literal")


def _quoted(character: str) -> str:
    """Return a character as Go's errors show it."""
    if character == "'":
        return "'\\''"
    if character == '"':
        return "'\"'"
    return f"'{character}'" if character.isprintable() else repr(character)
