"""Addresses of networks: `ip`, `cidr` and what may be asked of them.

Source: k8s.io/apiserver/pkg/cel/{ip,cidr}.go; k8s.io/apiserver/pkg/cel/library/{ip,cidr}.go.
"""

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.protocol.gotexts import quoted
from kcr_devcluster.apiserver.schema.addresses import Address, parse_address

_IP, _CIDR = "net.IP", "net.CIDR"

_BITS = re.compile(r"0|[1-9][0-9]*")
_BROADCAST = IPv4Address("255.255.255.255")


class IP(NamedTuple):
    """An address."""

    address: Address

    @property
    def cel_type(self) -> str:
        """The name of the type."""
        return _IP


class CIDR(NamedTuple):
    """An address with the length of its prefix; it need not be the first of its network."""

    address: Address
    bits: int

    @property
    def cel_type(self) -> str:
        """The name of the type."""
        return _CIDR

    def __str__(self) -> str:
        """Return the text of the network, with the address that it was given."""
        return f"{self.address}/{self.bits}"


def _is_mapped(address: Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None


def _parse_ip(text: str) -> IP:
    try:
        address = parse_address(text)
    except ValueError as error:
        raise EvaluationError(f"IP Address {quoted(text)} parse error during conversion from string: {error}") from None
    if "%" in text:
        raise EvaluationError(f"IP address {quoted(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise EvaluationError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return IP(address)


def _parse_cidr(text: str) -> CIDR:
    try:
        found = _prefix(text)
    except ValueError as error:
        why = f"network address parse error during conversion from string: netip.ParsePrefix({quoted(text)}): {error}"
        raise EvaluationError(f"network address parse error during conversion from string: {why}") from None
    if _is_mapped(found.address):
        raise EvaluationError(
            "network address parse error during conversion from string: "
            f"IPv4-mapped IPv6 address {quoted(text)} is not allowed"
        )
    return found


def _prefix(text: str) -> CIDR:
    start, slash, bits = text.rpartition("/")
    if not slash:
        raise ValueError("no '/'")
    address = parse_address(start)
    if "%" in start:
        raise ValueError("IPv6 zones cannot be present in a prefix")
    if not _BITS.fullmatch(bits) or len(bits) > 18:
        raise ValueError(f"bad bits after slash: {quoted(bits)}")
    if int(bits) > address.max_prefixlen:
        raise ValueError("prefix length out of range")
    return CIDR(address, int(bits))


def _holds(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def call(text: str) -> bool:
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return call


def _network(cidr: CIDR) -> IPv4Network | IPv6Network:
    return ip_network((cidr.address, cidr.bits), strict=False)


def _masked(cidr: CIDR) -> CIDR:
    return CIDR(_network(cidr).network_address, cidr.bits)


def _contains(cidr: CIDR, ip: IP) -> bool:
    return ip.address in _network(cidr)


def _contains_text(cidr: CIDR, text: str) -> bool:
    try:
        return _contains(cidr, _parse_ip(text))
    except EvaluationError:
        # Upstream looks at its error as if it were an address.
        raise EvaluationError("no such overload") from None


def _contains_cidr(cidr: CIDR, inner: CIDR) -> bool:
    return cidr.bits <= inner.bits and _contains(cidr, IP(inner.address))


def _is_link_local_multicast(address: Address) -> bool:
    packed = address.packed
    if address.version == 4:
        return packed[:3] == b"\xe0\0\0"
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


def _is_global_unicast(address: Address) -> bool:
    is_none = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not is_none and address != _BROADCAST


def _asked(name: str, returns: str, ask: Callable[[Address], Any]) -> tuple[Overload, ...]:
    return (Overload(f"ip_{name}", returns, (_IP,), lambda ip: ask(ip.address)),)


_TEXT = "string"

FUNCTIONS: Functions = {
    "ip": (
        Overload("string_to_ip", _IP, (_TEXT,), _parse_ip, False),
        Overload("cidr_ip", _IP, (_CIDR,), lambda cidr: IP(cidr.address)),
    ),
    "isIP": (Overload("is_ip", "bool", (_TEXT,), _holds(_parse_ip), False),),
    "ip.isCanonical": (
        Overload("ip_is_canonical", "bool", (_TEXT,), lambda text: str(_parse_ip(text).address) == text, False),
    ),
    "family": _asked("family", "int", lambda address: address.version),
    "isUnspecified": _asked("is_unspecified", "bool", lambda address: address.is_unspecified),
    "isLoopback": _asked("is_loopback", "bool", lambda address: address.is_loopback),
    "isLinkLocalMulticast": _asked("is_link_local_multicast", "bool", _is_link_local_multicast),
    "isLinkLocalUnicast": _asked("is_link_local_unicast", "bool", lambda address: address.is_link_local),
    "isGlobalUnicast": _asked("is_global_unicast", "bool", _is_global_unicast),
    "cidr": (Overload("string_to_cidr", _CIDR, (_TEXT,), _parse_cidr, False),),
    "isCIDR": (Overload("is_cidr", "bool", (_TEXT,), _holds(_parse_cidr), False),),
    "containsIP": (
        Overload("cidr_contains_ip_string", "bool", (_CIDR, _TEXT), _contains_text),
        Overload("cidr_contains_ip_ip", "bool", (_CIDR, _IP), _contains),
    ),
    "containsCIDR": (
        Overload(
            "cidr_contains_cidr_string", "bool", (_CIDR, _TEXT),
            lambda cidr, text: _contains_cidr(cidr, _parse_cidr(text)),
        ),
        Overload("cidr_contains_cidr", "bool", (_CIDR, _CIDR), _contains_cidr),
    ),
    "masked": (Overload("cidr_masked", _CIDR, (_CIDR,), _masked),),
    "prefixLength": (Overload("cidr_prefix_length", "int", (_CIDR,), lambda cidr: cidr.bits),),
    "string": (
        Overload("ip_to_string", _TEXT, (_IP,), lambda ip: str(ip.address), False),
        Overload("cidr_to_string", _TEXT, (_CIDR,), str, False),
    ),
}  # fmt: skip
