"""Keys and certificate requests of users."""

import ssl
from datetime import timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from kcr.clock import SystemClock
from kcr_devcluster.cluster.client_certificates import ClientAuthority

USAGES = ("digital signature", "key encipherment", "client auth")


def certificate_request(user: str, *groups: str) -> tuple[str, str]:
    """Return a key and a request for a user's certificate, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    names += [x509.NameAttribute(NameOID.COMMON_NAME, user)] if user else []
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private.decode(), request.public_bytes(Encoding.PEM).decode()


def login(
    folder: Path,
    trusted: str,
    authority: ClientAuthority,
    user: str,
    *groups: str,
    usages: tuple[str, ...] = USAGES,
) -> ssl.SSLContext:
    """Return a context of a client with a certificate.

    Args:
        folder: Where key and certificate go.
        trusted: The authority of the server.
        authority: What signs the certificate.
        user: The user.
        groups: The user's groups.
        usages: What the certificate is asked for.
    """
    key, request = certificate_request(user, *groups)
    certificate = authority.sign(request, usages, timedelta(hours=1), SystemClock().now())
    chain = folder / "user.pem"
    chain.write_text(key + certificate)
    context = ssl.create_default_context(cadata=trusted)
    context.load_cert_chain(chain)
    return context
