"""Validation of Services.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidateService and ValidateServiceClusterIPsRelatedFields.
"""

from collections.abc import Sequence

from kcr_devcluster.apiserver.kinds.formats import (
    check_address,
    check_cidr,
    check_reachable_address,
    parse_address,
    port_number,
)
from kcr_devcluster.apiserver.kinds.pods.validation.probes import check_port
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import check_labels, dns_label, dns_subdomain, qualified_name

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_POLICIES = ("Cluster", "Local")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_LONGEST_AFFINITY = 86_400
_ONLY_BALANCED = "may only be used when `type` is 'LoadBalancer'"
_ADDRESSES = "spec.clusterIPs"


def is_headless(spec: Manifest) -> bool:
    """Return whether a Service has no address of its own on purpose."""
    return (spec.get("clusterIPs") or ()) == ["None"]


def check_service(service: Manifest) -> list[FieldError]:
    """Return the field errors of a Service."""
    spec = service["spec"]
    if errors := _check_configured(spec):
        return errors
    ports: Sequence[Manifest] = spec.get("ports") or ()
    kind = spec["type"]
    if not ports and not is_headless(spec) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if is_headless(spec) and kind in ("LoadBalancer", "NodePort"):
        words = f"may not be set to 'None' for {kind} services"
        errors.append(invalid(f"{_ADDRESSES}[0]", "None", words))
    if kind == "ExternalName":
        errors += _check_external_name(spec)
    errors += _check_ports(ports, kind)
    errors += check_labels(spec.get("selector") or {}, "spec.selector")
    errors += _check_affinity(spec)
    for position, address in enumerate(spec.get("externalIPs") or ()):
        errors += check_reachable_address(f"spec.externalIPs[{position}]", address)
    if kind not in _TYPES:
        errors.append(not_supported("spec.type", kind, _TYPES))
    return errors + _check_balancer(spec) + _check_policies(spec)


def _check_configured(spec: Manifest) -> list[FieldError]:
    """Return the field errors of addresses and their families, before all others: this cluster has IPv4 alone.

    Source: kubernetes/pkg/registry/core/service/storage/alloc.go, initIPFamilyFields.
    """
    if spec["type"] == "ExternalName":
        return []
    if errors := _check_addresses(spec):
        return errors
    if is_headless(spec) and not spec.get("selector"):
        # It may have both families, whatever the cluster has.
        return []
    policy, families = spec.get("ipFamilyPolicy") or "SingleStack", spec.get("ipFamilies") or ()
    if policy == "SingleStack" and len(set(families)) > 1:
        words = "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
        return [invalid("spec.ipFamilyPolicy", policy, words)]
    words = "this cluster is not configured for dual-stack services"
    errors = [invalid("spec.ipFamilyPolicy", policy, words)] if policy == "RequireDualStack" else []
    return errors + [
        invalid(f"spec.ipFamilies[{position}]", family, "not configured on this cluster")
        for position, family in enumerate(families)
        if family == "IPv6"
    ]


def service_warnings(spec: Manifest) -> list[str]:
    """Return the warnings about a Service that is valid.

    Source: kubernetes/pkg/api/service/warnings.go.
    """
    if spec.get("trafficDistribution") == "PreferClose":
        return ['spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"']
    return []


def _check_external_name(spec: Manifest) -> list[FieldError]:
    words = "may not be set for ExternalName services"
    errors = [forbidden(f"spec.{name}", words) for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
              if spec.get(name)]  # fmt: skip
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        return [*errors, required("spec.externalName")]
    return errors + [invalid("spec.externalName", name, reason) for reason in dns_subdomain(name)]


def _check_ports(ports: Sequence[Manifest], kind: str) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for position, port in enumerate(ports):
        path, name = f"spec.ports[{position}]", port.get("name", "")
        if name:
            errors += [invalid(f"{path}.name", name, reason) for reason in dns_label(name)]
            errors += [duplicate(f"{path}.name", name)] if name in names else []
            names.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{path}.name"))
        errors += _check_port(port, path)
    if kind == "ClusterIP":
        words = "may not be used when `type` is 'ClusterIP'"
        errors += [forbidden(f"spec.ports[{position}].nodePort", words)
                   for position, port in enumerate(ports) if port.get("nodePort")]  # fmt: skip
    return errors + _check_twice(ports)


def _check_port(port: Manifest, field: str) -> list[FieldError]:
    errors = port_number(f"{field}.port", port.get("port", 0))
    protocol = port.get("protocol", "")
    if protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{field}.protocol", protocol, _PROTOCOLS))
    errors += check_port(port.get("targetPort"), f"{field}.targetPort")
    application = port.get("appProtocol")
    if application is not None:
        errors += [invalid(f"{field}.appProtocol", application, reason) for reason in qualified_name(application)]
    return errors


def _check_twice(ports: Sequence[Manifest]) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, suffix in (("nodePort", ".nodePort"), ("port", "")):
        seen: set[tuple[str, int]] = set()
        for position, port in enumerate(ports):
            key = port.get("protocol", ""), port.get(name) or 0
            if key in seen:
                shown = {"protocol": key[0], "port": key[1]}
                taken = invalid(f"spec.ports[{position}].nodePort", key[1], "provided port is already allocated")
                errors.append(taken if suffix else duplicate(f"spec.ports[{position}]", shown))
            if key[1] or not suffix:
                seen.add(key)
    return errors


def _check_affinity(spec: Manifest) -> list[FieldError]:
    affinity = spec.get("sessionAffinity", "")
    if affinity not in _AFFINITIES:
        return [not_supported("spec.sessionAffinity", affinity, _AFFINITIES)]
    if affinity == "None":
        return []
    seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
    if 0 < seconds <= _LONGEST_AFFINITY:
        return []
    words = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
    return [invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, words)]


def _check_addresses(spec: Manifest) -> list[FieldError]:
    first: str = spec.get("clusterIP") or ""
    addresses: list[str] = spec.get("clusterIPs") or []
    errors: list[FieldError] = []
    if first and addresses and addresses[0] != first:
        errors.append(invalid(_ADDRESSES, addresses, "first value must match `clusterIP`"))
    if not first and addresses:
        errors.append(invalid(_ADDRESSES, addresses, "must be empty when `clusterIP` is not specified"))
    errors += _check_families(spec)
    wrong: list[FieldError] = []
    if len(addresses) > 1 and addresses[0] == "None":
        wrong.append(invalid(_ADDRESSES, addresses, "'None' must be the first and only value"))
    for position, address in enumerate(addresses):
        if position or address != "None":
            wrong += check_address(f"{_ADDRESSES}[{position}]", address)
    if len(addresses) > 2:
        errors.append(invalid(_ADDRESSES, addresses, "may only hold up to 2 values"))
    return errors + wrong if wrong or is_headless(spec) else errors + _check_stacks(addresses, spec)


def _check_families(spec: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    families: list[str] = spec.get("ipFamilies") or []
    for position, family in enumerate(families):
        path = f"spec.ipFamilies[{position}]"
        errors += [] if family in _FAMILIES else [not_supported(path, family, _FAMILIES)]
        errors += [duplicate(path, family)] if family in families[:position] else []
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in _FAMILY_POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, _FAMILY_POLICIES))
    return errors


def _check_stacks(addresses: list[str], spec: Manifest) -> list[FieldError]:
    versions = [found.version for one in addresses if (found := parse_address(one)) is not None]
    errors: list[FieldError] = []
    if len(set(versions)) < len(versions):
        words = "may specify no more than one IP for each IP family"
        errors.append(invalid(_ADDRESSES, addresses, words))
    for position, (version, family) in enumerate(zip(versions, spec.get("ipFamilies") or (), strict=False)):
        if family != f"IPv{version}":
            words = f"expected an {family} value as indicated by `ipFamilies[{position}]`"
            errors.append(invalid(f"{_ADDRESSES}[{position}]", addresses[position], words))
    return errors


def _check_balancer(spec: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    balanced = spec["type"] == "LoadBalancer"
    if ranges := spec.get("loadBalancerSourceRanges"):
        path = "spec.LoadBalancerSourceRanges"
        errors += [] if balanced else [forbidden(path, _ONLY_BALANCED)]
        for position, one in enumerate(ranges):
            errors += check_cidr(f"{path}[{position}]", one.strip())
    if spec.get("allocateLoadBalancerNodePorts") is not None and not balanced:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCED))
    name = spec.get("loadBalancerClass")
    if name is None:
        return errors
    if not balanced:
        return [*errors, forbidden("spec.loadBalancerClass", _ONLY_BALANCED)]
    return errors + [invalid("spec.loadBalancerClass", name, reason) for reason in qualified_name(name)]


def _check_policies(spec: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    kind, outer = spec["type"], spec.get("externalTrafficPolicy") or ""
    reachable = kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if outer and not reachable:
        words = "may only be set for externally-accessible services"
        errors.append(invalid("spec.externalTrafficPolicy", outer, words))
    elif outer and outer not in _POLICIES:
        errors.append(not_supported("spec.externalTrafficPolicy", outer, _POLICIES))
    health = spec.get("healthCheckNodePort")
    if health:
        if kind == "LoadBalancer" and outer == "Local":
            errors += port_number("spec.healthCheckNodePort", health)
        else:
            words = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
            errors.append(invalid("spec.healthCheckNodePort", health, words))
    for name, supported in (("internalTrafficPolicy", _POLICIES), ("trafficDistribution", _DISTRIBUTIONS)):
        policy = spec.get(name)
        if policy is not None and policy not in supported:
            errors.append(not_supported(f"spec.{name}", policy, supported))
    return errors
