"""Numbers of JSON as Go writes a float64: shortest, without a fraction where there is none.

Source: Go's encoding/json, encode.go, floatEncoder.
"""

import re
from decimal import Decimal
from math import isfinite
from typing import Any

import msgspec

# In a text that we have encoded: whole numbers with a fraction or an exponent, and those of more than 64 bits.
_CHANGED = re.compile(rb"[0-9](?:\.0|e[0-9]|[0-9]{18})")
_INT64 = 2**63
# From here on Go writes an exponent.
_LARGE = 1e21
# The form 'g' writes an exponent outside of these.
_EXPONENTS = range(-4, 6)


class NumberRangeError(ValueError):
    """A number is none of 64 bits."""


def float64(text: str) -> float:
    """Return a number.

    Raises:
        NumberRangeError: It is too large.
    """
    number = float(text)
    if not isfinite(number):
        raise NumberRangeError(f"json: cannot unmarshal number {text} into Go value of type float64")
    return number


class WrittenNumber(float):
    """A number with a fraction or an exponent that keeps its text, which some types store, and errors show."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


def as_go_writes(number: int | float) -> int | float:
    """Return a number that is written as Go writes it: an integer where it has no fraction."""
    if type(number) is float and number.is_integer() and abs(number) < _LARGE:
        return int(Decimal(repr(number)))
    return number


def with_go_numbers(value: Any) -> Any:
    """Return a value of JSON with its numbers as Go has them: integers of 64 bits, and floats.

    Raises:
        NumberRangeError: One with a text is too large.
    """
    if isinstance(value, dict):
        return {name: with_go_numbers(one) for name, one in value.items()}
    if isinstance(value, list):
        return [with_go_numbers(one) for one in value]
    if isinstance(value, float):
        return as_go_writes(float64(value.text) if isinstance(value, WrittenNumber) else value)
    return as_go_writes(float(value)) if type(value) is int and not -_INT64 <= value < _INT64 else value


def without_texts(value: Any) -> Any:
    """Return a value of JSON with plain numbers in place of those that keep their texts."""
    if isinstance(value, dict):
        return {name: without_texts(one) for name, one in value.items()}
    if isinstance(value, list):
        return [without_texts(one) for one in value]
    return float(value) if isinstance(value, WrittenNumber) else value


def stored_numbers(members: dict[str, Any]) -> dict[str, Any]:
    """Return the members of an object with numbers as Go stores those that no type is known of: 1.0 is 1."""
    return with_go_numbers(members) if _CHANGED.search(msgspec.json.encode(members)) else members


def shortest_text(number: str) -> str:
    """Return a number as the form 'g' of Go's strconv.FormatFloat writes it.

    Args:
        number: Its digits, as few as tell it from others.
    """
    value = Decimal(number).normalize()
    mantissa, _, exponent = f"{value:e}".partition("e")
    return f"{value:f}" if int(exponent) in _EXPONENTS else f"{mantissa}e{int(exponent):+03d}"
