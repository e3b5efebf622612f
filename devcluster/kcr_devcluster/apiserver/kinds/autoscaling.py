"""The strategy of HorizontalPodAutoscalers (autoscaling/v2): they are stored, and nothing here scales by them.

Source: kubernetes/pkg/apis/autoscaling/v2/defaults.go; pkg/apis/autoscaling/validation/validation.go.
"""

from collections.abc import Mapping

from kcr_devcluster.apiserver.kinds.generic import Conform, Rules
from kcr_devcluster.apiserver.kinds.pods.validation.resources import check_container_resource_name
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden, invalid, not_supported, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import path_segment
from kcr_devcluster.apiserver.schema.quantities import amount

_DEFAULT_CPU = 80
# The first of them that is there is validated.
_IN_ORDER = ("object", "external", "pods", "resource", "containerResource")
_SOURCES: Mapping[str, str] = {
    "ContainerResource": "containerResource", "External": "external", "Object": "object", "Pods": "pods",
    "Resource": "resource",
}  # fmt: skip
_TARGETS = ("Utilization", "Value", "AverageValue")
_SELECT, _POLICIES = ("Disabled", "Max", "Min"), ("Percent", "Pods")
_LONGEST_WINDOW_SECONDS, _LONGEST_PERIOD_SECONDS = 3600, 1800
_POSITIVE, _ABOVE_ZERO = "must be greater than 0", "must be greater than zero"
_FAST = {"type": "Percent", "value": 100, "periodSeconds": 15}
_RULES: Mapping[str, Manifest] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0, "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _FAST],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_FAST]},
}  # fmt: skip


def _default(obj: Manifest, conform: Conform) -> None:
    """Fill in the least number of replicas, the metric, and the rules of scaling that are not said."""
    emptied = _emptied(obj)
    conform(obj)
    spec = obj.setdefault("spec", {})
    obj["status"] = {"desiredReplicas": 0, "currentMetrics": None, **(obj.get("status") or {})}
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _DEFAULT_CPU}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    if (behavior := spec.get("behavior")) is not None:
        for name, rules in _RULES.items():
            behavior[name] = rules | (behavior.get(name) or {}) | ({"policies": []} if name in emptied else {})


def _validate_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return the field errors of an update; a target of before may name its kind as it did."""
    after, before = ((one["spec"].get("scaleTargetRef") or {}) for one in (new, old))
    errors = _validate(new)
    if all(after.get(name) == before.get(name) for name in ("apiVersion", "kind")):
        errors = [error for error in errors if error.field != "spec.scaleTargetRef.apiVersion"]
    return errors


def _validate(obj: Manifest) -> list[FieldError]:
    """Return the field errors of an autoscaler."""
    spec = obj["spec"]
    least, most = spec["minReplicas"], spec.get("maxReplicas", 0)
    errors = [] if least >= 1 else [invalid("spec.minReplicas", least, "must be greater than or equal to 1")]
    scales_from_zero = any(metric.get("type") in ("Object", "External") for metric in spec["metrics"])
    if least == 0 and not scales_from_zero:
        words = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden("spec.metrics", words))
    if most == 0:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif most < 0:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to 1"))
    if most < least:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = spec.get("scaleTargetRef") or {}
    errors += _check_reference(target, "spec.scaleTargetRef") + _check_api_version(target, "spec.scaleTargetRef")
    for position, metric in enumerate(spec["metrics"]):
        errors += _check_metric(metric, f"spec.metrics[{position}]")
    for name in _RULES:
        errors += _check_rules((spec.get("behavior") or {}).get(name), f"spec.behavior.{name}")
    return errors


def _check_reference(reference: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in ("kind", "name"):
        if value := reference.get(name):
            errors += [invalid(f"{field}.{name}", value, reason) for reason in path_segment(value)]
        else:
            errors.append(required(f"{field}.{name}"))
    return errors


def _emptied(obj: Manifest) -> list[str]:
    """Return in which directions a list of policies is given and empty; once conformed, it would look absent."""
    spec = obj.get("spec")
    behavior = spec.get("behavior") if isinstance(spec, dict) else None
    given = behavior if isinstance(behavior, dict) else {}
    return [name for name in _RULES if isinstance(given.get(name), dict) and given[name].get("policies") == []]


def _check_api_version(reference: Manifest, field: str) -> list[FieldError]:
    """Source: validation.go, ValidateAPIVersion, with the options of a creation."""
    version: str = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        return [invalid(f"{field}.apiVersion", version, f"unexpected GroupVersion string: {version}")]
    if "/" not in version and (version, reference.get("kind")) != ("v1", "ReplicationController"):
        return [invalid(f"{field}.apiVersion", version, "apiVersion must specify API group")]
    return []


def _check_metric(metric: Manifest, field: str) -> list[FieldError]:
    kind = metric.get("type") or ""
    errors = [] if kind else [required(f"{field}.type", "must specify a metric source type")]
    if kind not in _SOURCES:
        # Upstream says it twice.
        errors += [not_supported(f"{field}.type", kind, _SOURCES)] * 2
    present = [source for source in _IN_ORDER if metric.get(source) is not None]
    if present:
        errors += _check_source(present[0], metric[present[0]], f"{field}.{present[0]}")
    expected = _SOURCES.get(kind)
    if expected is not None and expected not in present:
        errors.append(required(f"{field}.{expected}", "must populate information for the given metric source"))
    if len(present) != 1:
        words = "must populate the given metric source only"
        errors += [forbidden(f"{field}.{source}", words) for source in present if source != expected]
    return errors


def _check_source(kind: str, source: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if kind == "object":
        errors += _check_reference(source.get("describedObject") or {}, f"{field}.describedObject")
    if kind in ("resource", "containerResource"):
        if not (name := source.get("name")):
            errors.append(required(f"{field}.name", "must specify a resource name"))
        elif kind == "containerResource":
            errors += check_container_resource_name(name, f"{field}.name")
        if kind == "containerResource" and not source.get("container"):
            errors.append(required(f"{field}.container", "must specify a container"))
    else:
        errors += _check_metric_name((source.get("metric") or {}).get("name") or "", f"{field}.metric.name")
    target = source.get("target") or {}
    return errors + _check_target(target, f"{field}.target") + _check_values(kind, target, f"{field}.target")


def _check_metric_name(name: str, field: str) -> list[FieldError]:
    if not name:
        return [required(field, "must specify a metric name")]
    return [invalid(field, name, reason) for reason in path_segment(name)]


def _check_target(target: Manifest, field: str) -> list[FieldError]:
    kind, share = target.get("type") or "", target.get("averageUtilization")
    errors = [] if kind else [required(f"{field}.type", "must specify a metric target type")]
    if kind not in _TARGETS:
        errors.append(invalid(f"{field}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for name in ("value", "averageValue"):
        if target.get(name) is not None and amount(target[name]) <= 0:
            errors.append(invalid(f"{field}.{name}", target[name], "must be positive"))
    if share is not None and share < 1:
        errors.append(invalid(f"{field}.averageUtilization", share, _POSITIVE))
    return errors


def _check_values(kind: str, target: Manifest, field: str) -> list[FieldError]:
    value, average, share = (target.get(name) is not None for name in ("value", "averageValue", "averageUtilization"))
    match kind:
        case "resource" | "containerResource" if not share and not average:
            words = "must set either a target raw value or a target utilization"
            return [required(f"{field}.averageUtilization", words)]
        case "resource" | "containerResource" if share and average:
            words = "may not set both a target raw value and a target utilization"
            return [forbidden(f"{field}.averageValue", words)]
        case "pods" if not average or amount(target["averageValue"]) <= 0:
            return [required(f"{field}.averageValue", "must specify a positive target averageValue")]
        case "object" if not value and not average:
            return [required(f"{field}.averageValue", "must set either a target value or averageValue")]
        case "external" if not value and not average:
            words = "must set either a target value for metric or a per-pod target"
            return [required(f"{field}.averageValue", words)]
        case "external" if value and average:
            words = "may not set both a target value for metric and a per-pod target"
            return [forbidden(f"{field}.value", words)]
    return []


def _check_rules(rules: Manifest | None, field: str) -> list[FieldError]:
    if rules is None:
        return []
    errors: list[FieldError] = []
    window, select, policies = (rules.get(one) for one in ("stabilizationWindowSeconds", "selectPolicy", "policies"))
    if window is not None and window < 0:
        errors.append(invalid(f"{field}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW_SECONDS:
        words = f"must be less than or equal to {_LONGEST_WINDOW_SECONDS}"
        errors.append(invalid(f"{field}.stabilizationWindowSeconds", window, words))
    if (tolerance := rules.get("tolerance")) is not None and amount(tolerance) < 0:
        errors.append(invalid(f"{field}.tolerance", tolerance, "must be greater than or equal to 0"))
    if select is not None and select not in _SELECT:
        errors.append(not_supported(f"{field}.selectPolicy", select, _SELECT))
    if not policies:
        errors.append(required(f"{field}.policies", "must specify at least one Policy"))
    for position, policy in enumerate(policies or ()):
        errors += _check_policy(policy, f"{field}.policies[{position}]")
    return errors


def _check_policy(policy: Manifest, field: str) -> list[FieldError]:
    kind, value, period = policy.get("type", ""), policy.get("value", 0), policy.get("periodSeconds", 0)
    errors = [] if kind in _POLICIES else [not_supported(f"{field}.type", kind, _POLICIES)]
    if value <= 0:
        errors.append(invalid(f"{field}.value", value, _ABOVE_ZERO))
    if period <= 0:
        errors.append(invalid(f"{field}.periodSeconds", period, _ABOVE_ZERO))
    if period > _LONGEST_PERIOD_SECONDS:
        words = f"must be less than or equal to {_LONGEST_PERIOD_SECONDS}"
        errors.append(invalid(f"{field}.periodSeconds", period, words))
    return errors


# Autoscalers: at least one replica, and the CPU as metric where none is named.
AUTOSCALERS = Rules(
    stored_as=("autoscaling/v2", "HorizontalPodAutoscaler"),
    default=_default,
    validate_update=_validate_update,
    status=lambda _: {"desiredReplicas": 0, "currentMetrics": None},
    validate=_validate,
)
