"""Validation of `spec.scheduling` of Jobs: how their pods are scheduled together (alpha in Kubernetes 1.37).

Source: kubernetes/pkg/apis/batch/validation/validation.go, validateGangMinCount and validateJobSchedulingUpdate;
staging/src/k8s.io/api/scheduling/v1alpha3/types.go; KEP-5547.
"""

from copy import deepcopy

from kcr_devcluster.apiserver.protocol.field_errors import IMMUTABLE, FieldError, invalid, required, too_many
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_MOST_CLAIMS, _MOST_TOPOLOGIES = 4, 1


def keep_scheduling(spec: Manifest, stored: Manifest | None, *, is_enabled: bool) -> None:
    """Drop the field from a spec where the feature is off and the stored spec has not got it either."""
    if not is_enabled and (stored is None or "scheduling" not in stored):
        spec.pop("scheduling", None)


def check_scheduling(spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of how a Job is scheduled.

    Args:
        spec: The Job's spec.
        field: The path of the spec.
    """
    asked = spec.get("scheduling")
    if asked is None:
        return []
    path = f"{field}.scheduling"
    errors: list[FieldError] = []
    if (policy := asked.get("schedulingPolicy")) is not None:
        errors += check_policy(policy, f"{path}.schedulingPolicy")
        count, most = (policy.get("gang") or {}).get("minCount"), spec.get("parallelism")
        if count is not None and most is not None and count > most:
            where = f"{path}.schedulingPolicy.gang.minCount"
            errors.append(invalid(where, count, f"must be less than or equal to spec.parallelism ({most})"))
    if (mode := asked.get("disruptionMode")) is not None:
        errors += _check_one_of(mode, ("single", "all"), f"{path}.disruptionMode")
    if len(claims := asked.get("resourceClaims") or ()) > _MOST_CLAIMS:
        errors.append(too_many(f"{path}.resourceClaims", len(claims), _MOST_CLAIMS))
    topology = (asked.get("schedulingConstraints") or {}).get("topology") or ()
    where = f"{path}.schedulingConstraints.topology"
    if len(topology) > _MOST_TOPOLOGIES:
        errors.append(too_many(where, len(topology), _MOST_TOPOLOGIES))
    return errors + [required(f"{where}[{n}].key") for n, one in enumerate(topology) if not one.get("key")]


def check_policy(policy: Manifest, field: str, *, needs_count: bool = False) -> list[FieldError]:
    """Return the field errors of a scheduling policy.

    Args:
        policy: The policy: exactly one of `basic` and `gang` is set.
        field: Its path.
        needs_count: Whether a gang has to say its size.
    """
    errors = _check_one_of(policy, ("basic", "gang"), field)
    if (gang := policy.get("gang")) is not None:
        count = gang.get("minCount")
        if count is None and needs_count:
            errors.append(required(f"{field}.gang.minCount"))
        elif count is not None and count < 1:
            errors.append(invalid(f"{field}.gang.minCount", count, "must be greater than or equal to 1"))
    return errors


def check_scheduling_update(spec: Manifest, stored: Manifest) -> list[FieldError]:
    """Return the field errors of a change of how a Job is scheduled: only the size of its gang may change."""
    before, after = (deepcopy(one.get("scheduling")) for one in (stored, spec))
    for one in (before, after):
        drop_size((one or {}).get("schedulingPolicy") or {})
    # Not semantically: which of the empty policies is set makes the difference.
    if before == after:
        return []
    return [invalid("spec.scheduling", spec.get("scheduling"), IMMUTABLE)]


def drop_size(policy: Manifest) -> None:
    """Remove the size of the gang from a policy, the one part of it that may change."""
    if policy.get("gang") is not None:
        policy["gang"].pop("minCount", None)


def _check_one_of(obj: Manifest, members: tuple[str, ...], field: str) -> list[FieldError]:
    found = [name for name in members if obj.get(name) is not None]
    if len(found) == 1:
        return []
    words = "must specify one of" if not found else "must specify exactly one of"
    return [invalid(field, "{" + ", ".join(found) + "}", f"{words}: {', '.join(f'`{name}`' for name in members)}")]
