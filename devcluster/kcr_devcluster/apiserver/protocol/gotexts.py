"""Texts as Go writes them: strings in quotes, and floating-point numbers.

Source: Go's strconv, quote.go and ftoa.go; fmt, format.go.
"""

import math
from decimal import Decimal

_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_ESCAPES |= {'"': '\\"', "\\": "\\\\"}
# The powers of ten of numbers that are written without an exponent.
_LEAST_POWER, _LARGEST_POWER = -4, 5


def quoted(text: str) -> str:
    """Return a text in quotes, as `%q` writes it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if (known := _ESCAPES.get(character)) is not None:
        return known
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 128 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def general(number: float) -> str:
    """Return the shortest text of a number, as `%v` and `%g` write it: with an exponent from 1e+06 on."""
    if named := _named(number):
        return named
    sign, digits, exponent = Decimal(repr(number)).as_tuple()
    assert isinstance(exponent, int)  # the number is finite
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    power = 0 if shown == "0" else len(digits) + exponent - 1
    if _LEAST_POWER <= power <= _LARGEST_POWER:
        return exact(number)
    fraction = f".{shown[1:]}" if shown[1:] else ""
    return f"{'-' if sign else ''}{shown[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def exact(number: float) -> str:
    """Return the shortest text of a number without an exponent."""
    return _named(number) or f"{Decimal(repr(number)):f}".removesuffix(".0")


def _named(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return ("+Inf" if number > 0 else "-Inf") if math.isinf(number) else ""
