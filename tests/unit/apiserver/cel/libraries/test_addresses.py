from typing import Any

import pytest

from tests.kit.cel_functions import call, same


@pytest.mark.parametrize(
    ("text", "name", "others", "answer"),
    [
        ("0.0.0.0", "family", (), 4),
        ("0.0.0.0", "string", (), "0.0.0.0"),
        ("0.0.0.0", "isUnspecified", (), True),
        ("0.0.0.0", "isLoopback", (), False),
        ("0.0.0.0", "isLinkLocalMulticast", (), False),
        ("0.0.0.0", "isLinkLocalUnicast", (), False),
        ("0.0.0.0", "isGlobalUnicast", (), False),
        ("127.9.9.9", "family", (), 4),
        ("127.9.9.9", "string", (), "127.9.9.9"),
        ("127.9.9.9", "isUnspecified", (), False),
        ("127.9.9.9", "isLoopback", (), True),
        ("127.9.9.9", "isLinkLocalMulticast", (), False),
        ("127.9.9.9", "isLinkLocalUnicast", (), False),
        ("127.9.9.9", "isGlobalUnicast", (), False),
        ("255.255.255.255", "family", (), 4),
        ("255.255.255.255", "string", (), "255.255.255.255"),
        ("255.255.255.255", "isUnspecified", (), False),
        ("255.255.255.255", "isLoopback", (), False),
        ("255.255.255.255", "isLinkLocalMulticast", (), False),
        ("255.255.255.255", "isLinkLocalUnicast", (), False),
        ("255.255.255.255", "isGlobalUnicast", (), False),
        ("169.254.1.1", "family", (), 4),
        ("169.254.1.1", "string", (), "169.254.1.1"),
        ("169.254.1.1", "isUnspecified", (), False),
        ("169.254.1.1", "isLoopback", (), False),
        ("169.254.1.1", "isLinkLocalMulticast", (), False),
        ("169.254.1.1", "isLinkLocalUnicast", (), True),
        ("169.254.1.1", "isGlobalUnicast", (), False),
        ("224.0.0.5", "family", (), 4),
        ("224.0.0.5", "string", (), "224.0.0.5"),
        ("224.0.0.5", "isUnspecified", (), False),
        ("224.0.0.5", "isLoopback", (), False),
        ("224.0.0.5", "isLinkLocalMulticast", (), True),
        ("224.0.0.5", "isLinkLocalUnicast", (), False),
        ("224.0.0.5", "isGlobalUnicast", (), False),
        ("224.0.1.1", "family", (), 4),
        ("224.0.1.1", "string", (), "224.0.1.1"),
        ("224.0.1.1", "isUnspecified", (), False),
        ("224.0.1.1", "isLoopback", (), False),
        ("224.0.1.1", "isLinkLocalMulticast", (), False),
        ("224.0.1.1", "isLinkLocalUnicast", (), False),
        ("224.0.1.1", "isGlobalUnicast", (), False),
        ("10.0.0.1", "family", (), 4),
        ("10.0.0.1", "string", (), "10.0.0.1"),
        ("10.0.0.1", "isUnspecified", (), False),
        ("10.0.0.1", "isLoopback", (), False),
        ("10.0.0.1", "isLinkLocalMulticast", (), False),
        ("10.0.0.1", "isLinkLocalUnicast", (), False),
        ("10.0.0.1", "isGlobalUnicast", (), True),
        ("::", "family", (), 6),
        ("::", "string", (), "::"),
        ("::", "isUnspecified", (), True),
        ("::", "isLoopback", (), False),
        ("::", "isLinkLocalMulticast", (), False),
        ("::", "isLinkLocalUnicast", (), False),
        ("::", "isGlobalUnicast", (), False),
        ("::1", "family", (), 6),
        ("::1", "string", (), "::1"),
        ("::1", "isUnspecified", (), False),
        ("::1", "isLoopback", (), True),
        ("::1", "isLinkLocalMulticast", (), False),
        ("::1", "isLinkLocalUnicast", (), False),
        ("::1", "isGlobalUnicast", (), False),
        ("fe80::1", "family", (), 6),
        ("fe80::1", "string", (), "fe80::1"),
        ("fe80::1", "isUnspecified", (), False),
        ("fe80::1", "isLoopback", (), False),
        ("fe80::1", "isLinkLocalMulticast", (), False),
        ("fe80::1", "isLinkLocalUnicast", (), True),
        ("fe80::1", "isGlobalUnicast", (), False),
        ("febf::1", "family", (), 6),
        ("febf::1", "string", (), "febf::1"),
        ("febf::1", "isUnspecified", (), False),
        ("febf::1", "isLoopback", (), False),
        ("febf::1", "isLinkLocalMulticast", (), False),
        ("febf::1", "isLinkLocalUnicast", (), True),
        ("febf::1", "isGlobalUnicast", (), False),
        ("ff02::1", "family", (), 6),
        ("ff02::1", "string", (), "ff02::1"),
        ("ff02::1", "isUnspecified", (), False),
        ("ff02::1", "isLoopback", (), False),
        ("ff02::1", "isLinkLocalMulticast", (), True),
        ("ff02::1", "isLinkLocalUnicast", (), False),
        ("ff02::1", "isGlobalUnicast", (), False),
        ("ff12::1", "family", (), 6),
        ("ff12::1", "string", (), "ff12::1"),
        ("ff12::1", "isUnspecified", (), False),
        ("ff12::1", "isLoopback", (), False),
        ("ff12::1", "isLinkLocalMulticast", (), True),
        ("ff12::1", "isLinkLocalUnicast", (), False),
        ("ff12::1", "isGlobalUnicast", (), False),
        ("2001:DB8::01", "family", (), 6),
        ("2001:DB8::01", "string", (), "2001:db8::1"),
        ("2001:DB8::01", "isUnspecified", (), False),
        ("2001:DB8::01", "isLoopback", (), False),
        ("2001:DB8::01", "isLinkLocalMulticast", (), False),
        ("2001:DB8::01", "isLinkLocalUnicast", (), False),
        ("2001:DB8::01", "isGlobalUnicast", (), True),
        ("::1.2.3.4", "family", (), 6),
        ("::1.2.3.4", "string", (), "::102:304"),
        ("::1.2.3.4", "isUnspecified", (), False),
        ("::1.2.3.4", "isLoopback", (), False),
        ("::1.2.3.4", "isLinkLocalMulticast", (), False),
        ("::1.2.3.4", "isLinkLocalUnicast", (), False),
        ("::1.2.3.4", "isGlobalUnicast", (), True),
    ],
)
def test_addresses_are_asked_as_in_go(text: str, name: str, others: tuple[Any, ...], answer: Any) -> None:
    others = tuple(call("ip", one) if isinstance(one, str) else one for one in others)
    assert same(call(name, call("ip", text), *others), answer)


@pytest.mark.parametrize(
    ("name", "arguments", "answer"),
    [
        ("isIP", ("1.2.3.04",), False),
        ("isIP", ("::ffff:1.2.3.4",), False),
        ("isIP", ("::1%eth0",), False),
        ("isIP", ("1.2.3",), False),
        ("isIP", ("1:2:3:4:5:6:7::",), True),
        ("isIP", ("1:2:3:4:5:6:1.2.3.4",), True),
        ("ip.isCanonical", ("::ff",), True),
        ("ip.isCanonical", ("::FF",), False),
        ("ip.isCanonical", ("10.0.0.1",), True),
        ("ip.isCanonical", ("2001:db8:0::1",), False),
        ("isCIDR", ("10.0.0.0/8",), True),
        ("isCIDR", ("10.1.2.3/8",), True),
        ("isCIDR", ("::ffff:1.2.3.4/96",), False),
        ("isCIDR", ("1.2.3.4/255.0.0.0",), False),
        ("isCIDR", ("1.2.3.4/08",), False),
        ("isCIDR", ("1.2.3.4",), False),
        ("isCIDR", ("::/129",), False),
        ("isCIDR", ("::/128",), True),
    ],
)
def test_texts_are_addresses_if_go_reads_them(name: str, arguments: tuple[Any, ...], answer: Any) -> None:
    assert same(call(name, *arguments), answer)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("abc", "unable to parse IP"),
        ("%eth0", "missing IPv6 address"),
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1.2.3.256", "IPv4 field has value >255"),
        ("1.2.3.04", "IPv4 field has octet with leading zero"),
        ("1..2.3", 'IPv4 field must have at least one digit (at ".2.3")'),
        ("a.b.c.d", 'unexpected character (at "a.b.c.d")'),
        ("::1%", "zone must be a non-empty string"),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("1:", 'colon must be followed by more characters (at ":")'),
        (":1", 'each colon-separated field must have at least one digit (at ":1")'),
        ("1:2", "address string too short"),
        ("1:2:3:4:5:6:7:8::", "the :: must expand to at least one field of zeros"),
        ("1:2.3.4.5", 'embedded IPv4 address must replace the final 2 fields of the address (at "2.3.4.5")'),
        ("1::g", 'each colon-separated field must have at least one digit (at "g")'),
        ("1:2g::", 'unexpected character, want colon (at "g::")'),
    ],
)
def test_text_that_is_no_address_is_refused_in_words_of_go(text: str, why: str) -> None:
    said = f'IP Address "{text}" parse error during conversion from string: ParseAddr("{text}"): {why}'
    assert call("ip", text) == f"error: {said}"


def test_zones_and_mapped_addresses_are_refused() -> None:
    assert call("ip", "::1%eth0") == 'error: IP address "::1%eth0" with zone value is not allowed'
    assert call("ip", "::ffff:1.2.3.4") == 'error: IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1.2.3.4", "no '/'"),
        ("1.2.3.4/33", "prefix length out of range"),
        ("1.2.3.4/08", 'bad bits after slash: "08"'),
        ("::1%eth0/64", "IPv6 zones cannot be present in a prefix"),
        ("x/8", 'ParseAddr("x"): unable to parse IP'),
    ],
)
def test_text_that_is_no_network_is_refused_in_words_of_go(text: str, why: str) -> None:
    said = "network address parse error during conversion from string: "
    assert call("cidr", text) == f'error: {said * 2}netip.ParsePrefix("{text}"): {why}'


@pytest.mark.parametrize(
    ("outer", "inner", "answer"),
    [
        ("10.0.0.0/8", "10.1.0.0/16", True),
        ("10.1.0.0/16", "10.0.0.0/8", False),
        ("10.2.3.4/8", "10.9.9.9/8", True),
        ("::/0", "10.0.0.0/8", False),
    ],
)
def test_network_contains_smaller_ones_of_its_family(outer: str, inner: str, answer: bool) -> None:
    assert call("containsCIDR", call("cidr", outer), inner) is answer
    assert call("containsCIDR", call("cidr", outer), call("cidr", inner)) is answer


def test_network_keeps_its_address_until_it_is_masked() -> None:
    network = call("cidr", "10.1.2.3/8")
    assert call("string", network) == "10.1.2.3/8"
    assert call("string", call("masked", network)) == "10.0.0.0/8"
    assert call("prefixLength", network) == 8
    assert call("ip", network) == call("ip", "10.1.2.3")
    assert network != call("masked", network)


def test_network_contains_addresses() -> None:
    network = call("cidr", "10.0.0.0/8")
    assert call("containsIP", network, "10.1.2.3") is True
    assert call("containsIP", network, call("ip", "::1")) is False
    assert call("containsIP", network, "x") == "error: no such overload"
