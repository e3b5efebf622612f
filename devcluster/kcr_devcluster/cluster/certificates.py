"""The listener's own certificate authority and certificate, made at the first start.

Both carry key usage and key identifiers: strict verification, Python's default from 3.13, refuses a chain
without them.
"""

import ipaddress
import ssl
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=365)
# A certificate of an earlier process is used while it is valid for so long.
_RENEWAL = timedelta(days=30)
# Clocks differ a little, and clients refuse a certificate that is not valid yet.
SLACK = timedelta(hours=1)


class Certificates(NamedTuple):
    """PEM texts: the authority's certificate, the server's, and the server's key."""

    authority: bytes
    server: bytes
    key: bytes

    def context(self, clients: str) -> ssl.SSLContext:
        """Return the context of a listener with this certificate.

        Args:
            clients: The authority of client certificates, PEM. Clients need not send one; one of another authority is
                refused when the connection is made.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        # The ssl module reads keys from files only. Only the user can read the directory, which is deleted at once.
        with tempfile.TemporaryDirectory() as directory:
            chain = Path(directory) / "server.pem"
            chain.touch(0o600)
            chain.write_bytes(self.key + self.server)
            context.load_cert_chain(chain)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=clients)
        return context


def is_valid(certificate: bytes, now: datetime) -> bool:
    """Return whether clients accept the dates of a certificate, today and for the next weeks.

    Args:
        certificate: As PEM.
        now: The machine's time, which clients go by.
    """
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc > now + _RENEWAL


def make_certificates(now: datetime) -> Certificates:
    """Make an authority and a server certificate for this machine's own addresses."""
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority_name, server_name = _name("kcr embedded cluster"), _name("kcr embedded server")
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    addresses: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.IPAddress(ipaddress.ip_address("::1")),
    ]
    server = (
        _builder(server_name, authority_name, server_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(addresses), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(server_key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )  # fmt: skip
    key = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Certificates(authority.public_bytes(Encoding.PEM), server.public_bytes(Encoding.PEM), key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SLACK)
        .not_valid_after(now + _LIFETIME)
    )


def key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """Return the key usage extension: for signing certificates, or for identifying a server."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates, key_cert_sign=signs_certificates, crl_sign=signs_certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
