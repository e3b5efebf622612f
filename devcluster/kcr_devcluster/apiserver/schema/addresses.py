"""Addresses of the Internet Protocol as Go's net/netip reads them: what is one, and what is wrong with other texts.

Source: Go's net/netip, netip.go: ParseAddr, parseIPv4Fields, parseIPv6.
"""

import re
from ipaddress import IPv4Address, IPv6Address

from kcr_devcluster.apiserver.protocol.gotexts import quoted

Address = IPv4Address | IPv6Address
_GROUP = re.compile(r"[0-9A-Fa-f]*")


def parse_address(text: str) -> Address:
    """Return the address that a text stands for, without its zone.

    Raises:
        ValueError: It stands for none; the message is Go's.
    """
    first = next((one for one in text if one in ".:%"), "")
    if first == ".":
        fields = _ipv4_fields(text, text)
        return IPv4Address(bytes(fields))
    if first == ":":
        return _parse_ipv6(text)
    raise _failed(text, "missing IPv6 address" if first else "unable to parse IP")


def _failed(text: str, why: str, at: str = "") -> ValueError:
    return ValueError(f"ParseAddr({quoted(text)}): {why}{f' (at {quoted(at)})' if at else ''}")


def _ipv4_fields(whole: str, text: str) -> list[int]:
    """Return the four numbers of an address.

    Args:
        whole: The text that it is part of, for messages.
        text: The address.
    """
    at, fields = 0, list[int]()
    for field in text.split("."):
        digits = re.match("[0-9]*", field)
        assert digits is not None  # it matches always
        if len(digits[0]) > 1 and field.startswith("0"):
            raise _failed(whole, "IPv4 field has octet with leading zero")
        if int(digits[0][:4] or 0) > 255:
            raise _failed(whole, "IPv4 field has value >255")
        at += digits.end()
        if digits[0] != field:
            raise _failed(whole, "unexpected character", text[at:])
        if not field:
            raise _failed(whole, "IPv4 field must have at least one digit", text[max(at - (at == len(text)), 0) :])
        if len(fields) == 3 and at < len(text):
            raise _failed(whole, "IPv4 address too long")
        fields.append(int(field))
        at += 1
    if len(fields) < 4:
        raise _failed(whole, "IPv4 address too short")
    return fields


def _parse_ipv6(text: str) -> IPv6Address:
    rest, mark, zone = text.partition("%")
    if mark and not zone:
        raise _failed(text, "zone must be a non-empty string")
    groups, gap = list[int](), -1
    if rest.startswith("::"):
        gap, rest = 0, rest[2:]
    while rest and len(groups) < 8:
        found = _GROUP.match(rest)
        assert found is not None  # it matches always
        end = found.end()
        if rest[end : end + 1] == "." and end:
            return _with_gap(text, [*groups, *_embedded(text, rest, len(groups), gap)], gap)
        groups.append(_group(text, rest, found[0]))
        rest = _after_colon(text, rest[end:])
        if rest.startswith(":"):
            if gap >= 0:
                raise _failed(text, "multiple :: in address", rest)
            gap, rest = len(groups), rest[1:]
    if rest:
        raise _failed(text, "trailing garbage after address", rest)
    return _with_gap(text, groups, gap)


def _group(text: str, rest: str, digits: str) -> int:
    if len(digits) > 4:
        raise _failed(text, "each group must have 4 or less digits", rest)
    if not digits:
        raise _failed(text, "each colon-separated field must have at least one digit", rest)
    return int(digits, 16)


def _after_colon(text: str, rest: str) -> str:
    if rest and not rest.startswith(":"):
        raise _failed(text, "unexpected character, want colon", rest)
    if rest == ":":
        raise _failed(text, "colon must be followed by more characters", rest)
    return rest[1:]


def _embedded(text: str, rest: str, count: int, gap: int) -> tuple[int, int]:
    """Return the two groups that an IPv4 address stands for, at the end of an address."""
    if gap < 0 and count != 6:
        raise _failed(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if count > 6:
        raise _failed(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    one, two, three, four = _ipv4_fields(text, rest)
    return one << 8 | two, three << 8 | four


def _with_gap(text: str, groups: list[int], gap: int) -> IPv6Address:
    if len(groups) < 8 and gap < 0:
        raise _failed(text, "address string too short")
    if len(groups) == 8 and gap >= 0:
        raise _failed(text, "the :: must expand to at least one field of zeros")
    full = [*groups[:gap], *[0] * (8 - len(groups)), *groups[gap:]] if gap >= 0 else groups
    return IPv6Address(b"".join(group.to_bytes(2, "big") for group in full))
