"""Shard selectors: ranges of the hashes of uids or namespaces, by which lists and watches are divided (KEP-5866).

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/sharding/parser.go, which parses CEL; api-server §32.
"""

import re
from bisect import bisect_right
from typing import NamedTuple

from kcr_devcluster.apiserver.protocol.responses import StatusError

UID, NAMESPACE = "object.metadata.uid", "object.metadata.namespace"

_OFFSET_BASIS, _PRIME, _MASK = 0xCBF29CE484222325, 0x100000001B3, (1 << 64) - 1
_CALL = re.compile(r"(\w+)\s*\(([^()]*)\)")
_STRING = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")
# The shapes of expressions, and the numbers that messages have for them. Source: cel-go/common/ast, ExprKind.
_KINDS = (
    (re.compile(rf"{_STRING.pattern}|[0-9]\w*|true|false|null"), 5),
    (re.compile(r"[A-Za-z_]\w*"), 3),
    (re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+"), 7),
)
_END = "0x10000000000000000"
_HEX_DIGITS, _LONGEST_HEX = 16, 17


def fnv1a_64(text: str) -> int:
    """Return the 64-bit FNV-1a hash of a text."""
    found = _OFFSET_BASIS
    for byte in text.encode():
        found = (found ^ byte) * _PRIME & _MASK
    return found


class ShardSelector(NamedTuple):
    """The objects with a hash in one of some ranges.

    Attributes:
        text: The selector as it was sent.
        field: The field that is hashed: UID or NAMESPACE.
        bounds: Start and end of each range, in order and apart from each other. A start is included, an end is not.
    """

    text: str
    field: str
    bounds: tuple[int, ...]

    def holds(self, value_hash: int) -> bool:
        """Return whether the hash of an object's field lies in a range."""
        # Behind a start and before its end, the number of bounds passed is odd.
        return bisect_right(self.bounds, value_hash) % 2 == 1


def parse_shard_selector(text: str) -> ShardSelector | None:
    """Parse a `shardSelector`: `shardRange(FIELD, 'START', 'END')`, several joined by `||`; None for an empty one.

    Raises:
        StatusError: 500, it cannot be parsed.
    """
    if not text:
        return None
    if not text.strip():
        raise _invalid("empty shard selector is not allowed; omit the parameter for unfiltered lists")
    ranges = [_shard_range(part.strip()) for part in text.split("||")]
    field = ranges[0][0]
    for other, _, _ in ranges:
        if other != field:
            raise _invalid(f'all shard ranges must use the same field, got "{field}" and "{other}"')
    bounds: list[int] = []
    for _, start, end in sorted(ranges):
        if bounds and start <= bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        else:
            bounds += (start, end)
    return ShardSelector(text, field, tuple(bounds))


def _shard_range(text: str) -> tuple[str, int, int]:
    """Return field, start and end of a call of `shardRange`."""
    call = _CALL.fullmatch(text)
    if call is None:
        raise _invalid(f"unexpected expression kind {_kind(text)}; expected shardRange() call or || operator")
    if call[1] != "shardRange":
        raise _invalid(f'unsupported function "{call[1]}"; only shardRange() and || are allowed')
    arguments = [one.strip() for one in call[2].split(",")] if call[2].strip() else []
    if len(arguments) != 3:
        raise _invalid(f"shardRange() requires exactly 3 arguments, got {len(arguments)}")
    field, start, end = _field(arguments[0]), _hex(arguments[1], "hexStart"), _hex(arguments[2], "hexEnd")
    if int(start, 16) >= int(end, 16):
        raise _invalid(f"shard range start {start} must be less than end {end}")
    return field, int(start, 16), int(end, 16)


def _field(text: str) -> str:
    if (kind := _kind(text)) not in (3, 7):
        words = f"expected field path (e.g. object.metadata.uid), got expression kind {kind}"
        raise _invalid(f"shardRange() first argument: {words}")
    if text not in (UID, NAMESPACE):
        raise _invalid(f'unsupported field path "{text}"; supported: {UID}, {NAMESPACE}')
    return text


def _hex(text: str, name: str) -> str:
    """Return the hash that is a range's start or end, as it was sent."""
    literal = _STRING.fullmatch(text)
    if literal is None:
        kind = _kind(text)
        words = f"must be a string literal (e.g. '0xff'), got expression kind {kind}"
        raise _invalid(f"{name} {'must be a string literal, got int64' if kind == 5 else words}")
    value = literal[1] or literal[2] or ""
    if fault := _hex_fault(value):
        raise _invalid(f"{name}{fault}")
    return value


def _hex_fault(value: str) -> str:
    digits = value.removeprefix("0x")
    if not value.startswith("0x"):
        return f" must have '0x' prefix, got \"{value}\""
    if not digits:
        return ": hex value is required after '0x'"
    if len(digits) > _LONGEST_HEX:
        return f': hex value too long ({len(digits)} chars, max {_LONGEST_HEX}): "{digits}"'
    if wrong := digits.strip("0123456789abcdef"):
        return f': invalid hex character "{wrong[0]}" in "{value}"'
    if len(digits) == _LONGEST_HEX and value != _END:
        return f": 17-digit hex value must be '{_END}' (2^64), got \"{value}\""
    if len(digits) < _HEX_DIGITS:
        padded = f"0x{digits:0>{_HEX_DIGITS}}"
        return f' must be a 0x-prefixed 16-digit hex value, got "{value}" (did you mean "{padded}"?)'
    return ""


def _kind(text: str) -> int:
    """Return the number of an expression's shape.

    Raises:
        StatusError: 500, it is no expression.
    """
    for pattern, kind in _KINDS:
        if pattern.fullmatch(text):
            return kind
    raise _invalid(f'CEL parse error: Syntax error: unexpected "{text}"')


def _invalid(words: str) -> StatusError:
    """500 without a reason: upstream parses it where all errors are internal ones."""
    return StatusError(500, "", f"invalid shard selector: {words}")
