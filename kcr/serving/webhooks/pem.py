"""Makes and reads certificates as PEM, with the package `cryptography`."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, NamedTuple

from kcr.errors import ConfigError
from kcr.serving.webhooks.rotation import Certificate, Chain

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

# Clocks differ: a certificate is valid for so long when it is made.
SLACK = timedelta(hours=1)
CA, CA_KEY, CERT, KEY, PREVIOUS = "ca.crt", "ca.key", "tls.crt", "tls.key", "ca-previous.crt"
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class Issuer(NamedTuple):
    """Makes certificates.

    Attributes:
        names: The host names of the port.
        life: How long certificates are valid.
    """

    names: tuple[str, ...]
    life: timedelta

    def authority(self, now: datetime) -> dict[str, bytes]:
        """Return a new authority, as data of a Secret."""
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415  # comes with the extra `secure`

        key = ec.generate_private_key(ec.SECP256R1())
        name = f"{self.names[0]}-ca@{now.timestamp():.0f}"
        builder = _builder(name, name, key, now, now + self.life, is_authority=True)
        return _pair(_sign(builder, key, key), key, CA, CA_KEY)

    def serving(self, data: Mapping[str, bytes], now: datetime) -> dict[str, bytes]:
        """Return a new certificate of the port, issued by the authority in the data of a Secret."""
        from cryptography import x509  # noqa: PLC0415  # see above
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415  # see above

        authority, issuer_key = x509.load_pem_x509_certificate(data[CA]), _key(data[CA_KEY])
        key = ec.generate_private_key(ec.SECP256R1())
        until = min(now + self.life, authority.not_valid_after_utc)
        issuer = authority.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value
        builder = _builder(self.names[0], str(issuer), key, now, until, is_authority=False)
        names = [x509.DNSName(name) for name in self.names]
        builder = builder.add_extension(
            x509.SubjectAlternativeName([*names, x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        usage = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
        return _pair(_sign(builder.add_extension(usage, critical=False), issuer_key, key), key, CERT, KEY)

    def read(self, data: Mapping[str, bytes]) -> Chain:
        """Return the usable certificates in the data of a Secret."""
        authority, serving = _usable(data, CA, CA_KEY), _usable(data, CERT, KEY)
        if serving is not None and not self._fits(serving):
            serving = None
        is_current = False
        if authority is not None and serving is not None:
            try:
                serving.verify_directly_issued_by(authority)
                is_current = True
            except Exception:  # any other issuer; the package has several exceptions for that
                is_current = False
        previous = parse(data.get(PREVIOUS, b""))
        facts = [None if one is None else _facts(one) for one in (authority, serving)]
        return Chain(facts[0], facts[1], is_current, previous)

    def _fits(self, serving: "x509.Certificate") -> bool:
        from cryptography import x509  # noqa: PLC0415  # see above

        try:
            found = serving.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return False
        return self.names[0] in found.get_values_for_type(x509.DNSName)


def check_package() -> None:
    """Raise when certificates cannot be made.

    Raises:
        ConfigError: The package `cryptography` is missing.
    """
    try:
        import cryptography  # noqa: F401, PLC0415  # only to see that it can be imported
    except ImportError as error:
        hint = "pip install 'kcr[secure]', or name the folder of a certificate with --webhook-cert-dir"
        raise ConfigError(f"webhooks: making a certificate needs the extra 'secure': {hint}") from error


def parse(bundle: bytes) -> tuple[Certificate, ...]:
    """Return the certificates of a bundle that can be read."""
    from cryptography import x509  # noqa: PLC0415  # see above

    found: list[Certificate] = []
    for pem in _PEM.findall(bundle):
        with suppress(ValueError):
            found.append(_facts(x509.load_pem_x509_certificate(pem)))
    return tuple(found)


def still_trusted(certificates: Iterable[Certificate], now: datetime) -> bytes:
    """Return those that have not expired as a bundle, each once."""
    return b"".join(dict.fromkeys(one.pem for one in certificates if not one.has_expired(now)))


def _facts(certificate: "x509.Certificate") -> Certificate:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415  # see above

    pem = certificate.public_bytes(Encoding.PEM)
    return Certificate(pem, certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _usable(data: Mapping[str, bytes], name: str, key_name: str) -> "x509.Certificate | None":
    from cryptography import x509  # noqa: PLC0415  # see above

    try:
        certificate = x509.load_pem_x509_certificate(data.get(name, b""))
        return certificate if certificate.public_key() == _key(data.get(key_name, b"")).public_key() else None
    except (ValueError, TypeError):
        return None


def _key(pem: bytes) -> "EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415  # see above

    return load_pem_private_key(pem, None)  # type: ignore[return-value]  # another kind issues as well


def _builder(
    subject: str, issuer: str, key: "EllipticCurvePrivateKey", now: datetime, until: datetime, *, is_authority: bool
) -> "x509.CertificateBuilder":
    from cryptography import x509  # noqa: PLC0415  # see above

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text[:64])])

    usage = dict.fromkeys(
        ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
         "key_cert_sign", "crl_sign", "encipher_only", "decipher_only"), False,
    )  # fmt: skip
    usage |= {"key_cert_sign": is_authority, "digital_signature": True}
    return (
        x509.CertificateBuilder()
        .subject_name(name(subject))
        .issuer_name(name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SLACK)
        .not_valid_after(until)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _sign(
    builder: "x509.CertificateBuilder", issuer_key: "EllipticCurvePrivateKey", key: "EllipticCurvePrivateKey"
) -> "x509.Certificate":
    from cryptography import x509  # noqa: PLC0415  # see above
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415  # see above

    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    if key is not issuer_key:
        builder = builder.add_extension(identifier, critical=False)
    return builder.sign(issuer_key, SHA256())


def _pair(
    certificate: "x509.Certificate", key: "EllipticCurvePrivateKey", name: str, key_name: str
) -> dict[str, bytes]:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # see above

    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return {name: certificate.public_bytes(pem), key_name: private}
