"""The function `format` of strings: the values of a list in the places of `%s`, `%d`, `%.3f` and so on.

Numbers are written as in the United States: with commas between thousands, and with powers of ten in place of `e`.

Source: github.com/google/cel-go/ext/formatting.go; golang.org/x/text/message.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcr.api.durations import parse_int
from kcr_devcluster.apiserver.cel.libraries.conversions import text_of_bytes
from kcr_devcluster.apiserver.cel.libraries.times import duration_text, timestamp_text
from kcr_devcluster.apiserver.cel.values import Duration, EvaluationError, Timestamp, Type, type_name
from kcr_devcluster.apiserver.protocol.gotexts import general, quoted

_CLAUSE = re.compile(r"%(?:\.([0-9]*+))?+(.)", re.DOTALL)
_PRECISION = 6
_TIMES_TEN = "\u00d710"
_POWERS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_NAMES_OF_GO = {"timestamp": "google.protobuf.Timestamp", "duration": "google.protobuf.Duration"}
_INTEGERS, _NUMBERS = ("int", "uint"), ("NaN", "Infinity", "-Infinity")


def formatted(text: str, values: Sequence[Any]) -> str:
    """Return a text with values in the places of its clauses.

    Args:
        text: The text.
        values: The values, in the order of the clauses.

    Raises:
        EvaluationError: A clause is none, has no value, or one of another type.
    """
    at, used = 0, 0
    parts: list[str] = []
    while (start := text.find("%", at)) >= 0:
        parts.append(text[at:start])
        if text.startswith("%%", start):
            parts.append("%")
            at = start + 2
            continue
        if start + 1 == len(text):
            raise EvaluationError("unexpected end of string")
        if used >= len(values):
            raise EvaluationError(f"index {used} out of range")
        shown, at = _clause(text, start, values[used])
        parts.append(shown)
        used += 1
    return "".join([*parts, text[at:]])


def _clause(text: str, start: int, value: Any) -> tuple[str, int]:
    """Return a value as a clause shows it, and where the clause ends."""
    found = _CLAUSE.match(text, start)
    if found is None:
        raise _misread("error while parsing precision: could not find end of precision specifier")
    precision, letter = _PRECISION, found[2]
    if found[1] is not None:
        precision = _precision(found[1])
    show = _CLAUSES.get(letter)
    if show is None:
        # Go looks at the first byte.
        raise _misread(f'unrecognized formatting clause "{chr(letter.encode()[0])}"')
    if type_name(value) == "dyn":
        # Stands for a value that is not known yet.
        return "", found.end()
    try:
        return show(value, precision), found.end()
    except EvaluationError as error:
        raise EvaluationError(f"error during formatting: {error}") from None


def _misread(why: str) -> EvaluationError:
    return EvaluationError(f"could not parse formatting clause: {why}")


def _precision(digits: str) -> int:
    if (found := parse_int(digits)) is None:
        why = "value out of range" if digits else "invalid syntax"
        raise _misread(
            "error while parsing precision: error while converting precision to integer: "
            f"strconv.Atoi: parsing {quoted(digits)}: {why}"
        )
    return found


def _kind(value: Any) -> str:
    kind = type_name(value)
    return _NAMES_OF_GO.get(kind, kind)


def _text(value: Any, _: int = 0) -> str:
    if (show := _TEXTS.get(type_name(value))) is None:
        raise EvaluationError(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
            f"and timestamps, was given {_kind(value)}"
        )
    return show(value)


def _bytes(value: bytes) -> str:
    try:
        return text_of_bytes(value)
    except EvaluationError as error:
        raise EvaluationError(f"could not convert argument {quoted(str(error))} to string") from None


def _type(value: Type) -> str:
    return _NAMES_OF_GO.get(value.name, value.name)


def _list(values: Sequence[Any]) -> str:
    return f"[{', '.join(map(_inner, values))}]"


def _map(entries: Mapping[Any, Any]) -> str:
    shown = sorted(((_key(key), _inner(value)) for key, value in entries.items()), key=lambda pair: pair[0])
    return f"{{{', '.join(f'{key}:{value}' for key, value in shown)}}}"


def _key(key: Any) -> str:
    if (kind := type_name(key)) not in ("string", "bool", *_INTEGERS):
        raise EvaluationError(f"no formatting function for map key of type {_kind(key)}")
    return quoted(key) if kind == "string" else _text(key)


def _inner(value: Any) -> str:
    """Return a value in a list or map as an expression would write it."""
    match value:
        case str():
            return quoted(value)
        case bytes():
            return f"b{quoted(_bytes(value))}"
        case float():
            return f"{value:.6f}" if math.isfinite(value) else quoted(general(value))
        case Timestamp():
            return f"timestamp({quoted(timestamp_text(value))})"
        case Duration():
            return f"duration({quoted(duration_text(value))})"
    if type_name(value) not in _TEXTS:
        raise EvaluationError(f"no formatting function for {_kind(value)}")
    return _text(value)


def _integer(value: Any, what: str, *more: str) -> int:
    if type_name(value) not in (*_INTEGERS, *more):
        raise EvaluationError(f"{what}, was given {_kind(value)}")
    return int(value)


def _number(value: Any, clause: str) -> float:
    if value in _NUMBERS if isinstance(value, str) else isinstance(value, float):
        return float(value)
    raise EvaluationError(f"{clause} clause can only be used on doubles, was given {_kind(value)}")


def _decimal(value: Any, _: int) -> str:
    return str(_integer(value, "decimal clause can only be used on integers"))


def _binary(value: Any, _: int) -> str:
    return f"{_integer(value, 'only integers and bools can be formatted as binary', 'bool'):b}"


def _octal(value: Any, _: int) -> str:
    return f"{_integer(value, 'octal clause can only be used on integers'):o}"


def _hexadecimal(value: Any, _: int) -> str:
    if isinstance(value, str | bytes):
        return (value.encode() if isinstance(value, str) else value).hex()
    return f"{_integer(value, 'only integers, byte buffers, and strings can be formatted as hex'):x}"


def _named(number: float) -> str:
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def _fixed(value: Any, precision: int) -> str:
    number = _number(value, "fixed-point")
    # Zero has no sign here.
    return f"{number or 0.0:,.{precision}f}" if math.isfinite(number) else _named(number)


def _scientific(value: Any, precision: int) -> str:
    number = _number(value, "scientific")
    if not math.isfinite(number):
        return _named(number).rjust(precision)
    digits, _, power = f"{number or 0.0:.{_PRECISION}e}".partition("e")
    # A precision is taken for the width.
    return f"{digits}{_TIMES_TEN}{power.removeprefix('+').translate(_POWERS)}".rjust(precision)


_TEXTS: Mapping[str, Callable[[Any], str]] = {
    "string": str, "bytes": _bytes, "bool": lambda value: "true" if value else "false", "null_type": lambda _: "null",
    "int": str, "uint": str, "double": general, "timestamp": timestamp_text, "duration": duration_text, "type": _type,
    "list": _list, "map": _map,
}  # fmt: skip
_CLAUSES: Mapping[str, Callable[[Any, int], str]] = {
    "s": _text, "d": _decimal, "f": _fixed, "e": _scientific, "b": _binary, "o": _octal, "x": _hexadecimal,
    "X": lambda value, _: _hexadecimal(value, _).upper(),
}  # fmt: skip
