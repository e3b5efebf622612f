"""The strategies of ResourceQuotas and LimitRanges.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidateResourceQuota and ValidateLimitRange;
pkg/apis/core/v1/defaults.go, SetDefaults_LimitRangeItem; pkg/apis/core/helper/helpers.go.
"""

from collections.abc import Mapping

from kcr_devcluster.apiserver.kinds.pods.validation.resources import (
    COMPUTED,
    OF_QUOTAS,
    can_overcommit,
    check_amount,
    check_container_resource_name,
    check_resource_name,
    is_huge,
)
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import (
    IMMUTABLE,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import qualified_name
from kcr_devcluster.apiserver.schema.quantities import amount


class ResourceQuotaStrategy(Strategy):
    """Resource quotas; their status holds the usage of the namespace."""

    stored_as = ("v1", "ResourceQuota")

    def prepare_create(self, obj: Manifest) -> None:
        """Empty the status."""
        obj["status"] = {}

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a quota."""
        spec = obj["spec"]
        return _check("spec.hard", spec.get("hard") or {}) + _check_scopes(spec) + _check_selector(spec)

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update; the scopes are immutable."""
        scopes = [spec.get("scopes") or [] for spec in (new["spec"], old["spec"])]
        changed = [] if sorted(scopes[0]) == sorted(scopes[1]) else [invalid("spec.scopes", scopes[0], IMMUTABLE)]
        return self.validate(new) + changed

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        status = new["status"]
        return _check("status.hard", status.get("hard") or {}) + _check("status.used", status.get("used") or {})


def _check(field: str, amounts: Manifest) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, value in sorted(amounts.items()):
        path = f"{field}[{name}]"
        errors += check_resource_name(name, path)
        if "/" not in name and name not in OF_QUOTAS and not is_huge(name):
            errors.append(invalid(path, name, "must be a standard resource for quota"))
        errors += check_amount(name, value, path)
    return errors


# Resources of pods, which the scopes of pods are about; those of best effort state nothing.
_OF_PODS = frozenset(("pods", *COMPUTED))
_SCOPED: Mapping[str, frozenset[str]] = {
    "BestEffort": frozenset({"pods"}), "NotBestEffort": _OF_PODS, "Terminating": _OF_PODS, "NotTerminating": _OF_PODS,
    "PriorityClass": _OF_PODS, "CrossNamespacePodAffinity": _OF_PODS,
}  # fmt: skip
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_ONLY = tuple(name for name in _SCOPED if name != "PriorityClass")
_MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _check_scopes(spec: Manifest) -> list[FieldError]:
    scopes: list[str] = spec.get("scopes") or []
    field, errors = "spec.scopes", list[FieldError]()
    for scope in scopes:
        if scope not in _SCOPED:
            errors.append(invalid(field, scopes, "unsupported scope"))
        errors += [invalid(field, scopes, "unsupported scope applied to resource") for _ in _unscoped(scope, spec)]
    conflicts = [pair for pair in _OPPOSITES if pair <= set(scopes)]
    return errors + [invalid(field, scopes, "conflicting scopes") for _ in conflicts]


def _unscoped(scope: str, spec: Manifest) -> list[str]:
    """Return the standard resources of a quota that a scope is not about."""
    about = _SCOPED.get(scope)
    return [] if about is None else [name for name in sorted(spec.get("hard") or ()) if name in OF_QUOTAS - about]


def _check_selector(spec: Manifest) -> list[FieldError]:
    selector = spec.get("scopeSelector") or {}
    expressions, field, errors = selector.get("matchExpressions") or [], "spec.scopeSelector.matchExpressions", []
    for one in expressions:
        scope, operator, values = one.get("scopeName", ""), one.get("operator", ""), one.get("values") or []
        if scope not in _SCOPED:
            errors.append(invalid(f"{field}.scopeName", scope, "unsupported scope"))
        errors += [invalid(field, selector, "unsupported scope applied to resource") for _ in _unscoped(scope, spec)]
        if scope in _EXISTS_ONLY and operator != "Exists":
            errors.append(invalid(f"{field}.operator", operator, _MUST_EXIST))
        errors += _check_operator(operator, values, field)
    names = {one.get("scopeName", "") for one in expressions}
    conflicts = [pair for pair in _OPPOSITES if pair <= names]
    return errors + [invalid(field, spec.get("scopes") or [], "conflicting scopes") for _ in conflicts]


def _check_operator(operator: str, values: list[str], field: str) -> list[FieldError]:
    if operator in ("In", "NotIn"):
        words = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return [] if values else [required(f"{field}.values", words)]
    if operator in ("Exists", "DoesNotExist"):
        words = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [invalid(f"{field}.values", values, words)] if values else []
    return [invalid(f"{field}.operator", operator, "not a valid selector operator")]


_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_BOUNDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
# Pairs of members of which the first may not be above the second: the member that has the error, the member whose value
# it shows, and the message.
_ORDERED = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest",
     "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest",
     "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest",
     "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)  # fmt: skip


class LimitRangeStrategy(Strategy):
    """Limit ranges: bounds and defaults of the resources of containers, pods and claims."""

    stored_as = ("v1", "LimitRange")

    def default(self, obj: Manifest) -> None:
        """Fill in limits and requests of containers from the bounds."""
        super().default(obj)
        for item in (obj.get("spec") or {}).get("limits") or ():
            if item.get("type") == "Container":
                for member, sources in (("default", ("max",)), ("defaultRequest", ("default", "min"))):
                    for source in sources:
                        for name, value in (item.get(source) or {}).items():
                            item.setdefault(member, {}).setdefault(name, value)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a limit range."""
        errors: list[FieldError] = []
        seen: set[str] = set()
        for position, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
            path, kind = f"spec.limits[{position}]", item.get("type", "")
            errors += _check_type(kind, f"{path}.type")
            if kind in seen:
                errors.append(duplicate(f"{path}.type", kind))
            seen.add(kind)
            errors += _check_names(item, kind, path)
            names = dict.fromkeys(name for member in _BOUNDS for name in item.get(member) or ())
            for name in names:
                errors += _check_bounds(item, name, path)
        return errors


def _check_type(kind: str, field: str) -> list[FieldError]:
    reasons = qualified_name(kind)
    if not reasons and "/" not in kind and kind not in _TYPES:
        reasons = ("must be a standard limit type or fully qualified",)
    return [invalid(field, kind, reason) for reason in reasons]


def _check_names(item: Manifest, kind: str, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    rule = check_container_resource_name if kind in ("Pod", "Container") else check_resource_name
    for member in _BOUNDS:
        if kind == "Pod" and member in ("default", "defaultRequest"):
            if item.get(member):
                words = "may not be specified when `type` is 'Pod'"
                errors.append(forbidden(f"{field}.{member}", words))
            continue
        errors += [error for name in item.get(member) or () for error in rule(name, f"{field}.{member}[{name}]")]
    if kind == "PersistentVolumeClaim" and not any("storage" in (item.get(one) or ()) for one in ("min", "max")):
        words = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{field}.limits", words))
    return errors


def _check_bounds(item: Manifest, name: str, field: str) -> list[FieldError]:
    stated = {member: value for member in _BOUNDS if (value := (item.get(member) or {}).get(name)) is not None}
    errors: list[FieldError] = []
    for low, high, place, shown, words in _ORDERED:
        if low in stated and high in stated and amount(stated[low]) > amount(stated[high]):
            text = words.format(stated[low], stated[high])
            errors.append(invalid(f"{field}.{place}[{name}]", stated[shown], text))
    ratio = stated.get("maxLimitRequestRatio")
    if ratio is not None:
        path = f"{field}.maxLimitRequestRatio[{name}]"
        if amount(ratio) < amount("1"):
            errors.append(invalid(path, ratio, f"ratio {ratio} is less than 1"))
        if "min" in stated and "max" in stated and amount(stated["min"]):
            most = amount(stated["max"]) / amount(stated["min"])
            if amount(ratio) / amount("1") > most:
                errors.append(invalid(path, ratio, f"ratio {ratio} is greater than max/min = {most:f}"))
    limit, request = stated.get("default"), stated.get("defaultRequest")
    if not can_overcommit(name) and limit and request and amount(limit) != amount(request):
        words = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid(f"{field}.defaultRequest[{name}]", request, words))
    return errors
