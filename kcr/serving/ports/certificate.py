"""The certificate of an HTTPS port: from two files that are read again when they change, or a self-signed one.

Source: controller-runtime/pkg/metrics/server/server.go, createListener; pkg/certwatcher/certwatcher.go.
"""

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from kcr.arguments import checked
from kcr.clock import SystemClock
from kcr.errors import ConfigError
from kcr.log import get_logger

_log = get_logger()

_LIFETIME = timedelta(days=365)
# Clocks differ a little.
_SLACK = timedelta(hours=1)


@checked
class SecureServing(NamedTuple):
    """Metrics over HTTPS, for those whom the API server allows to read them: `Manager.expose(metrics_secure=…)`.

    Attributes:
        cert_path: The folder of the certificate; empty for one that the process makes and signs itself, which needs the
            extra `secure`.
        cert_name: The file of the certificate in it, with those of intermediate authorities.
        cert_key: The file of the key in it.
    """

    cert_path: str = ""
    cert_name: str = "tls.crt"
    cert_key: str = "tls.key"


class CertificateOptions(NamedTuple):
    """The name of a port and of the options of its certificate, for errors."""

    what: str
    folder: str
    certificate: str
    key: str


_METRICS = CertificateOptions("metrics", "--metrics-cert-path", "--metrics-cert-name", "--metrics-cert-key")


class PortCertificate:
    """The TLS context of a port whose certificate may be replaced: new connections get the newest one.

    Replacing it is one assignment, in whatever thread. Without a certificate, handshakes fail.

    Attributes:
        reads: How many certificates were read.
        errors: How many of them could not be used.
        last_error: Why the newest cannot be used; empty when it is served.
    """

    def __init__(self, what: str, client_ca: str = "") -> None:
        """Make it without a certificate.

        Args:
            what: Names the port in errors.
            client_ca: The file of the authorities whose clients may connect; empty for any client.

        Raises:
            ConfigError: That file cannot be used.
        """
        self.reads: int = 0
        self.errors: int = 0
        self.last_error: str = ""
        self._what = what
        self._client_ca = client_ca
        self._current: ssl.SSLContext | None = None
        self._listening = self._new_context()

    @property
    def is_there(self) -> bool:
        """Whether there is a certificate."""
        return self._current is not None

    def context(self) -> ssl.SSLContext:
        """Return the context to listen with; each connection gets the newest certificate."""
        self._listening.sni_callback = self._choose  # called for every connection, also for one that names no host
        return self._listening

    def load(self, pem: bytes) -> None:
        """Serve a certificate from now on; one that cannot be used is logged, and changes nothing.

        Args:
            pem: The certificate, with those of intermediate authorities, and its key.
        """
        with _as_file(pem) as file:
            self._replace(lambda: self._with_chain(file, file))

    def poll(self) -> None:
        """Look whether there is another certificate; called with each connection, and now and then."""

    def _replace(self, read: Callable[[], ssl.SSLContext]) -> None:
        self.reads += 1
        try:
            self._current = read()
        except (ConfigError, OSError, ValueError) as error:
            self.errors += 1
            self.last_error = str(error) if isinstance(error, ConfigError) else f"{self._what}: {_reason(error)}"
            _log.warning("certificate not reloaded, serving the previous one", error=self.last_error)
        else:
            self.last_error = ""
            _log.info("certificate reloaded", what=self._what)

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        self.poll()
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None

    def _new_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self._client_ca:
            try:
                context.load_verify_locations(self._client_ca)
            except OSError as error:
                why = error.strerror if not isinstance(error, ssl.SSLError) else "no certificates as PEM"
                raise ConfigError(
                    f"{self._what}: {self._client_ca}: {why}: name a file with the authorities of clients"
                ) from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _with_chain(self, certificate: Path, key: Path) -> ssl.SSLContext:
        context = self._new_context()
        # An encrypted key would make OpenSSL ask the terminal; the empty password makes it fail instead.
        context.load_cert_chain(certificate, key, password="")
        return context


class ServerCertificate(PortCertificate):
    """The TLS context of a port, with a certificate from files, or a self-signed one.

    Files are checked with each new connection: a renewed certificate is served from the next connection on. Files
    that cannot be used, perhaps because they are being written, are logged, and the certificate of before is served.
    """

    def __init__(self, serving: SecureServing, options: CertificateOptions = _METRICS, *, client_ca: str = "") -> None:
        """Read or make the certificate.

        Args:
            serving: Where the files are.
            options: The options that errors name.
            client_ca: The file of the authorities whose clients may connect; empty for any client.

        Raises:
            ConfigError: A file cannot be used, or the package that makes certificates is missing.
        """
        super().__init__(options.what, client_ca)
        self._options = options
        self._files = tuple(Path(serving.cert_path, name) for name in (serving.cert_name, serving.cert_key))
        self._watches = bool(serving.cert_path)
        # Of the files that were read last.
        self._stamps = self._look()
        self._current = self._read() if self._watches else self._make()

    def poll(self) -> None:
        """Read the files again if they have changed."""
        if self._watches and (stamps := self._look()) != self._stamps:
            self._stamps = stamps
            self._replace(self._read)

    def _look(self) -> tuple[tuple[int, ...], ...]:
        """Return a value that changes with the files, whose folder may be a mounted Secret with replaced links."""
        return tuple(map(_stamp, self._files)) if self._watches else ()

    def _read(self) -> ssl.SSLContext:
        what, folder, *names = self._options
        for path, option in zip(self._files, names, strict=True):
            try:
                path.read_bytes()
            except OSError as error:
                hint = f"see that {folder} is its folder and {option} its name"
                raise ConfigError(f"{what}: {path}: {error.strerror}: {hint}") from error
        try:
            return self._with_chain(*self._files)
        except (OSError, ValueError) as error:
            found = " and ".join(map(str, self._files))
            raise ConfigError(f"{what}: {found}: no certificate with its key, as PEM: {_reason(error)}") from error

    def _make(self) -> ssl.SSLContext:
        with _as_file(self_signed(SystemClock().now())) as file:
            made = self._with_chain(file, file)
        _log.info("self-signed certificate, which readers cannot verify", remedy="give one: --metrics-cert-path")
        return made


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def _as_file(data: bytes) -> Iterator[Path]:
    """Give a private file with this data: the ssl module reads certificates from files only.

    On Linux it is in memory: the file system of a container may be read-only.
    """
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("certificate"), "wb") as file:
            file.write(data)
            file.flush()
            yield Path(f"/proc/self/fd/{file.fileno()}")
        return
    with tempfile.TemporaryDirectory(prefix="kcr-") as folder:
        path = Path(folder, "server.pem")
        path.touch(0o600)
        path.write_bytes(data)
        yield path


def self_signed(now: datetime) -> bytes:
    """Return a certificate for this machine's own names, valid for a year, and its key, as PEM.

    Readers cannot verify it; it keeps tokens and metrics from being read on the way.

    Raises:
        ConfigError: The package that makes certificates is missing.
    """
    try:
        from cryptography import x509  # noqa: PLC0415  # comes with the extra `secure`
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415  # see above
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415  # see above
    except ImportError as error:
        hint = "pip install 'kcr[secure]', or name the folder of a certificate with --metrics-cert-path"
        raise ConfigError(f"metrics: a self-signed certificate needs the extra 'secure': {hint}") from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem) + private
