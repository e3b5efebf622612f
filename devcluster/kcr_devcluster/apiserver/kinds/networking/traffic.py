"""The strategies of NetworkPolicies and EndpointSlices.

Source: kubernetes/pkg/apis/networking/validation/validation.go, ValidateNetworkPolicySpec; pkg/apis/networking/v1 and
pkg/apis/discovery/v1, defaults.go; pkg/apis/discovery/validation/validation.go, ValidateEndpointSlice.
"""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from kcr_devcluster.apiserver.kinds.formats import (
    LOOPBACK_MESSAGE,
    check_address,
    check_cidr,
    check_reachable_address,
    parse_address,
    parse_cidr,
    port_number,
)
from kcr_devcluster.apiserver.kinds.generic import Conform, Rules
from kcr_devcluster.apiserver.protocol.field_errors import (
    IMMUTABLE,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import (
    check_selector,
    dns_label,
    dns_subdomain,
    label_value,
    port_name,
    qualified_name,
)

_PROTOCOLS, _SORTED_PROTOCOLS = ("TCP", "UDP", "SCTP"), ("SCTP", "TCP", "UDP")
_DIRECTIONS = ("Ingress", "Egress")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
# The slices of the cluster's own controller.
_MANAGED_BY, _CONTROLLER = "endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_HINTS = 1000, 100, 20_000, 8


def _default_policy(obj: Manifest, conform: Conform) -> None:
    """Fill in the directions and the protocol of ports."""
    conform(obj)
    spec = obj.setdefault("spec", {})
    spec.setdefault("podSelector", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = list(_DIRECTIONS if spec.get("egress") else _DIRECTIONS[:1])
    for rule, _, _ in _rules(spec):
        for port in rule.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _validate_policy(obj: Manifest) -> list[FieldError]:
    """Return the field errors of a NetworkPolicy."""
    spec = obj["spec"]
    errors = check_selector(spec["podSelector"], "spec.podSelector")
    for rule, field, peers in _rules(spec):
        for position, port in enumerate(rule.get("ports") or ()):
            errors += _check_policy_port(port, f"{field}.ports[{position}]")
        for position, peer in enumerate(rule.get(peers) or ()):
            errors += _check_peer(peer, f"{field}.{peers}[{position}]")
    kinds = spec["policyTypes"]
    if len(kinds) > len(_DIRECTIONS):
        return [*errors, invalid("spec.policyTypes", kinds, "may not specify more than two policyTypes")]
    return errors + [
        not_supported(f"spec.policyTypes[{position}]", kind, _DIRECTIONS)
        for position, kind in enumerate(kinds)
        if kind not in _DIRECTIONS
    ]


def _rules(spec: Manifest) -> Iterator[tuple[Manifest, str, str]]:
    """Yield the rules of both directions, with their paths and the field of their peers."""
    for name, peers in (("ingress", "from"), ("egress", "to")):
        for position, rule in enumerate(spec.get(name) or ()):
            yield rule, f"spec.{name}[{position}]", peers


def _check_policy_port(port: Manifest, field: str) -> list[FieldError]:
    number, end, protocol = port.get("port"), port.get("endPort"), port["protocol"]
    errors = [] if protocol in _PROTOCOLS else [not_supported(f"{field}.protocol", protocol, _PROTOCOLS)]
    if number is None or isinstance(number, str):
        words = "is not specified" if number is None else "is non-numeric"
        if end is not None:
            errors.append(invalid(f"{field}.endPort", end, f"may not be specified when `port` {words}"))
        return errors + [
            invalid(f"{field}.port", number, reason) for reason in (() if number is None else port_name(number))
        ]
    errors += port_number(f"{field}.port", number)
    if end is not None and end < number:
        # Upstream shows the port.
        errors.append(invalid(f"{field}.endPort", number, "must be greater than or equal to `port`"))
    return errors if end is None else errors + port_number(f"{field}.endPort", end)


def _check_peer(peer: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    selectors = [name for name in ("podSelector", "namespaceSelector") if peer.get(name) is not None]
    for name in selectors:
        errors += check_selector(peer[name], f"{field}.{name}")
    block = peer.get("ipBlock")
    if block is None:
        return errors if selectors else [required(field, "must specify a peer")]
    errors += _check_block(block, f"{field}.ipBlock")
    return errors if not selectors else [*errors, forbidden(field, "may not specify both ipBlock and another peer")]


def _check_block(block: Manifest, field: str) -> list[FieldError]:
    cidr = block.get("cidr")
    if not cidr:
        return [required(f"{field}.cidr")]
    errors, whole = check_cidr(f"{field}.cidr", cidr), parse_cidr(cidr)
    for position, text in enumerate(block.get("except") or () if whole is not None else ()):
        place = f"{field}.except[{position}]"
        errors += check_cidr(place, text)
        part = parse_cidr(text)
        if part is not None and whole is not None and not _is_strict_part(part.network, whole.network):
            errors.append(invalid(place, text, "must be a strict subset of `cidr`"))
    return errors


def _is_strict_part(part: IPv4Network | IPv6Network, whole: IPv4Network | IPv6Network) -> bool:
    return part.network_address in whole and part.prefixlen > whole.prefixlen


def _default_slice(obj: Manifest, conform: Conform) -> None:
    """Fill in the name and the protocol of ports."""
    conform(obj)
    for port in obj.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")
    for endpoint in obj.get("endpoints") or ():
        # Of older versions.
        endpoint.pop("deprecatedTopology", None)


def _validate_slice(obj: Manifest) -> list[FieldError]:
    """Return the field errors of an EndpointSlice."""
    return [*_check_slice(obj), *_check_endpoints(obj)]


def _check_slice(obj: Manifest) -> list[FieldError]:
    """Return the field errors of an EndpointSlice apart from those of its endpoints."""
    kind = obj.get("addressType")
    errors: list[FieldError] = []
    if not kind:
        errors.append(required("addressType"))
    elif kind not in _ADDRESS_TYPES:
        errors.append(not_supported("addressType", kind, _ADDRESS_TYPES))
    return errors + _check_ports(obj.get("ports") or ())


def _check_endpoints(obj: Manifest) -> list[FieldError]:
    endpoints = obj.get("endpoints") or ()
    if len(endpoints) > _MOST_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)]
    errors: list[FieldError] = []
    for position, endpoint in enumerate(endpoints):
        errors += _check_endpoint(endpoint, obj.get("addressType") or "", f"endpoints[{position}]")
    if ((obj.get("metadata") or {}).get("labels") or {}).get(_MANAGED_BY) == _CONTROLLER:
        # Those of pods that are processes of this machine.
        errors = [error for error in errors if LOOPBACK_MESSAGE not in error.message]
    return errors


def _validate_update_slice(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update; endpoints that are not changed have none."""
    kind, errors = new.get("addressType"), _check_slice(new)
    if new.get("endpoints") != old.get("endpoints"):
        errors += _check_endpoints(new)
    return errors if kind == old.get("addressType") else [*errors, invalid("addressType", kind, IMMUTABLE)]


def _check_endpoint(endpoint: Manifest, kind: str, field: str) -> list[FieldError]:
    addresses, place = endpoint.get("addresses") or (), f"{field}.addresses"
    errors: list[FieldError] = []
    if not addresses:
        errors.append(required(place, "must contain at least 1 address"))
    elif len(addresses) > _MOST_ADDRESSES:
        errors.append(too_many(place, len(addresses), _MOST_ADDRESSES))
    for position, address in enumerate(addresses):
        errors += _check_endpoint_address(address, kind, f"{place}[{position}]")
    if (name := endpoint.get("hostname")) is not None:
        errors += [invalid(f"{field}.hostname", name, reason) for reason in dns_label(name)]
    if (name := endpoint.get("nodeName")) is not None:
        errors += [invalid(f"{field}.nodeName", name, reason) for reason in dns_subdomain(name)]
    return errors + _check_hints(endpoint.get("hints") or {}, f"{field}.hints")


def _check_hints(hints: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for member, rule in (("forZones", label_value), ("forNodes", dns_subdomain)):
        named = [one.get("name", "") for one in hints.get(member) or ()]
        if len(named) > _MOST_HINTS:
            return [*errors, too_many(f"{field}.{member}", len(named), _MOST_HINTS)]
        for position, name in enumerate(named):
            path = f"{field}.{member}[{position}].name"
            errors += [duplicate(path, name)] if name in named[:position] else []
            errors += [invalid(path, name, reason) for reason in rule(name)]
    return errors


def _check_endpoint_address(address: str, kind: str, field: str) -> list[FieldError]:
    if kind == "FQDN" and not address:
        return [required(field)]
    if kind == "FQDN":
        reasons = list(dns_subdomain(address.removesuffix(".")))
        if not reasons and "." not in address.removesuffix("."):
            reasons = ["should be a domain with at least two segments separated by dots"]
        return [invalid(field, address, reason) for reason in reasons]
    family = {"IPv4": IPv4Address, "IPv6": IPv6Address}.get(kind)
    if family is None:
        return []
    found = parse_address(address)
    if found is None:
        return check_address(field, address)
    errors = check_reachable_address(field, address)
    if isinstance(found, family):
        return errors
    return [invalid(field.rpartition("[")[0], address, f"must be an {kind} address"), *errors]


def _check_ports(ports: Sequence[Manifest]) -> list[FieldError]:
    if len(ports) > _MOST_PORTS:
        return [too_many("ports", len(ports), _MOST_PORTS)]
    errors: list[FieldError] = []
    names: set[str] = set()
    for position, port in enumerate(ports):
        field, name, protocol = f"ports[{position}]", port["name"], port["protocol"]
        errors += [invalid(f"{field}.name", name, reason) for reason in (dns_label(name) if name else ())]
        errors += [duplicate(f"{field}.name", name)] if name in names else []
        names.add(name)
        # Upstream validates no number here.
        if protocol not in _PROTOCOLS:
            errors.append(not_supported(f"{field}.protocol", protocol, _SORTED_PROTOCOLS))
        if (application := port.get("appProtocol")) is not None:
            errors += [invalid(f"{field}.appProtocol", application, reason) for reason in qualified_name(application)]
    return errors


# NetworkPolicies: for which pods, from and to whom.
NETWORK_POLICIES = Rules(
    stored_as=("networking.k8s.io/v1", "NetworkPolicy"),
    default=_default_policy,
    validate=_validate_policy,
)
# EndpointSlices: addresses of one type, and their ports.
ENDPOINT_SLICES = Rules(
    stored_as=("discovery.k8s.io/v1", "EndpointSlice"),
    default=_default_slice,
    is_used=True,
    content=("addressType", "endpoints", "ports"),
    has_labels=True,
    validate=_validate_slice,
    validate_update=_validate_update_slice,
)
