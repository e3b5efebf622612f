"""Moments as the server stores them: whole seconds in UTC, or for MicroTime exactly six digits.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/{time,micro_time}.go.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache

_CANONICAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)")
_MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


@lru_cache(4096)
def whole_seconds(text: str) -> str:
    """Return a moment in UTC without its fraction, such as `2026-01-01T00:00:00Z`.

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
    return text if _CANONICAL.fullmatch(text) else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
