"""Scalar types: strings, numbers, quantities, times, bytes.

Times are stored in whole seconds in UTC, or for MicroTime with exactly six digits.

Source: Go's encoding/json; kubernetes/staging/src/k8s.io/apimachinery/pkg/util/intstr, pkg/api/resource,
pkg/apis/meta/v1/{time,micro_time}.go.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from typing import Any

from kcr_devcluster.apiserver.protocol.gojson import kind_of
from kcr_devcluster.apiserver.schema.base64 import canonical_base64
from kcr_devcluster.apiserver.schema.quantities import SYNTAX, canonical, in_thousandths
from kcr_devcluster.apiserver.schema.shape import Type, TypeMismatchError, text_of
from kcr_devcluster.go_numbers import as_go_writes, with_go_numbers, without_texts

_CANONICAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)")
_MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


def in_utc(moment: datetime, timespec: str) -> str:
    """Return a moment as it is stored; unlike strftime, years before 1000 have four digits."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=timespec)}Z"


@lru_cache(4096)
def whole_seconds(text: str) -> str:
    """Return a time in UTC without its fraction, such as `2026-01-01T00:00:00Z`.

    Raises:
        ValueError: The text is no RFC 3339 time; the message is the server's.
    """
    found = _RFC3339.fullmatch(text)
    if found is None:
        raise ValueError(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"')
    try:
        moment = datetime.fromisoformat(found[1] + found[3])
    except ValueError:
        raise ValueError(f'parsing time "{text}": day out of range') from None
    return text if _CANONICAL.fullmatch(text) else in_utc(moment, "seconds")


@lru_cache(1024)
def micro(text: str) -> str:
    """Return a MicroTime in UTC, such as `2026-01-01T00:00:00.000000Z`.

    Raises:
        ValueError: There are not exactly six fractional digits; the message is the server's.
    """
    if not _MICRO.fullmatch(text):
        rest = re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?", "", text) if _RFC3339.fullmatch(text) else text
        wanted = ".000000" if _RFC3339.fullmatch(text) else "2006"
        raise ValueError(
            f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{rest}" as "{wanted}"'
        )
    return in_utc(datetime.fromisoformat(text), "microseconds")


def _exactly(kind: type) -> Type:
    wanted = {str: "string", bool: "bool"}[kind]

    def conform(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeMismatchError.of(value, wanted)
        return value

    return Type(wanted, conform, kind)


def _integer(wanted: str, bits: int) -> Type:
    limit = 1 << (bits - 1)

    def conform(value: Any) -> Any:
        if type(value) is not int or not -limit <= value < limit:
            raise TypeMismatchError.of_number(value, wanted)
        return value

    return Type(wanted, conform, int)


def _text(wanted: str, rule: Callable[[str], str]) -> Type:
    def conform(value: Any) -> Any:
        if type(value) is not str:
            raise TypeMismatchError.of(value, wanted)
        return rule(value)

    return Type(wanted, conform)


def _float(value: Any) -> Any:
    if not isinstance(value, int | float) or type(value) is bool:
        raise TypeMismatchError.of(value, "float64")
    if not isfinite(value):
        raise TypeMismatchError.of_number(value, "float64")
    return as_go_writes(value if type(value) is int else float(value))


def _quantity(rule: Callable[[str], str]) -> Type:
    def conform(value: Any) -> Any:
        if type(value) is str:
            return rule(value.strip(" "))
        if kind_of(value) != "number":
            raise ValueError(SYNTAX)
        return rule(text_of(value))

    return Type("resource.Quantity", conform, lambda: "0")


def _int_or_string(value: Any) -> Any:
    return value if type(value) is str else _INT32.conform(value)


_INT32 = _integer("int32", 32)
ANY = Type("interface {}", lambda value: value, lambda: None)

SCALARS: Mapping[str, Type] = {
    # The values of resource lists.
    "amount": _quantity(in_thousandths),
    "any": ANY._replace(conform=without_texts),
    "bool": _exactly(bool),
    "bytes": _text("[]uint8", canonical_base64),
    "float64": Type("float64", _float, float),
    # Values that a schema holds.
    "json": ANY._replace(conform=with_go_numbers),
    "int-or-string": Type("intstr.IntOrString", _int_or_string, int),
    "int32": _INT32,
    "int64": _integer("int64", 64),
    "microtime": _text("v1.MicroTime", micro),
    "quantity": _quantity(canonical),
    "string": _exactly(str),
    "time": _text("v1.Time", whole_seconds),
}
