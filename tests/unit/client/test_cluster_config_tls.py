import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from kcr.client import ClusterConfig, Credential, PemSource
from kcr.client.cluster_config import expired_certificate, tls_context
from kcr.errors import ConfigError


def pem(text: str) -> PemSource:
    return PemSource(text=text, field="client-certificate")


def test_only_the_given_authority_is_trusted() -> None:
    ca = PemSource(text=trustme.CA().cert_pem.bytes().decode(), field="certificate-authority")
    made = tls_context(ClusterConfig(server="https://x", ca=ca))
    assert len(made.get_ca_certs()) == 1
    assert made.verify_mode == ssl.CERT_REQUIRED
    assert made.check_hostname


def test_verification_is_off_only_on_request() -> None:
    made = tls_context(ClusterConfig(server="https://x", verify=False))
    assert made.verify_mode == ssl.CERT_NONE
    assert not made.check_hostname


def test_authority_that_is_no_certificate_is_named() -> None:
    ca = PemSource(
        text="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", field="k, certificate-authority"
    )
    with pytest.raises(ConfigError, match=r"^k, certificate-authority.* no usable certificate"):
        tls_context(ClusterConfig(server="https://x", ca=ca))


def test_key_of_another_certificate_is_refused() -> None:
    ca = trustme.CA()
    mine, other = ca.issue_cert("a"), ca.issue_cert("b")
    config = ClusterConfig(
        server="https://x",
        certificate=pem(mine.cert_chain_pems[0].bytes().decode()),
        key=pem(other.private_key_pem.bytes().decode()),
    )
    with pytest.raises(ConfigError, match=r"^client-certificate: certificate and key do not fit"):
        tls_context(config)


def issued(end: datetime) -> str:
    me = trustme.CA().issue_cert("me.example", not_before=datetime(2020, 1, 1, tzinfo=UTC), not_after=end)
    return "".join(pem.bytes().decode() for pem in me.cert_chain_pems)


# From 2050 on, certificates write years with four digits.
@pytest.mark.parametrize("end", [datetime(2021, 2, 3, 4, 5, 6, tzinfo=UTC), datetime(2051, 2, 3, 4, 5, 6, tzinfo=UTC)])
def test_end_of_a_client_certificate_is_told_once_it_is_over(end: datetime) -> None:
    config, anonymous = ClusterConfig(server="https://x", certificate=pem(issued(end))), Credential()
    assert expired_certificate(config, anonymous, end - timedelta(seconds=1)) == ""
    said = f"the client certificate (client-certificate) expired at {end:%Y-%m-%dT%H:%M:%SZ}, 2 days ago: renew it"
    assert expired_certificate(config, anonymous, end + timedelta(days=2)) == said


def test_certificate_of_a_credential_plugin_takes_precedence() -> None:
    end = datetime(2021, 1, 1, tzinfo=UTC)
    config = ClusterConfig(server="https://x", certificate=pem(issued(datetime(2030, 1, 1, tzinfo=UTC))))
    said = expired_certificate(config, Credential(certificate=issued(end)), end + timedelta(days=1))
    assert said.startswith("the client certificate (of the credential plugin) expired at 2021-01-01T00:00:00Z, 1 days")


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"])
def test_certificate_that_cannot_be_read_has_no_end(text: str) -> None:
    config = ClusterConfig(server="https://x", certificate=pem(text) if text else PemSource())
    assert expired_certificate(config, Credential(), datetime(2021, 1, 1, tzinfo=UTC)) == ""
