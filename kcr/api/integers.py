"""Whole numbers in texts that others wrote, such as annotations and index lists, read as Go reads them."""

import re

# Digits beyond these are out of range whatever the bits.
_INTEGER = re.compile(r"([+-]?)(?=[0-9])0*+([0-9]{0,20})")


def parse_int(text: str, bits: int = 64) -> int | None:
    """Return the whole number that a text says in decimal digits, or None when it says none, or one of more bits.

    Other than `int`, it takes neither spaces, underscores nor digits of other scripts, and any number of leading zeros:
    Python refuses texts of more than 4,300 digits, whatever they say.

    Args:
        text: A sign at most, and digits.
        bits: How many bits the number may have, its sign included.

    Source: Go's strconv.ParseInt, base 10.
    """
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    number = int(f"{found[1]}{found[2] or 0}")
    limit = 1 << (bits - 1)
    return number if -limit <= number < limit else None
