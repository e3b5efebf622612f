"""How webhooks are served, and their certificate."""

import tempfile
from pathlib import Path
from typing import NamedTuple

from kcr.api.bindaddress import MAX_CONNECTIONS, BindAddress
from kcr.api.meta import Key
from kcr.errors import ConfigError
from kcr.informer import Handler
from kcr.serving.ports import CertificateOptions, PortCertificate, SecureServing, ServerCertificate
from kcr.serving.webhooks.authority import ServingSecret
from kcr.serving.webhooks.conversion import WebhookService
from kcr.serving.webhooks.pem import CERT, KEY, check_package

_OPTIONS = CertificateOptions("webhooks", "--webhook-cert-dir", "--webhook-cert-name", "--webhook-key-name")

# Source: controller-runtime/pkg/webhook/server.go, DefaultPort.
PORT = 9443


class WebhookServing(NamedTuple):
    """How webhooks are served: `Manager.serve_webhooks`.

    Attributes:
        address: Where to listen.
        cert_dir: The folder of the certificate; empty for one that kcr makes for `service`, and without a service for
            controller-runtime's default, `k8s-webhook-server/serving-certs` in the folder of temporary files.
        cert_name: The certificate's file in it.
        key_name: The key's file in it.
        client_ca_name: The file in it of the authorities whose clients may connect; empty for any client.
        service: The Service of the webhooks, and the Secret of the certificate that kcr makes.
        shutdown_delay: How many seconds webhooks are served at the end, until the pod has left its Service.
        max_connections: How many connections may be open; the oldest idle one makes room for a new one.
    """

    address: BindAddress = BindAddress("", PORT)
    cert_dir: str = ""
    cert_name: str = "tls.crt"
    key_name: str = "tls.key"
    client_ca_name: str = ""
    service: WebhookService | None = None
    shutdown_delay: float = 5.0
    max_connections: int = MAX_CONNECTIONS

    @property
    def makes_certificate(self) -> bool:
        """Whether kcr makes the certificate."""
        return self.service is not None and not self.cert_dir

    @property
    def secret(self) -> Key:
        """The Secret of a certificate that kcr makes."""
        assert self.service is not None
        return Key(self.service.namespace, self.service.secret or self.service.name)

    def certificate(self) -> PortCertificate:
        """Return the certificate of the port; one that kcr makes is empty.

        Raises:
            ConfigError: A file cannot be used, or a package is missing.
        """
        folder = self.cert_dir or str(Path(tempfile.gettempdir(), "k8s-webhook-server", "serving-certs"))
        client_ca = str(Path(folder, self.client_ca_name)) if self.client_ca_name else ""
        if self.makes_certificate:
            check_package()
            return PortCertificate("webhooks", client_ca)
        if not self.cert_dir and not Path(folder, self.cert_name).exists():
            raise ConfigError(
                "webhooks: there is no certificate: name its folder with --webhook-cert-dir, or the Service with "
                "--webhook-service-name, for which kcr makes one; --webhook-port=-1 serves none"
            )
        return ServerCertificate(SecureServing(folder, self.cert_name, self.key_name), _OPTIONS, client_ca=client_ca)


class CertificateLoader(Handler[ServingSecret]):
    """Serves the certificate of a Secret, and keeps it when the Secret is deleted."""

    def __init__(self, certificate: PortCertificate) -> None:
        self._certificate = certificate
        self._loaded = b""

    def on_add(self, obj: ServingSecret, initial: bool) -> None:
        """Load the certificate when it is another one."""
        pem = obj.data.get(CERT, b"") + obj.data.get(KEY, b"")
        if pem and pem != self._loaded:
            self._loaded = pem
            self._certificate.load(pem)

    def on_update(self, old: ServingSecret, new: ServingSecret) -> None:
        """Load the certificate when it is another one."""
        self.on_add(new, False)
