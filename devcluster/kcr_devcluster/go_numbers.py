"""Numbers of JSON as Go writes a float64: shortest, without a fraction where there is none.

Source: Go's encoding/json, encode.go, floatEncoder.
"""

from decimal import Decimal

# From here on, and below the other one, Go writes an exponent.
_LARGE, _SMALL = 1e21, 1e-6


def as_go_writes(number: int | float) -> int | float:
    """Return a number that is written as Go writes it: an integer where it has no fraction."""
    if type(number) is float and number.is_integer() and abs(number) < _LARGE:
        return int(Decimal(repr(number)))
    return number


def go_text(number: int | float) -> str:
    """Return the text of a number."""
    if type(number) is int:
        return str(number)
    if number == 0 or _SMALL <= abs(number) < _LARGE:
        return format(Decimal(repr(number)).normalize(), "f")
    mantissa, _, exponent = repr(number).partition("e")
    # Unlike ours, the exponents of small numbers have one digit where one will do.
    return f"{mantissa}e{int(exponent):+d}" if exponent else f"{float(repr(number)):e}"
