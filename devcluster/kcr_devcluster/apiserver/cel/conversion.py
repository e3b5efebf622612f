"""Values of custom resources as expressions see them: moments, durations, bytes, sets and maps of lists.

Texts that cannot be read stay texts; an expression that reads such a field fails.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/cel/common/valuesunstructured.go;
k8s.io/kube-openapi/pkg/validation/strfmt/{duration,time}.go.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

from kcr.api.durations import parse_duration
from kcr_devcluster.apiserver.cel.values import SECOND, Duration, MapList, SetList, Timestamp
from kcr_devcluster.apiserver.schema.extensions import INT_OR_STRING, LIST_MAP_KEYS, LIST_TYPE, Schema

Converter = Callable[[Any], Any]

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))?")
_TERM = re.compile(r"(\d+)\s*([A-Za-zµ]+)")
_MINUTE = 60 * SECOND
# A unit is one of some words, or begins with the last of them.
_UNITS: tuple[tuple[int, tuple[str, ...], str], ...] = (
    (1, ("ns",), "nano"), (1000, ("us", "µs"), "micro"), (10**6, ("ms",), "milli"), (SECOND, ("s",), "sec"),
    (_MINUTE, ("m",), "min"), (60 * _MINUTE, ("h", "hr"), "hour"), (1440 * _MINUTE, ("d",), "day"),
    (7 * 1440 * _MINUTE, ("w", "wk"), "week"),
)  # fmt: skip
_MOST_DIGITS = 18


def read_moment(text: str) -> Timestamp:
    """Return the moment that a text of the format date-time stands for, one without a zone in UTC.

    Raises:
        ValueError: It stands for none.
    """
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(f"parsing time {text!r}")
    offset = 0
    if found[3]:
        offset = (int(found[4]) * 60 + int(found[5])) * (60 if found[3] == "+" else -60)
    seconds = datetime.fromisoformat(found[1]).replace(tzinfo=timezone(timedelta(seconds=offset))).timestamp()
    fraction = (found[2] or "")[:9].ljust(9, "0")
    return Timestamp(int(seconds) * SECOND + int(fraction), offset)


def read_duration(text: str) -> Duration:
    """Return the duration that a text of the format duration stands for: `1h30m`, `90 minutes`, `1d`.

    Raises:
        ValueError: It stands for none.
    """
    with suppress(ValueError):
        return Duration(parse_duration(text))
    total, is_known = 0, False
    for number, unit in _TERM.findall(text):
        if len(number) > _MOST_DIGITS:
            break
        for nanos, words, prefix in _UNITS:
            if unit.lower() in words or unit.lower().startswith(prefix):
                total, is_known = total + int(number) * nanos, True
    if not is_known:
        raise ValueError(f"unable to parse {text} as duration")
    return Duration(total)


def _read_date(text: str) -> Timestamp:
    found = date.fromisoformat(text)
    return Timestamp(int(datetime(found.year, found.month, found.day, tzinfo=UTC).timestamp()) * SECOND)


_READERS: Mapping[str, Callable[[str], Any]] = {
    "date-time": read_moment, "date": _read_date, "duration": read_duration,
    "byte": lambda text: b64decode(text, validate=True),
}  # fmt: skip


def converter(schema: Schema) -> Converter | None:
    """Return the function that converts a value for expressions; None where values need no conversion."""
    if schema.get(INT_OR_STRING):
        return None
    match schema.get("type"):
        case "number":
            return lambda value: float(value) if type(value) is int else value
        case "string" if (read := _READERS.get(schema.get("format", ""))) is not None:
            return _text_converter(read)
        case "array":
            return _list_converter(schema)
        case "object":
            return _object_converter(schema)
    return None


def _text_converter(read: Callable[[str], Any]) -> Converter:
    def convert(value: Any) -> Any:
        with suppress(ValueError, OverflowError):
            # A nullable text may be null.
            return read(value) if type(value) is str else value
        return value

    return convert


def _list_converter(schema: Schema) -> Converter | None:
    inner = converter(schema.get("items") or {})
    kind, keys = schema.get(LIST_TYPE), tuple(schema.get(LIST_MAP_KEYS) or ())
    if inner is None and kind not in ("set", "map"):
        return None

    def convert(value: Any) -> Any:
        if type(value) is not list:
            return value
        items = value if inner is None else list(map(inner, value))
        if kind == "set":
            return SetList(items)
        if kind == "map":
            found = MapList(items)
            found.keys = keys
            return found
        return items

    return convert


def _object_converter(schema: Schema) -> Converter | None:
    if isinstance(other := schema.get("additionalProperties"), Mapping):
        inner = converter(other)
        if inner is None:
            return None
        return lambda value: {name: inner(one) for name, one in value.items()} if type(value) is dict else value
    fields = schema.get("properties") or {}
    converters = {name: made for name, one in fields.items() if (made := converter(one)) is not None}
    if not converters:
        return None

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            return value
        found = dict(value)
        for name, made in converters.items():
            if name in found:
                found[name] = made(found[name])
        return found

    return convert
