"""Validation of pod specs and pod templates.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidatePodSpec and ValidatePodTemplateSpec.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kcr_devcluster.apiserver.kinds.pods.validation.annotations import check_pod_annotations
from kcr_devcluster.apiserver.kinds.pods.validation.containers import check_containers, check_ephemeral_containers
from kcr_devcluster.apiserver.kinds.pods.validation.network import check_dns, check_host_aliases, check_host_ports
from kcr_devcluster.apiserver.kinds.pods.validation.resources import (
    check_pod_claims,
    check_pod_resources,
    check_resources,
)
from kcr_devcluster.apiserver.kinds.pods.validation.scheduling import (
    check_affinity,
    check_gates,
    check_spread,
    check_tolerations,
)
from kcr_devcluster.apiserver.kinds.pods.validation.security import (
    check_os,
    check_pod_security,
    check_shared_namespaces,
)
from kcr_devcluster.apiserver.kinds.pods.validation.volumes import check_volumes
from kcr_devcluster.apiserver.kinds.pods.validation.windows import check_host_processes
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden, invalid, one_of, required, too_long
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import (
    check_annotations,
    check_labels,
    check_selector,
    dns_label,
    dns_subdomain,
    qualified_name,
    selects,
)

_RESTARTS = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_LONGEST = 2**31 - 1
_LONGEST_HOSTNAME = 64


def check_template(template: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a pod template; labels and annotations are reported without `metadata`."""
    spec = template["spec"]
    errors = check_metadata(template, field) + check_pod_spec(spec, f"{field}.spec")
    if spec.get("ephemeralContainers"):
        words = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{field}.spec.ephemeralContainers", words))
    return errors


def check_metadata(template: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of the labels and annotations of a pod template."""
    metadata = template.get("metadata") or {}
    errors = check_labels(metadata.get("labels") or {}, f"{field}.labels")
    if annotations := metadata.get("annotations"):
        errors += check_annotations(annotations, f"{field}.annotations")
        errors += check_pod_annotations(annotations, template["spec"], f"{field}.annotations")
    return errors


def check_selector_of(spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of the selector, and of template labels it does not pick."""
    selector = spec.get("selector")
    if selector is None:
        errors, picks = [required(f"{field}.selector")], False
    else:
        errors = check_selector(selector, f"{field}.selector")
        # A selector that is invalid is not held against the labels.
        picks = bool(errors) or selects(selector, spec["template"]["metadata"].get("labels") or {})
    if not picks:
        labels = spec["template"]["metadata"].get("labels")
        words = "`selector` does not match template `labels`"
        errors.append(invalid(f"{field}.template.metadata.labels", labels, words))
    return errors


def check_pod_spec(spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of the spec of a pod or of a pod template."""
    volumes, errors = check_volumes(spec.get("volumes") or (), f"{field}.volumes")
    errors += check_containers(spec, volumes, field)
    if spec.get("ephemeralContainers"):
        errors += check_ephemeral_containers(spec, volumes, field)
    errors += check_host_ports(spec, field)
    if (restart := spec.get("restartPolicy", "")) not in _RESTARTS:
        errors += one_of(f"{field}.restartPolicy", restart, _RESTARTS)
    if (policy := spec.get("dnsPolicy", "")) not in _DNS_POLICIES:
        errors += one_of(f"{field}.dnsPolicy", policy, _DNS_POLICIES)
    if policy == "None" or "dnsConfig" in spec:
        errors += check_dns(spec.get("dnsConfig"), policy, f"{field}.dnsConfig")
    if spec.get("terminationGracePeriodSeconds") is None:
        errors.append(required(f"{field}.terminationGracePeriodSeconds"))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _LONGEST:
        words = f"must be between 1 and {_LONGEST}, inclusive"
        errors.append(invalid(f"{field}.activeDeadlineSeconds", deadline, words))
    # Most pods have few of these fields. The order of the errors is that of the rules.
    for name in sorted(spec.keys() & _ORDER.keys(), key=_ORDER.__getitem__):
        if (value := spec[name]) or (name in _EVEN_EMPTY and value is not None):
            errors += _RULES[name](value, spec, f"{field}.{name}")
    if not _SHARED.isdisjoint(spec):
        errors += check_shared_namespaces(spec, field)
    return errors + check_host_processes(spec, field)


def check_images(spec: Manifest) -> list[FieldError]:
    """Return the field errors of images that only pods have: templates may have space around one, or no reference."""
    volumes = enumerate(spec.get("volumes") or ())
    return [
        required(f"spec.volumes[{position}].image.reference")
        for position, volume in volumes
        if volume.get("image") is not None and not volume["image"].get("reference")
    ] + [
        invalid(f"spec.{kind}[{position}].image", image, "must not have leading or trailing whitespace")
        for kind in ("containers", "initContainers")
        for position, container in enumerate(spec.get(kind) or ())
        if (image := container.get("image") or "") != image.strip()
    ]


def _is(rule: Callable[[str], tuple[str, ...]]) -> "_Rule":
    return lambda value, _, field: [invalid(field, value, reason) for reason in rule(value)]


def _of(rule: Callable[[Any, str], list[FieldError]]) -> "_Rule":
    return lambda value, _, field: rule(value, field)


def _check_readiness_gates(gates: list[Manifest], _: Manifest, field: str) -> list[FieldError]:
    return [
        invalid(f"{field}[{position}].conditionType", gate.get("conditionType", ""), reason)
        for position, gate in enumerate(gates)
        for reason in qualified_name(gate.get("conditionType", ""))
    ]


def _check_preemption(policy: str, _: Manifest, field: str) -> list[FieldError]:
    return one_of(field, policy, _PREEMPTION_POLICIES)


def _check_hostname(name: str, spec: Manifest, field: str) -> list[FieldError]:
    errors = [
        forbidden(field, f"may not be specified when {member} is true")
        for member in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(member)
    ]
    errors += [too_long(field, _LONGEST_HOSTNAME)] if len(name.encode()) > _LONGEST_HOSTNAME else []
    return errors + [invalid(field, name, reason) for reason in dns_subdomain(name)]


def _check_overhead(overhead: Manifest, _: Manifest, field: str) -> list[FieldError]:
    return check_resources({"limits": overhead}, (), field)


def _check_os(os: Manifest, spec: Manifest, field: str) -> list[FieldError]:
    return check_os(os, spec, field.removesuffix(".os"))


def _check_resources(resources: Manifest, spec: Manifest, field: str) -> list[FieldError]:
    return check_pod_resources(resources, spec, field)


_Rule = Callable[[Any, Manifest, str], list[FieldError]]
# By the member that they are about: (value, spec, path). A pod without it does not pay for its rules.
_RULES: Mapping[str, _Rule] = {
    "resourceClaims": _of(check_pod_claims),
    "resources": _check_resources,
    "nodeSelector": _of(check_labels),
    "securityContext": check_pod_security,
    "affinity": _of(check_affinity),
    "readinessGates": _check_readiness_gates,
    "schedulingGates": _of(check_gates),
    "topologySpreadConstraints": _of(check_spread),
    "serviceAccountName": _is(dns_subdomain),
    "nodeName": _is(dns_subdomain),
    "hostname": _is(dns_label),
    "hostnameOverride": _check_hostname,
    "subdomain": _is(dns_label),
    "tolerations": _of(check_tolerations),
    "hostAliases": _of(check_host_aliases),
    "priorityClassName": _is(dns_subdomain),
    "runtimeClassName": _is(dns_subdomain),
    "preemptionPolicy": _check_preemption,
    "overhead": _check_overhead,
    "os": _check_os,
}
_ORDER = {name: place for place, name in enumerate(_RULES)}
# Go holds these by a pointer: empty, they are invalid.
_EVEN_EMPTY = frozenset({"os", "runtimeClassName", "hostnameOverride", "preemptionPolicy"})
_SHARED = frozenset({"shareProcessNamespace", "hostUsers"})
