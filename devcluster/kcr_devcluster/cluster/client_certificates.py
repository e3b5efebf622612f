"""Client certificates: the authority that signs them, and the user whom one stands for.

The authority is another one than that of the server: clients trust one, the server the other.

Source: kubernetes/pkg/controller/certificates/authority/{authority,policies}.go;
staging/src/k8s.io/apiserver/pkg/authentication/request/x509/x509.go, CommonNameUserConversion.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kcr_devcluster.apiserver.authentication import User
from kcr_devcluster.apiserver.authentication.users import AUTHENTICATED
from kcr_devcluster.apiserver.kinds.catalogue import CONFIG_MAPS
from kcr_devcluster.apiserver.registry.registry import Registry
from kcr_devcluster.cluster.certificates import SLACK, key_usage

# The client certificates of an authority are valid as long as it is.
_AUTHORITY_LIFETIME = timedelta(days=3650)
# The lifetime of a certificate unless its request asks for less.
LONGEST = timedelta(days=365)
_SHORTEST = timedelta(minutes=10)
_BACKDATE = timedelta(minutes=5)
# The attribute of a subject that holds the uid of the user.
_UID = "1.3.6.1.4.1.57683.2"
# Where servers beside this one read whose client certificates they are to trust.
TRUST = "extension-apiserver-authentication"
_CREDENTIAL = "authentication.kubernetes.io/credential-id"
# As Python's ssl module names the attributes of a subject.
_COMMON_NAME, _ORGANIZATION = "commonName", "organizationName"


class ClientAuthority(NamedTuple):
    """An authority that signs client certificates: its certificate and its key, PEM."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        """Show nothing of the key."""
        return "ClientAuthority()"

    def sign(self, request: str, usages: Iterable[str], lifetime: timedelta | None, now: datetime) -> str:
        """Return a certificate for a request, PEM.

        Args:
            request: The PKCS#10 request, PEM.
            usages: The usages of the key, as in `spec.usages`.
            lifetime: For how long; None for as long as is possible, which is a year.
            now: The machine's time.
        """
        asked = x509.load_pem_x509_csr(request.encode())
        authority = x509.load_pem_x509_certificate(self.certificate.encode())
        key = serialization.load_pem_private_key(self.key.encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        end = now - _BACKDATE + max(_SHORTEST, min(lifetime or LONGEST, LONGEST))
        unsigned = (
            x509.CertificateBuilder()
            .subject_name(asked.subject)
            .issuer_name(authority.subject)
            .public_key(asked.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATE)
            .not_valid_after(min(end, authority.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        )
        if (usage := _usage(frozenset(usages))) is not None:
            unsigned = unsigned.add_extension(usage, critical=True)
        made = unsigned.sign(key, hashes.SHA256())
        return made.public_bytes(serialization.Encoding.PEM).decode()


def make_client_authority(now: datetime) -> ClientAuthority:
    """Make an authority that signs client certificates."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kcr embedded clients")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SLACK)
        .not_valid_after(now + _AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ClientAuthority(certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode())


def _usage(usages: frozenset[str]) -> x509.KeyUsage | None:
    """Return the key usages; None for none, for OpenSSL refuses a certificate with an empty set of them."""
    if not usages & {"digital signature", "key encipherment"}:
        return None
    return x509.KeyUsage(
        digital_signature="digital signature" in usages, key_encipherment="key encipherment" in usages,
        content_commitment=False, data_encipherment=False, key_agreement=False, key_cert_sign=False, crl_sign=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def user_of(certificate: Mapping[str, Any], encoded: bytes) -> User | None:
    """Return the user of a certificate that the listener has verified; None where it names none.

    Args:
        certificate: As Python's ssl module shows it.
        encoded: The certificate in DER.
    """
    subject: Sequence[tuple[str, str]] = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for name, value in subject if name == _COMMON_NAME]
    if not names or not names[-1]:
        return None
    groups = tuple(value for name, value in subject if name == _ORGANIZATION)
    uid = next((value for name, value in subject if name == _UID), "")
    extra = {_CREDENTIAL: (f"X509SHA256={hashlib.sha256(encoded).hexdigest()}",)}
    # Whom the certificate puts there already is not put there twice.
    own = () if AUTHENTICATED in groups else (AUTHENTICATED,)
    return User(names[-1], uid, (*groups, *own), extra)


def publish_trust(registry: Registry, authority: ClientAuthority) -> None:
    """Write the ConfigMap from which components with delegated authentication learn the authority of clients.

    Source: kubernetes/pkg/controlplane/controller/clusterauthenticationtrust.
    """
    data = {"client-ca-file": authority.certificate}
    stored = registry.storage.get(CONFIG_MAPS, "kube-system", TRUST)
    if stored is None:
        registry.create(CONFIG_MAPS, "kube-system", {"metadata": {"name": TRUST}, "data": data})
    else:
        before = stored.manifest()
        registry.store(stored, {**before, "data": {**(before.get("data") or {}), **data}}, before)
