"""The strategy of Endpoints.

Source: kubernetes/pkg/apis/core/v1/defaults.go, SetDefaults_Endpoints; pkg/apis/core/validation/validation.go,
ValidateEndpoints.
"""

from kcr_devcluster.apiserver.kinds.formats import check_address, check_reachable_address, parse_address, port_number
from kcr_devcluster.apiserver.kinds.generic import Conform, Rules
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid, not_supported, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_label, dns_subdomain, qualified_name

_PROTOCOLS = ("SCTP", "TCP", "UDP")


def _default(obj: Manifest, conform: Conform) -> None:
    """Fill in the protocol of ports."""
    conform(obj)
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            port["protocol"] = port.get("protocol") or "TCP"


def _validate(obj: Manifest) -> list[FieldError]:
    """Return the field errors of Endpoints."""
    errors: list[FieldError] = []
    for position, subset in enumerate(obj.get("subsets") or ()):
        errors += _check_subset(subset, f"subsets[{position}]")
    return errors


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update."""
    return _validate(new)


def _check_subset(subset: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        errors.append(required(field, "must specify `addresses` or `notReadyAddresses`"))
    for member in ("addresses", "notReadyAddresses"):
        for position, address in enumerate(subset.get(member) or ()):
            errors += _check_address(address, f"{field}.{member}[{position}]")
    ports = subset.get("ports") or ()
    for position, port in enumerate(ports):
        errors += _check_port(port, f"{field}.ports[{position}]", needs_name=len(ports) > 1)
    return errors


def _check_address(address: Manifest, field: str) -> list[FieldError]:
    place, text = f"{field}.ip", address.get("ip") or ""
    errors = check_address(place, text)
    if name := address.get("hostname"):
        errors += [invalid(f"{field}.hostname", name, reason) for reason in dns_label(name)]
    if (name := address.get("nodeName")) is not None:
        errors += [invalid(f"{field}.nodeName", name, reason) for reason in dns_subdomain(name)]
    if parse_address(text) is None:
        # Upstream finds this twice.
        return [*errors, invalid(place, text, "must be a valid IP address")]
    return errors + check_reachable_address(place, text)


def _check_port(port: Manifest, field: str, *, needs_name: bool) -> list[FieldError]:
    name, protocol = port.get("name") or "", port["protocol"]
    errors = [invalid(f"{field}.name", name, reason) for reason in (dns_label(name) if name else ())]
    if needs_name and not name:
        errors.append(required(f"{field}.name"))
    errors += port_number(f"{field}.port", port.get("port") or 0)
    if protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{field}.protocol", protocol, _PROTOCOLS))
    if (application := port.get("appProtocol")) is not None:
        errors += [invalid(f"{field}.appProtocol", application, reason) for reason in qualified_name(application)]
    return errors


# Endpoints: the addresses behind a Service, as written by hand or by older controllers.
ENDPOINTS = Rules(
    stored_as=("v1", "Endpoints"),
    default=_default,
    validate=_validate,
    validate_update=_validate_update,
)
