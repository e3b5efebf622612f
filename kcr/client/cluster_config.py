"""Which server to talk to, and with which identity: the value that configuration ends in, and its TLS context."""

import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from kcr.arguments import checked
from kcr.client.credentials import ANONYMOUS, Credential, Credentials, FixedCredentials, redacted
from kcr.clock import SystemClock
from kcr.errors import ApiError, ConfigError, ForbiddenError, KcrError, TransportError, UnauthorizedError


class PemSource(NamedTuple):
    """A certificate or a key: the file it stands in, or its text.

    Attributes:
        path: The file, read again when it changes; empty when there is none.
        text: The text itself, used when there is no path.
        field: The name of the setting it comes from, for messages.
    """

    path: str = ""
    text: str = ""
    field: str = ""

    def __repr__(self) -> str:
        """Show where the text comes from, not the text."""
        return redacted(self, "path", "field")

    def __bool__(self) -> bool:
        return bool(self.path or self.text)

    def read(self) -> str:
        """Return the text.

        Raises:
            ConfigError: The file cannot be read, or holds nothing of the kind.
        """
        text = self.text
        if self.path:
            try:
                with open(self.path, encoding="ascii") as file:
                    text = file.read()
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "is not a PEM file"
                raise ConfigError(f"{self.field} {self.path}: {why}; correct the path or the file") from error
        if "-----BEGIN " not in text:
            raise ConfigError(f"{self.field}{' ' + self.path if self.path else ''}: holds no PEM block")
        return text


NO_PEM = PemSource()


@checked
@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """How to reach one cluster.

    Attributes:
        server: The URL, perhaps with a path, without a slash at its end.
        origin: Where this was configured, for messages.
        credentials: The identity of the client.
        ca: The authorities that may sign for the server; without one, the system's.
        certificate: The client's certificate.
        key: The key of the client's certificate.
        verify: Whether the server's certificate is checked at all.
        server_name: The name that the certificate must have; empty for the server's host.
        proxy: The URL of an HTTP proxy, or empty.
        headers: Sent with each request, for example to impersonate.
        compression: Whether answers may be compressed.
        namespace: The namespace that the configuration names, `default` when it names none.
        extensions: The extensions of other programs in the cluster's entry of the kubeconfig, by name.
    """

    server: str
    origin: str = ""
    credentials: Credentials = field(default_factory=FixedCredentials)
    ca: PemSource = NO_PEM
    certificate: PemSource = NO_PEM
    key: PemSource = NO_PEM
    verify: bool = True
    server_name: str = ""
    proxy: str = field(default="", repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    compression: bool = True
    namespace: str = "default"
    extensions: Mapping[str, object] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not is_server(self.server):
            raise ConfigError(f"server {self.server!r} is not a URL of an API server: write https://HOST:PORT")


def is_server(text: str) -> bool:
    """Return whether a text is the URL of a server."""
    with suppress(ValueError):  # the port is none
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
    return False


def tls_context(config: ClusterConfig, credential: Credential = ANONYMOUS) -> ssl.SSLContext:
    """Return the TLS context for a cluster.

    Args:
        config: The cluster; its files are read now.
        credential: Its certificate, if any, takes precedence over the configuration's.

    Raises:
        ConfigError: A certificate or key cannot be read, or is none.
    """
    made = _base(config)
    # Python 3.13 refuses authorities without key identifiers, which many clusters have. Go does not mind them.
    made.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not config.verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if credential.certificate:
        _identify(made, credential.certificate, credential.key, "certificate of the credential plugin")
    elif config.certificate:
        names = f"{config.certificate.field} {config.certificate.path}".strip()
        _identify(made, config.certificate.read(), config.key.read() if config.key else "", names)
    return made


def _base(config: ClusterConfig) -> ssl.SSLContext:
    if not config.ca:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=config.ca.read())
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{config.ca.field} {config.ca.path}: no usable certificate: {error}") from error


def _identify(made: ssl.SSLContext, certificate: str, key: str, names: str) -> None:
    # The ssl module loads certificates from files only. This one is private and deleted at once.
    with tempfile.TemporaryDirectory(prefix="kcr-") as folder:
        path = Path(folder, "client.pem")
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{certificate}\n{key}\n")
        try:
            # An encrypted key would make OpenSSL ask the terminal; the empty password makes it fail instead.
            made.load_cert_chain(path, password="")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"{names}: certificate and key do not fit or are unusable: {error}") from error


def expired_certificate(config: ClusterConfig, credential: Credential, now: datetime) -> str:
    """Return which client certificate has expired and when, for a message; empty when there is none, or it has not.

    Args:
        config: The cluster; the file of its certificate is read now.
        credential: Its certificate, if any, takes precedence over the configuration's.
        now: The present moment.
    """
    source = PemSource(text=credential.certificate, field="of the credential plugin")
    source = source if source else config.certificate
    try:
        end = _not_after(source.read()) if source else None
    except (ConfigError, ValueError, IndexError):
        return ""
    if end is None or now < end:
        return ""
    name = f"{source.field} {source.path}".strip()
    return f"the client certificate ({name}) expired at {end:%Y-%m-%dT%H:%M:%SZ}, {(now - end).days} days ago: renew it"


def _not_after(pem: str) -> datetime:
    """Return when the first certificate in a PEM expires; ValueError or IndexError if there is none.

    Python's ssl module decodes no certificate of a client. Source: RFC 5280, section 4.1: the validity is the fourth
    field of a certificate after its version, which may be absent.
    """
    found = re.search("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", pem, re.DOTALL)
    fields = _der_items(_der_items(_der_items(ssl.PEM_cert_to_DER_cert(found[0] if found else ""))[0][1])[0][1])
    validity = [content for tag, content in fields if tag != 0xA0][3]
    # The year has two digits up to 2049 (UTCTime), and four later (GeneralizedTime).
    tag, content = _der_items(validity)[1]
    text = content.decode("ascii")
    century = "" if tag == 0x18 else "19" if text >= "5" else "20"
    return datetime.strptime(century + text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _der_items(data: bytes) -> list[tuple[int, bytes]]:
    """Return tag and content of each value in a sequence. Source: X.690, section 8.1."""
    items, place = [], 0
    while place < len(data):
        tag, size = data[place], data[place + 1]
        place += 2
        if size & 0x80:
            count = size & 0x7F
            size, place = int.from_bytes(data[place : place + count]), place + count
        items.append((tag, data[place : place + size]))
        place += size
    return items


def tls_modified(config: ClusterConfig) -> tuple[float, ...]:
    """Return when the files of the TLS context were changed; 0 for those that do not exist."""
    paths = (pem.path for pem in (config.ca, config.certificate, config.key) if pem.path)
    return tuple(os.stat(path).st_mtime if os.path.exists(path) else 0.0 for path in paths)


def explain_failure(error: KcrError, config: ClusterConfig) -> str:
    """Return cause and remedy of a failed first contact, in one line.

    Args:
        error: The failure of the first requests.
        config: The server, and where address and credentials come from, such as the kubeconfig's path.
    """
    server, source = config.server, config.origin
    expired = expired_certificate(config, ANONYMOUS, SystemClock().now())
    match error:
        case TransportError():
            # It begins with the request, which says the address once more.
            why = re.sub(rf"\A[A-Z]+ {re.escape(server)}\S*: ", "", str(error))
            hint = _connection_hint(error.__cause__, source)
            # An alert is the server's verdict on our certificate.
            hint = expired if expired and " alert " in why else hint
            return f"cannot reach the API server {server}: {why}: {hint}"
        case UnauthorizedError():
            return f"the API server {server} answers 401: {expired or f'renew the credentials in {source}'}"
        case ForbiddenError():
            hint = (
                "grant it with a Role or ClusterRole, or use another identity; "
                "`kcr rbac generate` writes the roles of controllers"
            )
            return f"the API server {server} refuses: {error.message}: {hint}"
        case ApiError(code=404):
            return f"{server} is not an API server, it answers 404: see what {source} is about"
        case ApiError():
            return f"the API server {server} answers {error.code}: {error.message}: see its own log"
        case _:
            return str(error)


def _connection_hint(cause: BaseException | None, source: str) -> str:
    match cause:
        case ssl.SSLCertVerificationError():
            return f"see that the certificate authority in {source} is this server's"
        case ssl.SSLError():
            return f"see that the server of {source} speaks TLS at this port"
        case _:
            return f"see that it runs, and that {source} is about it"
