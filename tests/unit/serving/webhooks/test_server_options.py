"""Where the certificate of webhooks comes from."""

import tempfile
from pathlib import Path

import pytest
import trustme

from kcr.api.meta import Key
from kcr.errors import ConfigError
from kcr.serving.ports import PortCertificate
from kcr.serving.webhooks.authority import ServingSecret
from kcr.serving.webhooks.conversion import WebhookService
from kcr.serving.webhooks.server import CertificateLoader, WebhookServing

SERVICE = WebhookService("team", "web")


def write(folder: Path, authority: trustme.CA) -> None:
    issued = authority.issue_cert("127.0.0.1")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tls.crt").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    (folder / "tls.key").write_bytes(issued.private_key_pem.bytes())


def secret(authority: trustme.CA) -> ServingSecret:
    issued = authority.issue_cert("127.0.0.1")
    chain = b"".join(pem.bytes() for pem in issued.cert_chain_pems)
    return ServingSecret(data={"tls.crt": chain, "tls.key": issued.private_key_pem.bytes()})


def test_folder_comes_before_the_service(tmp_path: Path) -> None:
    write(tmp_path, trustme.CA())
    serving = WebhookServing(cert_dir=str(tmp_path), service=SERVICE)
    assert not serving.makes_certificate
    assert serving.certificate().is_there


def test_certificate_that_kcr_makes_is_not_there_at_first() -> None:
    serving = WebhookServing(service=SERVICE._replace(secret="certs"))
    assert (serving.makes_certificate, serving.certificate().is_there) == (True, False)
    assert serving.secret == Key("team", "certs")


def test_folder_of_controller_runtime_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # WH-1
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    remedies = r"name its folder with --webhook-cert-dir, or the Service .*; --webhook-port=-1 serves none"
    with pytest.raises(ConfigError, match=rf"there is no certificate: {remedies}"):
        WebhookServing().certificate()
    write(tmp_path / "k8s-webhook-server" / "serving-certs", trustme.CA())
    assert WebhookServing().certificate().is_there


def test_missing_file_is_named_with_its_option(tmp_path: Path) -> None:
    write(tmp_path, trustme.CA())
    (tmp_path / "tls.key").unlink()
    words = "webhooks: .*tls.key: No such file or directory: see that --webhook-cert-dir is its folder and --"
    with pytest.raises(ConfigError, match=words):
        WebhookServing(cert_dir=str(tmp_path)).certificate()


@pytest.mark.parametrize("content", [None, "no certificates"], ids=["missing", "malformed"])
def test_unusable_authorities_of_clients_are_refused(tmp_path: Path, content: str | None) -> None:
    write(tmp_path, trustme.CA())
    if content is not None:
        (tmp_path / "ca.crt").write_text(content)
    with pytest.raises(ConfigError, match=r"webhooks: .*ca.crt: .*: name a file with the authorities of clients"):
        WebhookServing(cert_dir=str(tmp_path), client_ca_name="ca.crt").certificate()


def test_certificate_of_a_secret_is_loaded_once_and_kept() -> None:  # WH-10
    certificate, authority = PortCertificate("webhooks"), trustme.CA()
    loader, first = CertificateLoader(certificate), secret(authority)
    loader.on_add(ServingSecret(), True)
    assert not certificate.is_there
    loader.on_add(first, False)
    loader.on_update(first, first)
    assert (certificate.reads, certificate.errors, certificate.is_there) == (1, 0, True)
    loader.on_update(first, ServingSecret(data={"tls.crt": b"x", "tls.key": b"y"}))
    assert (certificate.errors, certificate.is_there, bool(certificate.last_error)) == (1, True, True)
    loader.on_delete(first, False)
    loader.on_update(first, secret(authority))
    assert (certificate.errors, certificate.last_error) == (1, "")
