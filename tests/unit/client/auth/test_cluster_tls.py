import ssl

import pytest
import trustme

from kcr.client import ClusterConfig, PemSource
from kcr.client.auth.cluster import tls_context
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
