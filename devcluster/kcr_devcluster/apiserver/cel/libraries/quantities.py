"""Amounts of resources: `quantity` and what may be asked of them.

An amount knows whether Go has it as an integer of 64 bits with a power of ten; only then it may be an integer.

Source: k8s.io/apiserver/pkg/cel/library/quantity.go; k8s.io/apimachinery/pkg/api/resource/{quantity,amount,math}.go.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from kcr.api.durations import parse_int
from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.schema.quantities import SYNTAX

_KIND = "kubernetes.Quantity"
_FORM = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO, _FAST_DIGITS, _FAST_BINARY_DIGITS = -9, 18, 15
_LEAST, _LARGEST = -(1 << 63), (1 << 63) - 1
# Powers beyond this one are cut to it, for Python would fill the memory with them.
_FURTHEST = 2_000


class Quantity(NamedTuple):
    """An amount: a number times a power of ten.

    Attributes:
        number: The number.
        scale: The power.
        is_small: Whether Go has the number in 64 bits.
    """

    number: int
    scale: int
    is_small: bool

    @property
    def cel_type(self) -> str:
        """The name of the type."""
        return _KIND

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same amount."""
        return isinstance(other, Quantity) and compare(self, other) == 0

    def __hash__(self) -> int:
        """Return the hash of the amount."""
        number, scale = self.number, self.scale
        while number and number % 10 == 0:
            number, scale = number // 10, scale + 1
        return hash((number, scale if number else 0))


@lru_cache(1024)
def parse(text: str) -> Quantity:
    """Return the amount that a text stands for.

    Raises:
        EvaluationError: It stands for none.
    """
    found = _FORM.fullmatch(text) if text.isascii() else None
    if found is None or not text:
        raise EvaluationError(SYNTAX)
    sign, whole, fraction, suffix = found[1], found[2].lstrip("0"), found[3] or "", found[4]
    if not (whole or fraction or suffix):
        return Quantity(0, 0, True)
    power = _power(suffix)
    digits = f"{whole or '0'}{fraction}"
    count = len(whole or "0") + len(fraction)
    number = int(f"{sign}{digits}") if count < _FURTHEST else _too_long(sign)
    if suffix in _BINARY:
        number <<= power
        is_fast = not fraction and count <= _FAST_BINARY_DIGITS - 1 - power * 3 // 10 and abs(number) <= _LARGEST
        return Quantity(number, 0, True) if is_fast else _rounded(number, -len(fraction), cut=True)
    scale = power - len(fraction)
    if count <= _FAST_DIGITS and scale >= _NANO:
        return Quantity(number, scale, True)
    return _rounded(number, scale, cut=False)


def _too_long(sign: str) -> int:
    number: int = 10**_FURTHEST
    return -number if sign == "-" else number


def _power(suffix: str) -> int:
    if found := _EXPONENT.fullmatch(suffix):
        if (power := parse_int(found[1])) is None:
            raise EvaluationError("unable to parse quantity's suffix")
        return max(-_FURTHEST, min(power, _FURTHEST))
    power = _BINARY.get(suffix, _DECIMAL.get(suffix))
    if power is None:
        raise EvaluationError("unable to parse quantity's suffix")
    return power


def _rounded(number: int, scale: int, *, cut: bool) -> Quantity:
    """Return an amount in billionths, rounded away from zero; one in powers of 1024 has a largest value."""
    if not number:
        return Quantity(0, scale, False)
    shift = scale - _NANO
    size = abs(number) * 10**shift if shift >= 0 else -(-abs(number) // 10**-shift)
    largest = _LARGEST * 10**-_NANO
    if cut and size > largest:
        return Quantity(_LARGEST if number > 0 else -_LARGEST, 0, False)
    return Quantity(size if number > 0 else -size, _NANO, False)


def compare(one: Quantity, other: Quantity) -> int:
    """Return -1, 0 or 1: whether an amount is less than another, equal to it or more."""
    left, right = _aligned(one, other)
    return (left > right) - (left < right)


def _aligned(one: Quantity, other: Quantity) -> tuple[int, int]:
    scale = min(one.scale, other.scale)
    return one.number * 10 ** (one.scale - scale), other.number * 10 ** (other.scale - scale)


def _sum(one: Quantity, other: Quantity) -> Quantity:
    if one.is_small and other.is_small:
        if not other.number:
            return one
        if not one.number:
            return other
    parts = _aligned(one, other)
    is_small = one.is_small and other.is_small and all(_LEAST <= part <= _LARGEST for part in (*parts, sum(parts)))
    return Quantity(sum(parts), min(one.scale, other.scale), is_small)


def _negated(one: Quantity) -> Quantity:
    return one._replace(number=-one.number)


def _of_integer(number: int) -> Quantity:
    return Quantity(number, 0, True)


def _integer(one: Quantity) -> int | None:
    if not one.is_small or one.scale < 0:
        return None
    number = one.number * 10**one.scale
    return number if _LEAST <= number <= _LARGEST else None


def _as_integer(one: Quantity) -> int:
    if (number := _integer(one)) is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _as_float(one: Quantity) -> float:
    try:
        base = float(one.number)
    except OverflowError:
        base = float("inf") if one.number > 0 else float("-inf")
    return base * float(f"1e{one.scale}") if one.scale else base


def _is_quantity(text: str) -> bool:
    try:
        parse(text)
    except EvaluationError:
        return False
    return True


def _compared(name: str, returns: str, answer: Callable[[int], Any]) -> tuple[Overload, ...]:
    return (Overload(f"quantity_{name}", returns, (_KIND, _KIND), lambda one, other: answer(compare(one, other))),)


def _asked(name: str, returns: str, ask: Callable[[Quantity], Any]) -> tuple[Overload, ...]:
    return (Overload(f"quantity_{name}", returns, (_KIND,), ask),)


FUNCTIONS: Functions = {
    "quantity": (Overload("string_to_quantity", _KIND, ("string",), parse, False),),
    "isQuantity": (Overload("is_quantity_string", "bool", ("string",), _is_quantity, False),),
    # The one that is no member.
    "sign": (
        Overload("quantity_sign", "int", (_KIND,), lambda one: (one.number > 0) - (one.number < 0), False),
    ),
    "isInteger": _asked("is_integer", "bool", lambda one: _integer(one) is not None),
    "asInteger": _asked("get_int", "int", _as_integer),
    "asApproximateFloat": _asked("get_float", "double", _as_float),
    "add": (
        Overload("quantity_add", _KIND, (_KIND, _KIND), _sum),
        Overload("quantity_add_int", _KIND, (_KIND, "int"), lambda one, number: _sum(one, _of_integer(number))),
    ),
    "sub": (
        Overload("quantity_sub", _KIND, (_KIND, _KIND), lambda one, other: _sum(one, _negated(other))),
        Overload("quantity_sub_int", _KIND, (_KIND, "int"), lambda one, number: _sum(one, _of_integer(-number))),
    ),
    "isLessThan": _compared("is_less_than", "bool", lambda order: order < 0),
    "isGreaterThan": _compared("is_greater_than", "bool", lambda order: order > 0),
    "compareTo": _compared("compare_to", "int", lambda order: order),
}  # fmt: skip
