"""The strategy of certificate signing requests.

Source: kubernetes/pkg/registry/certificates/certificates/strategy.go; pkg/apis/certificates/validation/validation.go;
pkg/apis/certificates/helpers.go, ParseCSR. The errors of a malformed request inside its PEM block have other messages
than Go's.
"""

from base64 import b64decode
from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING

from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_subdomain

if TYPE_CHECKING:  # imported when a request is read, from the extra `embedded`
    from cryptography.x509 import CertificateSigningRequest

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
_LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
_SHORTEST_SECONDS = 600
_USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_RESETS = {
    "": ("spec", "status"), "status": ("spec", "status.conditions"), "approval": ("spec", "status.certificate"),
}  # fmt: skip
_CONDITIONS, _CERTIFICATE = "status.conditions", "status.certificate"


class CertificateSigningRequestStrategy(Strategy):
    """Certificate signing requests: the spec is immutable; approvers and signers write the status as subresources."""

    stored_as = ("certificates.k8s.io/v1", "CertificateSigningRequest")

    def default(self, obj: Manifest) -> None:
        """Give a request without a spec an empty one, which is refused."""
        super().default(obj)
        obj.setdefault("spec", {})

    def prepare_create(self, obj: Manifest) -> None:
        """Drop the status: requests begin unapproved."""
        obj["status"] = {}

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep spec and status."""
        super().prepare_update(new, old)
        new["spec"] = old["spec"]

    def resets(self, subresource: str) -> tuple[str, ...]:
        """Return the fields that each path leaves as they are: the signer's, the approver's, or both."""
        return _RESETS[subresource]

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new request."""
        spec = obj["spec"]
        errors = [*_request_faults(spec.get("request") or ""), *_usage_faults(spec.get("usages") or [])]
        errors += _signer_faults(spec.get("signerName") or "")
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < _SHORTEST_SECONDS:
            why = "may not specify a duration less than 600 seconds (10 minutes)"
            errors.append(invalid("spec.expirationSeconds", seconds, why))
        return errors

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return no field errors: `prepare_update` keeps the stored spec and status."""
        return []

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of a status that an approver or a signer writes."""
        status, before = new.get("status") or {}, old.get("status") or {}
        conditions = status.get("conditions") or []
        errors = _condition_faults(conditions)
        counts = Counter(one.get("type", "") for one in conditions)
        kept = Counter(one["type"] for one in before.get("conditions") or ())
        errors += [
            forbidden(_CONDITIONS, f'updates may not remove a condition of type "{name}"')
            for name in (APPROVED, DENIED, FAILED)
            if counts[name] < kept[name]
        ]
        certificate = status.get("certificate") or ""
        if before.get("certificate") and certificate != before["certificate"]:
            errors.append(forbidden(_CERTIFICATE, "updates may not modify existing certificate content"))
        elif certificate and b"-----BEGIN CERTIFICATE-----" not in b64decode(certificate):
            why = "must contain at least one CERTIFICATE PEM block"
            errors.append(invalid(_CERTIFICATE, "<certificate data>", why))
        return errors


def parse_request(encoded: str) -> "CertificateSigningRequest | None":
    """Return the PKCS#10 request that is base64 of PEM; None where the extra `embedded` is not installed.

    Raises:
        ValueError: The text has no PKCS#10 request.
    """
    text = b64decode(encoded)
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in text:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    if find_spec("cryptography") is None:
        return None
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415  # 50 ms, only for such requests
    from cryptography.x509 import load_pem_x509_csr  # noqa: PLC0415  # see above

    try:
        request = load_pem_x509_csr(text)
        is_signed, _ = request.is_signature_valid, request.subject
    except (TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise ValueError("asn1: structure error: malformed certificate request") from error
    if not is_signed:
        raise ValueError("x509: signature does not match the key of the certificate request")
    return request


def _request_faults(encoded: str) -> list[FieldError]:
    try:
        parse_request(encoded)
    except ValueError as error:
        return [invalid("spec.request", encoded or None, str(error))]
    return []


def _usage_faults(usages: list[str]) -> list[FieldError]:
    errors = [] if usages else [required("spec.usages")]
    for place, usage in enumerate(usages):
        field = f"spec.usages[{place}]"
        if usage not in _USAGES:
            errors.append(not_supported(field, usage, _USAGES))
    for place, usage in enumerate(usages):
        if usage in usages[:place]:
            errors.append(duplicate(f"spec.usages[{place}]", usage))
    return errors


def _signer_faults(name: str) -> list[FieldError]:
    field = "spec.signerName"
    if name == _LEGACY_SIGNER:
        return [invalid(field, name, "the legacy signerName is not allowed via this API version")]
    if not name:
        return [required(field)]
    if name.count("/") != 1:
        why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(field, name, why)]
    domain, _, path = name.partition("/")
    errors = [invalid(field, domain, reason) for reason in dns_subdomain(domain)]
    if domain and not errors and "." not in domain:
        errors.append(invalid(field, domain, "should be a domain with at least two segments separated by dots"))
    return errors + [invalid(field, path, reason) for reason in dns_subdomain(path)]


def _condition_faults(conditions: list[Manifest]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: list[str] = []
    for place, condition in enumerate(conditions):
        name, status, field = condition.get("type", ""), condition.get("status", ""), f"{_CONDITIONS}[{place}]"
        if not name:
            errors.append(required(f"{field}.type"))
        allowed = ("True",) if name in (APPROVED, DENIED, FAILED) else ("False", "True", "Unknown")
        if not status:
            errors.append(required(f"{field}.status"))
        elif status not in allowed:
            errors.append(not_supported(f"{field}.status", status, allowed))
        if {name, *seen} >= {APPROVED, DENIED} and name in (APPROVED, DENIED) and name not in seen:
            errors.append(invalid(_CONDITIONS, name, "Approved and Denied conditions are mutually exclusive"))
        if name in seen:
            errors.append(duplicate(f"{field}.type", name))
        seen.append(name)
    return errors
