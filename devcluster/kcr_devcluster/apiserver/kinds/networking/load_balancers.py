"""Validation of the status of load balancers, which Services and Ingresses have.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidateLoadBalancerStatus;
pkg/apis/networking/validation/validation.go, ValidateIngressLoadBalancerStatus.
"""

from kcr_devcluster.apiserver.kinds.formats import check_address, parse_address
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden, invalid, not_supported, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_subdomain

_FIELD = "status.loadBalancer.ingress"
_MODES = ("Proxy", "VIP")


def check_ingress_status(obj: Manifest) -> list[FieldError]:
    """Return the field errors of the addresses of an Ingress."""
    return [
        error for position, point in enumerate(_points(obj)) for error in _check_point(point, f"{_FIELD}[{position}]")
    ]


def check_service_status(obj: Manifest) -> list[FieldError]:
    """Return the field errors of the addresses of a Service: only load balancers have some."""
    if obj["spec"].get("type") != "LoadBalancer":
        return [forbidden(_FIELD, "may only be used when `spec.type` is 'LoadBalancer'")] if _points(obj) else []
    return check_ingress_status(obj) + [
        error for position, point in enumerate(_points(obj)) for error in _check_mode(point, f"{_FIELD}[{position}]")
    ]


def default_modes(obj: Manifest) -> None:
    """Fill in how traffic to the addresses of a load balancer arrives."""
    for point in _points(obj):
        if point.get("ip"):
            point.setdefault("ipMode", "VIP")


def _points(obj: Manifest) -> list[Manifest]:
    found: list[Manifest] = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return found


def _check_point(point: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if address := point.get("ip"):
        errors += check_address(f"{field}.ip", address)
    if host := point.get("hostname"):
        errors += [invalid(f"{field}.hostname", host, reason) for reason in dns_subdomain(host)]
        if parse_address(host) is not None:
            errors.append(invalid(f"{field}.hostname", host, "must be a DNS name, not an IP address"))
    return errors


def _check_mode(point: Manifest, field: str) -> list[FieldError]:
    mode = point.get("ipMode")
    if mode is None:
        return [required(f"{field}.ipMode", "must be specified when `ip` is set")] if point.get("ip") else []
    if not point.get("ip"):
        return [forbidden(f"{field}.ipMode", "may not be specified when `ip` is not set")]
    return [] if mode in _MODES else [not_supported(f"{field}.ipMode", mode, _MODES)]
