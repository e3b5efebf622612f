"""Certificates that kcr makes, as a client verifies them."""

import builtins
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from kcr.errors import ConfigError
from kcr.serving.webhooks.pem import CA, CA_KEY, CERT, KEY, PREVIOUS, Issuer, check_package, parse, still_trusted

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ISSUER = Issuer(("web.team.svc", "localhost"), timedelta(days=1))


def made(now: datetime = NOW) -> dict[str, bytes]:
    authority = ISSUER.authority(now)
    return authority | ISSUER.serving(authority, now)


def verify(data: dict[str, bytes], bundle: bytes, now: datetime, name: str = "web.team.svc") -> None:
    policy = PolicyBuilder().store(Store(x509.load_pem_x509_certificates(bundle))).time(now)
    policy.build_server_verifier(x509.DNSName(name)).verify(x509.load_pem_x509_certificate(data[CERT]), [])


@pytest.mark.parametrize("skew", [timedelta(minutes=-5), timedelta(), timedelta(minutes=5)], ids=str)
def test_certificate_is_valid_for_clocks_that_differ(skew: timedelta) -> None:
    data = made()
    verify(data, data[CA], NOW + skew)
    verify(data, made()[CA] + data[CA], NOW + skew)


def test_certificate_is_for_its_service_and_life_only() -> None:
    data = made()
    for bundle, now, name in ((made()[CA], NOW, ""), (data[CA], NOW + timedelta(days=2), ""), (data[CA], NOW, "a.b")):
        with pytest.raises(VerificationError):
            verify(data, bundle, now, name or "web.team.svc")


def test_certificate_ends_with_its_authority() -> None:
    authority = ISSUER.authority(NOW)
    later = ISSUER.read(authority | ISSUER.serving(authority, NOW + timedelta(hours=20)))
    assert later.serving is not None
    assert later.authority is not None
    assert later.serving.not_after == later.authority.not_after == NOW + timedelta(days=1)


def test_chain_is_read_from_the_data_of_a_secret() -> None:
    data, other = made(), made()
    chain = ISSUER.read(data | {PREVIOUS: other[CA]})
    assert (chain.is_current, chain.bundle) == (True, data[CA] + other[CA])
    staged = ISSUER.read(data | {CA: other[CA], CA_KEY: other[CA_KEY]})
    assert staged.serving is not None
    assert not staged.is_current


@pytest.mark.parametrize("broken", [b"", b"no pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
@pytest.mark.parametrize("name", [CA, CA_KEY, CERT, KEY])
def test_broken_part_is_no_part(name: str, broken: bytes) -> None:
    chain = ISSUER.read(made() | {name: broken, PREVIOUS: broken})
    assert chain.previous == ()
    assert (chain.authority is None, chain.serving is None) == (name in (CA, CA_KEY), name in (CERT, KEY))


def test_key_of_another_certificate_is_none() -> None:
    assert ISSUER.read(made() | {KEY: made()[KEY]}).serving is None


def test_certificate_of_another_service_is_none() -> None:
    assert Issuer(("api.team.svc",), timedelta(days=1)).read(made()).serving is None


def test_bundle_loses_what_has_expired() -> None:
    old, new = made(NOW - timedelta(days=3)), made()
    assert still_trusted(parse(old[CA] + new[CA] + new[CA]), NOW) == new[CA]


def test_bundle_keeps_what_is_beside_a_broken_certificate() -> None:
    old, new = made(), made()
    broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    assert still_trusted(parse(old[CA] + broken + b"# a comment\n" + new[CA]), NOW) == old[CA] + new[CA]


def test_missing_package_is_one_line_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    normal = builtins.__import__

    def without_cryptography(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return normal(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_cryptography)
    with pytest.raises(ConfigError, match=r"pip install 'kcr\[secure\]', or name the folder of a certificate with --"):
        check_package()
