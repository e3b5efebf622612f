"""What containers may ask for, and the class of service that follows from it.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidateResourceRequirements;
pkg/apis/core/helper/qos/qos.go, ComputePodQOS.
"""

from kcr.apiserver.kinds.core.names import qualified_name
from kcr.apiserver.kinds.core.pod_defaults import containers_of
from kcr.apiserver.kinds.field_errors import NON_NEGATIVE, invalid
from kcr.apiserver.kinds.strategy import FieldError, Manifest
from kcr.apiserver.schema.quantities import amount

# What a node may promise more of than it has; anything else is handed out by the piece.
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_FOR_QOS = ("cpu", "memory")


def check_resources(resources: Manifest, field: str) -> list[FieldError]:
    """Return the faults of limits and requests."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    faults = _check_amounts(limits, f"{field}.limits")
    for name, value in requests.items():
        faults += _check_amounts({name: value}, f"{field}.requests")
        if name not in limits:
            continue
        overcommit = name in _STANDARD
        asked, limit = amount(value), amount(limits[name])
        if overcommit and asked > limit:
            words = f"must be less than or equal to {name} limit of {limits[name]}"
            faults.append(invalid(f"{field}.requests", value, words))
        elif not overcommit and asked != limit:
            words = f"must be equal to {name} limit of {limits[name]}"
            faults.append(invalid(f"{field}.requests", value, words))
    return faults


def _check_amounts(amounts: Manifest, field: str) -> list[FieldError]:
    faults: list[FieldError] = []
    for name, value in amounts.items():
        faults += [invalid(f"{field}[{name}]", name, reason) for reason in qualified_name(name)]
        if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
            words = "must be a standard resource type or fully qualified"
            faults.append(invalid(f"{field}[{name}]", name, words))
        if amount(value) < 0:
            faults.append(invalid(f"{field}[{name}]", value, NON_NEGATIVE))
    return faults


def qos_class(spec: Manifest) -> str:
    """Return `Guaranteed`, `Burstable` or `BestEffort`: how dear a pod's resources are to the node."""
    parts = (
        [spec["resources"]] if spec.get("resources") else [one.get("resources") or {} for one in containers_of(spec)]
    )
    requests, limits = dict[str, int](), dict[str, int]()
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
        value = amount(amounts.get(name, "0"))
        if value > 0:
            total[name] = total.get(name, 0) + value
            counted += 1
    return counted
