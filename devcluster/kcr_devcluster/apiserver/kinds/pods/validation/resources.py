"""Validation of the resources of containers and pods, and the quality of service that follows from them.

Source: kubernetes/pkg/apis/core/validation/validation.go, validateResourceRequirements, validateResourceClaimNames
and validatePodResources; pkg/apis/core/helper/helpers.go; pkg/apis/core/helper/qos/qos.go, ComputePodQOS.
"""

from collections.abc import Callable, Sequence

from kcr_devcluster.apiserver.kinds.pods.defaults import containers_of, is_of_pods
from kcr_devcluster.apiserver.protocol.field_errors import (
    NON_NEGATIVE,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_label, dns_subdomain, qualified_name
from kcr_devcluster.apiserver.schema.quantities import amount, whole

# Valid resource names without a slash: those of containers, and all of them.
_OF_CONTAINERS = ("cpu", "memory", "ephemeral-storage")
COMPUTED = tuple(f"{kind}{name}" for kind in ("", "requests.", "limits.") for name in _OF_CONTAINERS)
_OBJECTS = (
    "configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services",
    "services.loadbalancers", "services.nodeports",
)  # fmt: skip
OF_QUOTAS = frozenset((*_OBJECTS, *COMPUTED, "requests.storage"))
_STANDARD = OF_QUOTAS | {"storage"}
_HUGE_PAGES = "hugepages-"
_FOR_QOS = ("cpu", "memory")
_OF_PODS = ("cpu", _HUGE_PAGES, "memory")


def is_native(name: str) -> bool:
    """Return whether a resource is Kubernetes' own: any other is an extended resource."""
    return "/" not in name or "kubernetes.io/" in name


def _is_extended(name: str) -> bool:
    """Return whether a resource is neither Kubernetes' own nor what is requested of another one."""
    return not is_native(name) and not name.startswith("requests.") and not qualified_name(f"requests.{name}")


def can_overcommit(name: str) -> bool:
    """Return whether limits of a resource may be above its requests."""
    return is_native(name) and not name.startswith(_HUGE_PAGES)


def check_resource_name(name: str, field: str) -> list[FieldError]:
    """Return the field errors of the name of any resource."""
    errors = [invalid(field, name, reason) for reason in qualified_name(name)]
    if not errors and "/" not in name and name not in _STANDARD and not is_huge(name):
        errors.append(invalid(field, name, "must be a standard resource type or fully qualified"))
    return errors


def is_huge(name: str) -> bool:
    """Return whether a resource is large pages of memory, in a container or in a quota."""
    return name.startswith((_HUGE_PAGES, "requests.hugepages-"))


def check_container_resource_name(name: str, field: str) -> list[FieldError]:
    """Return the field errors of the name of a resource of containers."""
    if name in _OF_CONTAINERS:
        return []
    errors = check_resource_name(name, field)
    if "/" not in name:
        if not name.startswith(_HUGE_PAGES):
            errors.append(invalid(field, name, "must be a standard resource for containers"))
    elif not is_native(name) and not _is_extended(name):
        errors.append(invalid(field, name, "doesn't follow extended resource name standard"))
    return errors


def _check_pod_resource_name(name: str, field: str) -> list[FieldError]:
    if is_of_pods(name):
        return []
    return check_resource_name(name, field) or [not_supported(field, name, _OF_PODS)]


def check_resources(
    resources: Manifest,
    claims: Sequence[Manifest],
    field: str,
    check_name: Callable[[str, str], list[FieldError]] = check_container_resource_name,
) -> list[FieldError]:
    """Return the field errors of limits, requests and claims.

    Args:
        resources: The requirements.
        claims: The resource claims of the pod.
        field: The path of the requirements.
        check_name: The rule for names of resources.
    """
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    errors = [error for name, value in limits.items()
              for error in (*check_name(name, f"{field}.limits[{name}]"),
                            *check_amount(name, value, f"{field}.limits[{name}]"),
                            *_check_pages(name, value, f"{field}.limits[{name}]"))]  # fmt: skip
    for name, value in requests.items():
        path = f"{field}.requests[{name}]"
        errors += check_name(name, path)
        errors += check_amount(name, value, path)
        errors += _check_request(name, value, limits.get(name), field)
        errors += _check_pages(name, value, path)
    names = limits.keys() | requests.keys()
    if names.isdisjoint(_FOR_QOS) and any(map(is_huge, names)):
        errors.append(forbidden(field, "HugePages require cpu or memory"))
    if wanted := resources.get("claims"):
        errors += _check_claims(wanted, [claim.get("name", "") for claim in claims], f"{field}.claims")
    return errors


def _check_request(name: str, value: str, limit: str | None, field: str) -> list[FieldError]:
    overcommit = can_overcommit(name)
    if limit is None:
        if overcommit:
            return []
        return [required(f"{field}.limits", "Limit must be set for non overcommitable resources")]
    requested, allowed = amount(value), amount(limit)
    if not overcommit and requested != allowed:
        return [invalid(f"{field}.requests", value, f"must be equal to {name} limit of {limit}")]
    if requested > allowed:
        return [invalid(f"{field}.requests", value, f"must be less than or equal to {name} limit of {limit}")]
    return []


def check_amount(name: str, value: str, field: str) -> list[FieldError]:
    """Return the field errors of an amount.

    Args:
        name: The resource.
        value: The amount.
        field: The path of the amount.
    """
    errors = [invalid(field, value, NON_NEGATIVE)] if amount(value) < 0 else []
    if not whole(value) and (name in _OBJECTS or _is_extended(name)):
        errors.append(invalid(field, value, "must be an integer"))
    return errors


def _check_pages(name: str, value: str, field: str) -> list[FieldError]:
    if name.startswith(_HUGE_PAGES) and not _is_multiple(value, name.removeprefix(_HUGE_PAGES)):
        return [invalid(field, value, f"{value} is not positive integer multiple of {name}")]
    return []


def _is_multiple(value: str, size: str) -> bool:
    try:
        page = amount(size)
    except ValueError:
        return False
    return page > 0 and whole(size) and amount(value) % page == 0


def _check_claims(wanted: Sequence[Manifest], known: Sequence[str], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, claim in enumerate(wanted):
        path, name, request = f"{field}[{position}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            errors.append(required(path))
            continue
        key = f"{name}/{request}" if request else name
        errors += [invalid(f"{path}.request", request, reason) for reason in dns_label(request)] if request else []
        if name in seen or key in seen or (not request and any(one.startswith(f"{name}/") for one in seen)):
            errors.append(duplicate(path, name if name in seen else key))
        seen.add(key)
        if name not in known:
            choice = f": {', '.join(sorted(known))}" if known else " which is empty"
            words = f"must be one of the names in pod.spec.resourceClaims{choice}"
            errors.append(not_found(path, name)._replace(detail=words))
    return errors


def check_pod_claims(claims: Sequence[Manifest], field: str) -> list[FieldError]:
    """Return the field errors of the resource claims of a pod."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, claim in enumerate(claims):
        path, name = f"{field}[{position}]", claim.get("name", "")
        if not name:
            errors.append(required(f"{path}.name"))
        elif name in seen:
            errors.append(duplicate(f"{path}.name", name))
        else:
            errors += [invalid(f"{path}.name", name, reason) for reason in dns_label(name)]
        seen.add(name)
        sources = [one for one in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(one) is not None]
        if len(sources) > 1:
            words = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(path, claim, words))
        elif not sources:
            words = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(path, claim, words))
        errors += [invalid(f"{path}.{source}", claim[source], reason)
                   for source in sources for reason in dns_subdomain(claim[source])]  # fmt: skip
    return errors


def check_pod_resources(resources: Manifest, spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of the resources of a pod as a whole.

    Args:
        resources: The requirements.
        spec: The pod's spec.
        field: The path of the requirements.
    """
    errors: list[FieldError] = []
    if (claims := resources.get("claims")) is not None:
        errors.append(forbidden(f"{field}.claims", "claims may not be set for Resources at pod-level"))
        known = [one.get("name", "") for one in spec.get("resourceClaims") or ()]
        errors += _check_claims(claims, known, f"{field}.claims")
    limits = resources.get("limits") or {}
    stated = {**resources, "claims": None}
    errors += check_resources(stated, (), field, _check_pod_resource_name)
    for position, container in enumerate(spec.get("containers") or ()):
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and amount(limit) > amount(limits[name]):
                words = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(f"{field}.containers[{position}][{name}].limits", limit, words))
    return errors


def qos_class(spec: Manifest) -> str:
    """Return `Guaranteed`, `Burstable` or `BestEffort`: the quality of service class of a pod."""
    parts = (
        [spec["resources"]] if spec.get("resources") else [one.get("resources") or {} for one in containers_of(spec)]
    )
    if not any(parts):
        return "BestEffort"
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    all_limited = True
    for resources in parts:
        _add_up(requests, resources.get("requests") or {})
        limited = _add_up(limits, resources.get("limits") or {})
        all_limited = all_limited and limited == len(_FOR_QOS)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if all_limited and requests == limits else "Burstable"


def _add_up(total: dict[str, int], amounts: Manifest) -> int:
    """Add the amounts that count to a total, and return how many counted."""
    counted = 0
    for name in _FOR_QOS:
        if name in amounts and (value := amount(amounts[name])) > 0:
            total[name] = total.get(name, 0) + value
            counted += 1
    return counted
