"""The functions that Kubernetes adds to CEL: lists, regular expressions, URLs, addresses, quantities, versions.

Values of their own types are maps with one member that names the type, for the library has no types of ours.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/cel/library/{lists,regex,urls,ip,cidr,quantity,semverlib}.go.
"""

import ipaddress
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from kcr_devcluster.apiserver.protocol.names import (
    dns_1035_label,
    dns_label,
    dns_subdomain,
    label_value,
    qualified_name,
)
from kcr_devcluster.apiserver.schema.formats import FORMATS, parses
from kcr_devcluster.apiserver.schema.patterns import compile_pattern
from kcr_devcluster.apiserver.schema.quantities import amount
from kcr_devcluster.apiserver.structural.cel.semantic_versions import parse_version
from kcr_devcluster.apiserver.structural.cel.values import temporal

_NANO = 10**9
_LARGEST = (1 << 63) - 1


class Overload(NamedTuple):
    """One way to call a function: types as the library writes them, and whether the first argument is the receiver."""

    returns: str
    parameters: tuple[str, ...]
    call: Callable[..., Any]
    is_member: bool = True


def _typed(name: str, value: str) -> dict[str, str]:
    return {f"@{name}": value}


def _value(name: str, given: Any) -> str:
    if isinstance(given, dict) and f"@{name}" in given:
        return str(given[f"@{name}"])
    raise ValueError("no such overload")


def _sum(values: Sequence[Any]) -> Any:
    return sum(values[1:], values[0]) if values else 0


def _extreme(pick: Callable[[Sequence[Any]], Any], name: str) -> Callable[[Sequence[Any]], Any]:
    def call(values: Sequence[Any]) -> Any:
        if not values:
            raise ValueError(f"{name} called on empty list")
        return pick(values)

    return call


def _is_sorted(values: Sequence[Any]) -> bool:
    return all(one <= other for one, other in pairwise(values))


def _index(values: Sequence[Any], wanted: Any) -> int:
    return next((position for position, one in enumerate(values) if one == wanted), -1)


def _last_index(values: Sequence[Any], wanted: Any) -> int:
    return next((position for position in range(len(values) - 1, -1, -1) if values[position] == wanted), -1)


def _find(text: str, pattern: str) -> str:
    found = compile_pattern(pattern).search(text)
    return found[0] if found is not None else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found, end = list[str](), -1
    for match in compile_pattern(pattern).finditer(text):
        # Unlike Python, Go passes over an empty match at the end of the one before.
        if match[0] or match.start() != end:
            found.append(match[0])
        end = match.end()
    return found if limit < 0 else found[:limit]


def _parse_url(text: str) -> SplitResult:
    parts = urlsplit(text)
    _ = parts.port  # raises for one that is no number
    if not (parts.scheme and (parts.netloc or parts.path)) and not text.startswith("/"):
        raise ValueError(f"URL parse error during conversion from string: parse {text!r}: invalid URI for request")
    return parts


def _url(text: str) -> dict[str, str]:
    _parse_url(text)
    return _typed("url", text)


def _of_url(part: Callable[[SplitResult], Any]) -> Callable[[Any], Any]:
    return lambda given: part(urlsplit(_value("url", given)))


def _query(parts: SplitResult) -> dict[str, list[str]]:
    return parse_qs(parts.query, keep_blank_values=True)


def _hostname(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2].rpartition(":")[0] if parts.port is not None else _host(parts)


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text)
    if "%" in text:
        raise ValueError(f'IP Address "{text}" with zone value is not allowed')
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _ip(text: str) -> dict[str, str]:
    return _typed("ip", str(_parse_ip(text)))


def _of_ip(part: Callable[[ipaddress.IPv4Address | ipaddress.IPv6Address], Any]) -> Callable[[Any], Any]:
    return lambda given: part(ipaddress.ip_address(_value("ip", given)))


def _is_global_unicast(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


def _parse_cidr(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    if "/" not in text:
        raise ValueError(f'network address parse error during conversion from string: no "/" in {text}')
    return ipaddress.ip_interface(text)


def _cidr(text: str) -> dict[str, str]:
    return _typed("cidr", str(_parse_cidr(text)))


def _of_cidr(given: Any) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    return _parse_cidr(_value("cidr", given))


def _contains_ip(given: Any, other: Any) -> bool:
    address = _parse_ip(other if isinstance(other, str) else _value("ip", other))
    return address in _of_cidr(given).network


def _contains_cidr(given: Any, other: Any) -> bool:
    inner = _parse_cidr(other) if isinstance(other, str) else _of_cidr(other)
    outer = _of_cidr(given).network
    return inner.version == outer.version and inner.ip in outer and inner.network.prefixlen >= outer.prefixlen


def _quantity(text: str) -> dict[str, str]:
    return _typed("quantity", str(amount(text)))


def _nanos(given: Any) -> int:
    return int(_value("quantity", given))


def _as_integer(given: Any) -> int:
    if not _is_integer(given):
        raise ValueError("cannot convert value to integer")
    return _nanos(given) // _NANO


def _is_integer(given: Any) -> bool:
    return _nanos(given) % _NANO == 0 and abs(_nanos(given) // _NANO) <= _LARGEST


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _changed(given: Any, other: Any, factor: int) -> dict[str, str]:
    more = other * _NANO if isinstance(other, int) else _nanos(other)
    return _typed("quantity", str(_nanos(given) + factor * more))


def _semver(text: str, normalize: bool = False) -> dict[str, str]:
    numbers, _, identifiers = parse_version(text, normalize)
    released = ".".join(map(str, numbers))
    return _typed("semver", "-".join([released, *([".".join(one[2] for one in identifiers)] if identifiers else ())]))


def _is_semver(text: str, normalize: bool = False) -> bool:
    return parses(lambda given: parse_version(given, normalize))(text)


def _part(position: int) -> Callable[[Any], int]:
    return lambda given: parse_version(_value("semver", given)).numbers[position]


def _comparison(given: Any, other: Any) -> int:
    """Return how two quantities or two versions compare: less than, equal to or more than zero."""
    if isinstance(given, dict) and "@semver" in given:
        one, another = (parse_version(_value("semver", value)) for value in (given, other))
        return (one > another) - (one < another)
    return _sign(_nanos(given) - _nanos(other))


def _mismatches(holds: Callable[[str], bool]) -> Callable[[str], Sequence[str]]:
    return lambda text: [] if holds(text) else ["does not match format"]


_FORMATS: Mapping[str, Callable[[str], Sequence[str]]] = {
    "dns1035Label": dns_1035_label,
    "dns1035LabelPrefix": lambda text: dns_1035_label(_without_dash(text)),
    "dns1123Label": dns_label,
    "dns1123LabelPrefix": lambda text: dns_label(_without_dash(text)),
    "dns1123Subdomain": dns_subdomain,
    "dns1123SubdomainPrefix": lambda text: dns_subdomain(_without_dash(text)),
    "labelValue": label_value,
    "qualifiedName": qualified_name,
    **{name: _mismatches(FORMATS[name]) for name in ("byte", "date", "datetime", "uri", "uuid")},
}


def _without_dash(text: str) -> str:
    return f"{text[:-1]}a" if text.endswith("-") else text


def _format(name: str) -> Callable[[], dict[str, str]]:
    return lambda: _typed("format", name)


def _named_format(name: str) -> list[dict[str, str]]:
    # As below, a list stands for an optional value.
    return [_typed("format", name)] if name in _FORMATS else []


def _optional_value(values: Any) -> Any:
    is_format = isinstance(values, list) and len(values) == 1 and isinstance(values[0], dict) and "@format" in values[0]
    return values[0] if is_format else values


def _validate(given: Any, text: str) -> list[str]:
    # Upstream returns an optional value, which no function here can: an empty list is one without value.
    return list(_FORMATS[_value("format", given)](text))


def _compared(compare: Callable[[Any, Any], bool]) -> tuple[Overload, ...]:
    """Return how times and durations are compared with the texts that they are in items of lists and maps."""

    def call(one: Any, other: Any) -> bool:
        left, right = temporal(one), temporal(other)
        if left is None or right is None:
            raise ValueError("no such overload")
        return compare(left, right)

    pairs = [pair for kind in ("timestamp", "duration") for pair in (("string", kind), (kind, "string"))]
    return tuple(Overload("bool", pair, call, False) for pair in pairs)


_LIST, _TEXT = "list(dyn)", "string"
_ONE_LIST, _ONE = (_LIST,), ("dyn",)

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "_<_": _compared(operator.lt),
    "_<=_": _compared(operator.le),
    "_>_": _compared(operator.gt),
    "_>=_": _compared(operator.ge),
    "isSorted": (Overload("bool", _ONE_LIST, _is_sorted),),
    "sum": (Overload("dyn", _ONE_LIST, _sum),),
    "min": (Overload("dyn", _ONE_LIST, _extreme(min, "min")),),
    "max": (Overload("dyn", _ONE_LIST, _extreme(max, "max")),),
    "indexOf": (Overload("int", (_LIST, "dyn"), _index),),
    "lastIndexOf": (Overload("int", (_LIST, "dyn"), _last_index),),
    "find": (Overload(_TEXT, (_TEXT, _TEXT), _find),),
    "findAll": (
        Overload("list(string)", (_TEXT, _TEXT), _find_all), Overload("list(string)", (_TEXT, _TEXT, "int"), _find_all),
    ),
    **{f"format.{name}": (Overload("dyn", (), _format(name), False),) for name in _FORMATS},
    "validate": (Overload("dyn", ("dyn", _TEXT), _validate),),
    "hasValue": (Overload("bool", _ONE_LIST, bool),),
    "value": (Overload("dyn", _ONE_LIST, _optional_value),),
    "format.named": (Overload("dyn", (_TEXT,), _named_format, False),),
    "url": (Overload("dyn", (_TEXT,), _url, False),),
    "isURL": (Overload("bool", (_TEXT,), parses(_parse_url), False),),
    "getScheme": (Overload(_TEXT, _ONE, _of_url(lambda parts: parts.scheme)),),
    "getHost": (Overload(_TEXT, _ONE, _of_url(_host)),),
    "getHostname": (Overload(_TEXT, _ONE, _of_url(lambda parts: _hostname(parts).strip("[]"))),),
    "getPort": (Overload(_TEXT, _ONE, _of_url(lambda parts: "" if parts.port is None else str(parts.port))),),
    "getEscapedPath": (Overload(_TEXT, _ONE, _of_url(lambda parts: quote(parts.path, safe="/%~!$&'()*+,;=:@"))),),
    "getQuery": (
        Overload("map(string, list(string))", _ONE, _of_url(_query)),
    ),
    "ip": (
        Overload("dyn", (_TEXT,), _ip, False), Overload("dyn", _ONE, lambda given: _ip(str(_of_cidr(given).ip))),
    ),
    "isIP": (Overload("bool", (_TEXT,), parses(_parse_ip), False),),
    "ip.isCanonical": (Overload("bool", (_TEXT,), lambda text: str(_parse_ip(text)) == text, False),),
    "family": (Overload("int", _ONE, _of_ip(lambda address: address.version)),),
    "isUnspecified": (Overload("bool", _ONE, _of_ip(lambda address: address.is_unspecified)),),
    "isLoopback": (Overload("bool", _ONE, _of_ip(lambda address: address.is_loopback)),),
    "isLinkLocalMulticast": (
        Overload("bool", _ONE, _of_ip(lambda one: one.is_multicast and str(one).startswith(("224.0.0.", "ff02:")))),
    ),
    "isLinkLocalUnicast": (Overload("bool", _ONE, _of_ip(lambda address: address.is_link_local)),),
    "isGlobalUnicast": (Overload("bool", _ONE, _of_ip(_is_global_unicast)),),
    "cidr": (Overload("dyn", (_TEXT,), _cidr, False),),
    "isCIDR": (Overload("bool", (_TEXT,), parses(_parse_cidr), False),),
    "containsIP": (Overload("bool", ("dyn", "dyn"), _contains_ip),),
    "containsCIDR": (Overload("bool", ("dyn", "dyn"), _contains_cidr),),
    "masked": (Overload("dyn", _ONE, lambda given: _cidr(str(_of_cidr(given).network))),),
    "prefixLength": (Overload("int", _ONE, lambda given: _of_cidr(given).network.prefixlen),),
    "quantity": (Overload("dyn", (_TEXT,), _quantity, False),),
    "isQuantity": (Overload("bool", (_TEXT,), parses(amount), False),),
    "sign": (Overload("int", _ONE, lambda given: _sign(_nanos(given))),),
    "isInteger": (Overload("bool", _ONE, _is_integer),),
    "asInteger": (Overload("int", _ONE, _as_integer),),
    "asApproximateFloat": (Overload("double", _ONE, lambda given: _nanos(given) / _NANO),),
    "add": (Overload("dyn", ("dyn", "dyn"), lambda given, other: _changed(given, other, 1)),),
    "sub": (Overload("dyn", ("dyn", "dyn"), lambda given, other: _changed(given, other, -1)),),
    "isLessThan": (Overload("bool", ("dyn", "dyn"), lambda given, other: _comparison(given, other) < 0),),
    "isGreaterThan": (Overload("bool", ("dyn", "dyn"), lambda given, other: _comparison(given, other) > 0),),
    "compareTo": (Overload("int", ("dyn", "dyn"), _comparison),),
    "semver": (Overload("dyn", (_TEXT,), _semver, False), Overload("dyn", (_TEXT, "bool"), _semver, False)),
    "isSemver": (
        Overload("bool", (_TEXT,), _is_semver, False), Overload("bool", (_TEXT, "bool"), _is_semver, False),
    ),
    **{name: (Overload("int", _ONE, _part(position)),) for position, name in enumerate(("major", "minor", "patch"))},
}  # fmt: skip

_MAP = "map(dyn, dyn)"
# The functions that the macros `transformMap` and `transformMapEntry` call; the library only declares them.
MAP_FUNCTIONS: Mapping[str, Mapping[str, Overload]] = {
    "cel.@mapInsert": {
        "@mapInsert_map_key_value": Overload(
            _MAP, (_MAP, "dyn", "dyn"), lambda known, key, value: {**known, key: value}, False
        ),
        "@mapInsert_map_map": Overload(_MAP, (_MAP, _MAP), lambda known, more: {**known, **more}, False),
    }
}
