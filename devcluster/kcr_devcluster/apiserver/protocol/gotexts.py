"""Texts as Go writes them: strings in quotes, and floating-point numbers.

Source: Go's strconv, quote.go and ftoa.go; fmt, format.go.
"""

import math
from decimal import Decimal
from typing import Any

# The kinds of values of JSON.
_KINDS = {
    dict: "map", list: "slice", str: "string", bool: "bool", int: "int64", float: "float64",
}  # fmt: skip
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


def printed(value: Any) -> str:
    """Return a value of JSON as `%v` prints it."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{printed(value[name])}' for name in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(printed, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "<nil>", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return general(value)
    return str(value)


def formatted(value: Any) -> str:
    """Return a value of JSON as `%s` prints it: what is no text with its type."""
    if value is None:
        return "%!s(<nil>)"
    return value if isinstance(value, str) else f"%!s({go_kind(value)}={printed(value)})"


def go_kind(value: Any) -> str:
    """Return the kind of a value of JSON in Go, such as `map`; null has none."""
    return _KINDS[type(value)]


def go_type(value: Any) -> str:
    """Return the type of a value of JSON in Go, such as `map[string]interface {}`."""
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, dict | list):
        return "[]interface {}" if isinstance(value, list) else "map[string]interface {}"
    return go_kind(value)
