import pytest

from kcr_devcluster.apiserver.kinds.formats import check_address, check_cidr
from tests.kit.manifests import texts

ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


# What kube-apiserver 1.36.2 answers, with its strict validation of addresses.
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.0.0.1", ""),
        ("fd00::1", ""),
        ("0db8::00ab", ""),
        ("010.0.0.1", "must not have leading 0s"),
        ("00db8::1", "must not have leading 0s"),
        ("::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
        ("fe80::1%eth0", ADDRESS),
        ("10.0.0", ADDRESS),
        ("", ADDRESS),
    ],
)
def test_address_is_written_in_one_way(text: str, why: str) -> None:
    assert texts(check_address("a", text)) == ([f'a: Invalid value: "{text}": {why}'] if why else [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.0.0.0/8", ""),
        ("0.0.0.0/0", ""),
        ("fd00::/64", ""),
        ("10.0.0.1/24", "must not have bits set beyond the prefix length"),
        ("010.0.0.0/24", "must not have leading 0s in IP or prefix length"),
        ("10.0.0.0/08", "must not have leading 0s in IP or prefix length"),
        ("::ffff:1.2.3.0/120", "must not have an IPv4-mapped IPv6 address"),
        ("10.0.0.0/255.0.0.0", RANGE),
        ("10.0.0.0/33", RANGE),
        ("fd00::1%1/64", RANGE),
        ("10.0.0.0", RANGE),
    ],
)
def test_range_begins_with_its_first_address(text: str, why: str) -> None:
    assert texts(check_cidr("a", text)) == ([f'a: Invalid value: "{text}": {why}'] if why else [])
