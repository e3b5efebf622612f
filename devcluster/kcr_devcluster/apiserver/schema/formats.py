"""Formats of strings, as the API server checks them; formats that it does not know are ignored.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/validation/formats.go;
k8s.io/kube-openapi/pkg/validation/strfmt/{default,date,time,duration,bson}.go.
"""

import base64
import ipaddress
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import date
from email.utils import parseaddr

from kcr.api.durations import parse_duration, parse_int
from kcr_devcluster.apiserver.protocol.names import dns_label, dns_subdomain
from kcr_devcluster.apiserver.schema.patterns import compile_pattern
from kcr_devcluster.apiserver.schema.urls import check_url

# Formats of numbers, with their bounds; None where every number is in range.
INTEGER_BITS: Mapping[str, int] = {"int32": 32, "int64": 64}
NUMBER_FORMATS = ("float", "double")

_HOSTNAME = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}"
    r"[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)
_ASCII_HOSTNAME = re.compile(
    r"[a-zA-Z0-9](?:-?[a-zA-Z0-9]{0,62})|(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}"
)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
# Any character may stand before a fraction, and any numbers after a sign.
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")
_SCALA_DURATION = re.compile(
    r"((\d+)\s*(ns|nanos?|nanoseconds?|us|µs|micros?|microseconds?|ms|millis?|milliseconds?|s|secs?|seconds?|m|mins?|"
    r"minutes?|h|hours?|d|days?|w|weeks?))",
    re.IGNORECASE,
)


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """Return a predicate: whether a function takes a text without a ValueError."""

    def holds(text: str) -> bool:
        with suppress(ValueError):
            parse(text)
            return True
        return False

    return holds


def _is_hostname(text: str) -> bool:
    if len(text.encode()) > 255 or any(len(label.encode()) > 63 for label in text.split(".")):
        return False
    if text.isascii():
        return _ASCII_HOSTNAME.fullmatch(text) is not None
    return compile_pattern(_HOSTNAME).search(text) is not None


def _is_email(text: str) -> bool:
    name, _, domain = parseaddr(text)[1].rpartition("@")
    return bool(name and domain) and " " not in domain


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    size = parse_int(length) if length.isdecimal() else None
    if not slash or size is None:
        return False
    with suppress(ValueError):
        return size <= ipaddress.ip_address(address).max_prefixlen
    return False


def _is_duration(text: str) -> bool:
    return parses(parse_duration)(text) or _SCALA_DURATION.search(text) is not None


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    # Go has a year 0, a leap year.
    year = int(found[1]) or 400
    return parses(lambda given: date(year, int(found[2]), int(found[3])))(text)


def _is_datetime(text: str) -> bool:
    day, *rest = text.lower().split("t")
    found = _TIME.fullmatch(rest[0]) if rest and _is_date(day) else None
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits):
        return False
    return sum((10 if digit == "X" else int(digit)) * (10 - place) for place, digit in enumerate(digits)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    return (
        bool(re.fullmatch(r"\d{13}", digits))
        and sum(int(d) * (1 + place % 2 * 2) for place, d in enumerate(digits)) % 10 == 0
    )


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    known = (
        r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|"
        r"(?:2131|1800|35\d{3})\d{11}"
    )
    if not re.fullmatch(known, digits):
        return False
    doubled = (int(d) * (1 + place % 2) for place, d in enumerate(reversed(digits)))
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


_HEX = "[0-9a-fA-F]"
_OCTET = r"(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"

FORMATS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches(f"{_HEX}{{24}}"),
    "byte": lambda text: text != "" and parses(lambda given: base64.b64decode(given, validate=True))(text),
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": _is_datetime,
    "duration": _is_duration,
    "email": _is_email,
    "hexcolor": _matches(f"#?(?:{_HEX}{{3}}|{_HEX}{{6}})"),
    "hostname": _is_hostname,
    "ipv4": parses(ipaddress.IPv4Address),
    "ipv6": parses(ipaddress.IPv6Address),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": lambda text: not dns_subdomain(text),
    "k8sshortname": lambda text: not dns_label(text),
    "mac": _matches(f"{_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5,7}}|{_HEX}{{4}}(?:\\.{_HEX}{{4}}){{2,3}}"),
    "password": lambda text: True,
    "rgbcolor": _matches(rf"rgb\(\s*{_OCTET}\s*,\s*{_OCTET}\s*,\s*{_OCTET}\s*\)"),
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": parses(check_url),
    "uuid": _matches(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid3": _matches(f"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid4": _matches(f"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89abAB]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "uuid5": _matches(f"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89abAB]{_HEX}{{3}}-?{_HEX}{{12}}"),
}


def string_format(name: str) -> Callable[[str], bool] | None:
    """Return the check of a format of strings, such as `date-time`; None where nothing is checked."""
    return FORMATS.get(name.replace("-", ""))


def is_known(type_name: str, format_name: str) -> bool:
    """Return whether a format says anything of values of a type."""
    if type_name in ("", "string"):
        return string_format(format_name) is not None
    return format_name in {"integer": tuple(INTEGER_BITS), "number": NUMBER_FORMATS}.get(type_name, ())
