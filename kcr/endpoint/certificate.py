"""The certificate of an HTTPS port: from two files that are read again when they change, or a self-signed one.

Source: controller-runtime/pkg/metrics/server/server.go, createListener; pkg/certwatcher/certwatcher.go.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from kcr.clock import SystemClock
from kcr.errors import ConfigError
from kcr.log import get_logger

_log = get_logger()

_LIFETIME = timedelta(days=365)
# Clocks differ a little.
_SLACK = timedelta(hours=1)


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


class ServerCertificate:
    """The TLS context of a port.

    Files are looked at with each new connection: a renewed certificate is served from the next connection on. Files
    that cannot be used, perhaps because they are being written, are logged, and the certificate of before is served.
    """

    def __init__(self, serving: SecureServing) -> None:
        """Read or make the certificate.

        Raises:
            ConfigError: A file cannot be used, or the package that makes certificates is missing.
        """
        self._files = tuple(Path(serving.cert_path, name) for name in (serving.cert_name, serving.cert_key))
        self._watches = bool(serving.cert_path)
        # Of the files that were read last.
        self._stamps = self._look()
        self._current = self._read() if self._watches else _make()

    def context(self) -> ssl.SSLContext:
        """Return the context to listen with; each connection gets the newest certificate."""
        context = _new_context()
        context.sni_callback = self._choose  # called for every connection, also for one that names no host
        return context

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        if self._watches and (stamps := self._look()) != self._stamps:
            self._stamps = stamps
            try:
                self._current = self._read()
            except ConfigError as error:
                _log.warning("certificate not reloaded, serving the previous one", error=str(error))
            else:
                _log.info("certificate reloaded", file=str(self._files[0]))
        connection.context = self._current

    def _look(self) -> tuple[tuple[int, ...], ...]:
        """Return a value that changes with the files, whose folder may be a mounted Secret with replaced links."""
        return tuple(map(_stamp, self._files)) if self._watches else ()

    def _read(self) -> ssl.SSLContext:
        for path, option in zip(self._files, ("--metrics-cert-name", "--metrics-cert-key"), strict=True):
            try:
                path.read_bytes()
            except OSError as error:
                hint = f"see that --metrics-cert-path is its folder and {option} its name"
                raise ConfigError(f"metrics: {path}: {error.strerror}: {hint}") from error
        try:
            return _context(*self._files)
        except (OSError, ValueError) as error:
            names = " and ".join(map(str, self._files))
            why = getattr(error, "reason", None) or str(error)
            raise ConfigError(f"metrics: {names}: no certificate with its key, as PEM: {why}") from error


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return a context with a certificate and its key."""
    context = _new_context()
    # An encrypted key would make OpenSSL ask the terminal; the empty password makes it fail instead.
    context.load_cert_chain(certificate, key, password="")
    return context


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


def _make() -> ssl.SSLContext:
    with _as_file(self_signed(SystemClock().now())) as file:
        made = _context(file, file)
    _log.info("self-signed certificate, which readers cannot verify", remedy="give one: --metrics-cert-path")
    return made


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
