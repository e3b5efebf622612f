"""Conversions: `int`, `uint`, `double`, `string`, `bytes`, `bool`, `type` and `dyn`; those to times are in `times`.

Source: github.com/google/cel-go/common/stdlib/standard.go; common/types/{int,uint,double,string,bytes,bool}.go;
Go's strconv, atoi.go, atof.go and atob.go.
"""

import math
import re
from collections.abc import Callable
from typing import Any

from kcr.api.durations import parse_int
from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import EvaluationError, Type, Uint, type_name
from kcr_devcluster.apiserver.protocol.gotexts import general

_DECIMAL = re.compile(
    r"[+-]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?|[+-]?(?i:inf(?:inity)?)|(?i:nan)"
)
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?=\.?[0-9a-fA-F])[0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+")
_BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_LARGEST, _LARGEST_UNSIGNED = float(1 << 63), float(1 << 64)


def _failed(wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from 'string' to '{wanted}'")


def _signed(text: str) -> int:
    if (found := parse_int(text)) is None:
        raise _failed("int")
    return found


def _unsigned(text: str) -> Uint:
    found = parse_int(text, 65) if text[:1].isdecimal() else None
    if found is None:
        raise _failed("uint")
    return Uint(found)


def parse_double(text: str) -> float:
    """Return the number that a text stands for.

    Raises:
        EvaluationError: It stands for none, or for one that is too large.
    """
    found = math.nan
    if _DECIMAL.fullmatch(text):
        try:
            found = float(text)
        except ValueError:
            raise _failed("double") from None
    elif _HEXADECIMAL.fullmatch(text):
        try:
            found = float.fromhex(text)
        except OverflowError:
            raise _failed("double") from None
    else:
        raise _failed("double")
    if math.isinf(found) and text[-1].isdecimal():
        raise _failed("double")
    return found


def _truth(text: str) -> bool:
    if (found := _BOOLEANS.get(text)) is None:
        raise _failed("bool")
    return found


def _truncated(number: float) -> int:
    if -_LARGEST < number < _LARGEST:
        return int(number)
    raise EvaluationError("integer overflow")


def _truncated_unsigned(number: float) -> Uint:
    if 0 <= number < _LARGEST_UNSIGNED:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def _of_unsigned(number: Uint) -> int:
    if number >= 1 << 63:
        raise EvaluationError("integer overflow")
    return int(number)


def _of_signed(number: int) -> Uint:
    if number < 0:
        raise EvaluationError("unsigned integer overflow")
    return Uint(number)


def text_of_bytes(value: bytes) -> str:
    """Return the text that bytes are in UTF-8.

    Raises:
        EvaluationError: They are none.
    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def same(value: Any) -> Any:
    """Return a value that has the wanted type."""
    return value


def _one(name: str, wanted: str, given: str, call: Callable[[Any], Any]) -> Overload:
    return Overload(name, wanted, (given,), call, False)


FUNCTIONS: Functions = {
    "type": (_one("type", "type(A)", "A", lambda value: Type(type_name(value))),),
    "dyn": (_one("to_dyn", "dyn", "A", same),),
    "bool": (_one("bool_to_bool", "bool", "bool", same), _one("string_to_bool", "bool", "string", _truth)),
    "bytes": (_one("bytes_to_bytes", "bytes", "bytes", same), _one("string_to_bytes", "bytes", "string", str.encode)),
    "double": (
        _one("double_to_double", "double", "double", same),
        _one("int64_to_double", "double", "int", float),
        _one("string_to_double", "double", "string", parse_double),
        _one("uint64_to_double", "double", "uint", float),
    ),
    "int": (
        _one("int64_to_int64", "int", "int", same),
        _one("double_to_int64", "int", "double", _truncated),
        _one("duration_to_int64", "int", "duration", int),
        _one("string_to_int64", "int", "string", _signed),
        _one("timestamp_to_int64", "int", "timestamp", lambda moment: moment.nanos // 10**9),
        _one("uint64_to_int64", "int", "uint", _of_unsigned),
    ),
    "uint": (
        _one("uint64_to_uint64", "uint", "uint", same),
        _one("double_to_uint64", "uint", "double", _truncated_unsigned),
        _one("int64_to_uint64", "uint", "int", _of_signed),
        _one("string_to_uint64", "uint", "string", _unsigned),
    ),
    "string": (
        _one("string_to_string", "string", "string", same),
        _one("bool_to_string", "string", "bool", lambda value: "true" if value else "false"),
        _one("bytes_to_string", "string", "bytes", text_of_bytes),
        _one("double_to_string", "string", "double", general),
        _one("int64_to_string", "string", "int", str),
        _one("uint64_to_string", "string", "uint", str),
    ),
}
