"""Amounts of resources: `500m`, `1Gi`, `1e3`. Read exactly, written in canonical form.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go.
"""

import re
from functools import lru_cache

_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_EXPONENT = re.compile(r"[eE][+-]?[0-9]+")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_POWER = {power: suffix for suffix, power in _BINARY.items()}
_NANO, _MICRO = 10**9, 10**6
# Go reads numbers of so many digits without arbitrary precision.
_FAST_DIGITS = 18
# Amounts in powers of 1024 are cut to this one, in billionths; Go keeps those in powers of ten, however large.
_LARGEST = (2**63 - 1) * _NANO
_OVERFLOW = 2**64
_LONGEST = 1_000
_FURTHEST = 2 * _LONGEST

_SUFFIX_ERROR = "unable to parse quantity's suffix"
SYNTAX = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@lru_cache(4096)
def _parsed(text: str) -> tuple[int, str]:
    """Return the amount in billionths, and the suffix that tells the family it is written in."""
    found = _FORM.fullmatch(text) if text and len(text) <= _LONGEST else None
    if found is None:
        raise ValueError(SYNTAX)
    sign, whole, fraction, suffix = found[1], found[2], found[3] or "", found[4]
    # Without digits, it is zero.
    digits, scale = int(whole + fraction or "0"), 9 - len(fraction)
    if suffix in _BINARY:
        digits *= 1024 ** _BINARY[suffix]
    elif suffix in _DECIMAL:
        scale += _DECIMAL[suffix]
    elif _EXPONENT.fullmatch(suffix):
        scale += int(suffix[1:])
    else:
        raise ValueError(_SUFFIX_ERROR)
    # Beyond these, the amount is the largest or the smallest there is; the power itself could fill the memory.
    scale = max(-_FURTHEST, min(scale, _FURTHEST))
    # Fractions of a billionth are rounded up: a request above zero never becomes zero.
    amount = digits * 10**scale if scale >= 0 else -(-digits // 10**-scale)
    if suffix in _BINARY:
        amount = min(amount, _LARGEST)
    return (-amount if sign == "-" else amount), suffix


@lru_cache(4096)
def amount(text: str) -> int:
    """Return a quantity in billionths.

    Raises:
        ValueError: The text is no quantity; the message is the server's.
    """
    return _parsed(text)[0]


def whole(text: str) -> bool:
    """Return whether a quantity is a whole number of units, by thousandths in 64 bits: 1Ei overflows and is none.

    Source: quantity.go, MilliValue: where Go needs arbitrary precision, they wrap around; else, they become zero.
    """
    thousandths = -(-amount(text) // _MICRO)
    wrapped = (thousandths + _OVERFLOW // 2) % _OVERFLOW - _OVERFLOW // 2
    return wrapped % 1000 == 0 or (wrapped != thousandths and _is_fast(text))


@lru_cache(4096)
def canonical(text: str) -> str:
    """Return the one way to write a quantity: no fraction, the largest suffix, in the family it came in.

    Text that has no zeros to spare is kept as it is: a plus sign and a capital `E` stay.

    Raises:
        ValueError: The text is no quantity; the message is the server's.
    """
    value, suffix = _parsed(text)
    return text if _is_kept(text) else written(value, suffix)


def _is_fast(text: str) -> bool:
    """Return whether Go reads a quantity without arbitrary precision; of large binary ones it does not."""
    found = _FORM.fullmatch(text)
    assert found is not None  # it has been parsed
    digits = len((found[2] + (found[3] or "")).lstrip("0"))
    return found[4] not in _BINARY and digits <= _FAST_DIGITS


def _is_kept(text: str) -> bool:
    """Source: quantity.go, ParseQuantity: which text is taken for canonical when it is read."""
    found = _FORM.fullmatch(text)
    assert found is not None  # it has been parsed
    whole_part, fraction, suffix = found[2].lstrip("0") or "0", found[3] or "", found[4]
    digits = whole_part + fraction
    if suffix in _BINARY:
        power = _BINARY[suffix]
        return not fraction and len(whole_part) <= 14 - 3 * power and int(whole_part) % 8 != 0
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    scale = exponent - len(fraction)
    if len(digits) > _FAST_DIGITS or scale < _DECIMAL["n"]:
        return False
    return scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


@lru_cache(4096)
def in_thousandths(text: str) -> str:
    """Return a quantity rounded up to thousandths, canonical: amounts of resources are never finer.

    Raises:
        ValueError: The text is no quantity; the message is the server's.

    Source: kubernetes/pkg/apis/core/v1/defaults.go, SetDefaults_ResourceList.
    """
    value, suffix = _parsed(text)
    rest = value % _MICRO
    if not rest:
        return canonical(text)
    # Away from zero.
    return written(value - rest + (_MICRO if value > 0 else 0), suffix)


def family(text: str) -> str:
    """Return the suffix of a quantity, for another one that is to be written alike."""
    return _parsed(text)[1]


def written(value: int, suffix: str) -> str:
    """Return the one way to write an amount.

    Args:
        value: The amount in billionths.
        suffix: One of the family it is to be written in: powers of 1024, of 1000, or exponents.
    """
    if suffix in _BINARY and abs(value) >= 1024 * _NANO and value % _NANO == 0:
        return _binary(value // _NANO)
    has_exponent = suffix[:1] in ("e", "E") and suffix not in _BINARY and suffix != "E"
    exponent = -9
    while value and value % 1000 == 0:
        value, exponent = value // 1000, exponent + 3
    if value == 0:
        return "0"
    if has_exponent:
        return f"{value}e{exponent}" if exponent else str(value)
    # Go knows no suffix beyond E, and writes none.
    return f"{value}{_SUFFIX.get(exponent, '')}"


def _binary(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < 6:
        value, power = value // 1024, power + 1
    return f"{value}{_POWER.get(power, '')}"
