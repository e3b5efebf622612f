"""Validation of values that fields of many kinds have: ports, addresses, paths, keys of ConfigMaps and Secrets.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/validation/{validation,ip}.go;
kubernetes/pkg/apis/core/validation/validation.go, validateLocalDescendingPath and ValidateNonSpecialIP.
"""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, ip_address, ip_interface

from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid

ADDRESS_MESSAGE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
CIDR_MESSAGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
LOOPBACK_MESSAGE = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
MODE_MESSAGE = "must be a number between 0 and 0777 (octal), both inclusive"
_MAPPED = "an IPv4-mapped IPv6 address"
_LENGTH, _PADDING = re.compile("0|[1-9][0-9]{0,2}"), re.compile("(^|[.:/])0+(?=[0-9A-Fa-f])")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")


def port_number(field: str, number: int) -> list[FieldError]:
    """Return the field errors of the number of a port."""
    return [] if 1 <= number <= 65535 else [invalid(field, number, "must be between 1 and 65535, inclusive")]


@lru_cache(4096)
def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return an IP address, None for another text."""
    try:
        return None if "%" in text else ip_address(text)
    except ValueError:
        return None


def check_address(field: str, text: str) -> list[FieldError]:
    """Return the field errors of an IP address."""
    address = parse_address(text)
    if address is None:
        is_padded = parse_address(_unpadded(text)) is not None
        return [invalid(field, text, "must not have leading 0s" if is_padded else ADDRESS_MESSAGE)]
    return [invalid(field, text, f"must not be {_MAPPED}")] if _is_mapped(address) else []


def check_cidr(field: str, text: str) -> list[FieldError]:
    """Return the field errors of a range of IP addresses."""
    found = parse_cidr(text)
    if found is None:
        return [invalid(field, text, CIDR_MESSAGE)]
    if _exact_cidr(text) is None:
        return [invalid(field, text, "must not have leading 0s in IP or prefix length")]
    if _is_mapped(found.ip):
        return [invalid(field, text, f"must not have {_MAPPED}")]
    is_start = found.ip == found.network.network_address
    return [] if is_start else [invalid(field, text, "must not have bits set beyond the prefix length")]


def parse_cidr(text: str) -> IPv4Interface | IPv6Interface | None:
    """Return a range of IP addresses, whose numbers may have leading zeros; None for another text."""
    return _exact_cidr(text) or _exact_cidr(_unpadded(text))


def _exact_cidr(text: str) -> IPv4Interface | IPv6Interface | None:
    address, _, length = text.partition("/")
    if not _LENGTH.fullmatch(length) or parse_address(address) is None:
        return None
    try:
        return ip_interface(text)
    except ValueError:
        return None


def _is_mapped(address: IPv4Address | IPv6Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None


def _unpadded(text: str) -> str:
    """Return an address or a range without leading zeros in its numbers."""
    return _PADDING.sub(r"\1", text)


def check_reachable_address(field: str, text: str) -> list[FieldError]:
    """Return the field errors of an IP address that others are to reach: it is neither local nor unspecified."""
    address = parse_address(text)
    if address is None:
        return check_address(field, text)
    rules = (
        (address.is_unspecified, f"may not be unspecified ({text})"),
        (address.is_loopback, LOOPBACK_MESSAGE),
        (address.is_link_local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (text.startswith(("224.0.0.", "ff02:")),
         "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    )  # fmt: skip
    return [invalid(field, text, words) for holds, words in rules if holds]


def descending_path(field: str, path: str) -> list[FieldError]:
    """Return the field errors of a path that is relative and stays below its start."""
    errors = [invalid(field, path, "must be a relative path")] if path.startswith("/") else []
    return errors + path_without_backsteps(field, path)


def path_without_backsteps(field: str, path: str) -> list[FieldError]:
    """Return the field errors of a path that has no `..` in it."""
    return [invalid(field, path, "must not contain '..'")] if ".." in path.split("/") else []


def file_mode(field: str, mode: int | None) -> list[FieldError]:
    """Return the field errors of the permissions of a file; None is valid."""
    return [] if mode is None or 0 <= mode <= 0o777 else [invalid(field, mode, MODE_MESSAGE)]


@lru_cache(1024)
def config_key(text: str) -> tuple[str, ...]:
    """Return the reasons why a text is not a key of a ConfigMap or Secret; empty for a valid one."""
    reasons = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not _KEY.fullmatch(text):
        reasons.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            f"'KEY_NAME',  or 'key-name', regex used for validation is '{_KEY.pattern}')"
        )
    if text in (".", "..") or text.startswith(".."):
        reasons.append(f"must not be '{text}'" if text in (".", "..") else "must not start with '..'")
    return tuple(reasons)
