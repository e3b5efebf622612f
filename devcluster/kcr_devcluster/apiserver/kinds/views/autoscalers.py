"""`autoscaling/v1` HorizontalPodAutoscalers: views of those of autoscaling/v2.

The older version has fields for the CPU alone. All other metrics and the behavior are JSON in annotations, so that a
change through the older version loses nothing.

Source: kubernetes/pkg/apis/autoscaling/v1/conversion.go; pkg/apis/autoscaling/helpers.go.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from kcr_devcluster.apiserver.kinds.catalogue import AUTOSCALERS
from kcr_devcluster.apiserver.kinds.kind import Conversion, Kind
from kcr_devcluster.apiserver.kinds.strategy import conform
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.builtin import kind_shape

_SHAPE = kind_shape("autoscaling/v1", "HorizontalPodAutoscaler")
_ANNOTATION = "autoscaling.alpha.kubernetes.io"
# The annotations that replace fields which v1 lacks, by the place of the field in v2.
_ANNOTATIONS: Mapping[tuple[str, str], str] = {
    ("spec", "metrics"): f"{_ANNOTATION}/metrics",
    ("spec", "behavior"): f"{_ANNOTATION}/behavior",
    ("status", "conditions"): f"{_ANNOTATION}/conditions",
}


_FORMS: Mapping[str, msgspec.json.Decoder[Any]] = {
    "metrics": msgspec.json.Decoder(list[dict[str, Any]]),
    "behavior": msgspec.json.Decoder(dict[str, Any]),
    "conditions": msgspec.json.Decoder(list[dict[str, Any]]),
}


class _Source(NamedTuple):
    """The names in v1 of the fields of a metric source of v2.

    Attributes:
        fields: The fields beside the target, by their paths in v2.
        targets: The fields of the target, by their names in v2.
    """

    fields: Mapping[tuple[str, ...], str]
    targets: Mapping[str, str]


_METRIC, _SELECTOR = ("metric", "name"), ("metric", "selector")
_USE = {"averageUtilization": "targetAverageUtilization", "averageValue": "targetAverageValue"}
_SOURCES: Mapping[str, _Source] = {
    "resource": _Source({("name",): "name"}, _USE),
    "containerResource": _Source({("name",): "name", ("container",): "container"}, _USE),
    "pods": _Source({_METRIC: "metricName", _SELECTOR: "selector"}, {"averageValue": "targetAverageValue"}),
    "object": _Source(
        {("describedObject",): "target", _METRIC: "metricName", _SELECTOR: "selector"},
        {"value": "targetValue", "averageValue": "averageValue"},
    ),
    "external": _Source(
        {_METRIC: "metricName", _SELECTOR: "metricSelector"},
        {"value": "targetValue", "averageValue": "targetAverageValue"},
    ),
}
_TARGET_TYPES = {"averageUtilization": "Utilization", "averageValue": "AverageValue", "value": "Value"}


def to_v2(scaler: Manifest) -> None:
    """Turn an autoscaler of autoscaling/v1 into one of autoscaling/v2.

    Raises:
        UndecodableError: It is no autoscaler.
    """
    conform(_SHAPE, scaler)
    scaler["apiVersion"] = AUTOSCALERS.type.api_version
    spec, status = scaler.setdefault("spec", {}), scaler.get("status") or {}
    _take_annotations(scaler)
    metrics = [_metric_of_v2(one) for one in spec.pop("metrics", ())]
    if (share := spec.pop("targetCPUUtilizationPercentage", None)) is not None:
        metrics.append(_cpu(share))
    if metrics:
        spec["metrics"] = metrics
    status.pop("currentCPUUtilizationPercentage", None)


def from_v2(scaler: Manifest) -> None:
    """Turn an autoscaler of autoscaling/v2 into one of autoscaling/v1."""
    scaler["apiVersion"] = "autoscaling/v1"
    spec, status = scaler["spec"], {"currentReplicas": 0, "desiredReplicas": 0, **(scaler.get("status") or {})}
    scaler["status"], others = status, []
    for metric in spec.pop("metrics", ()):
        if (share := _cpu_share(metric)) is not None:
            spec["targetCPUUtilizationPercentage"] = share
        else:
            others.append(_metric_of_v1(metric))
    annotations = dict(scaler["metadata"].get("annotations") or {})
    kept = {("spec", "metrics"): others, ("spec", "behavior"): spec.pop("behavior", None),
            ("status", "conditions"): status.pop("conditions", None)}  # fmt: skip
    for place, value in kept.items():
        if value:
            annotations[_ANNOTATIONS[place]] = msgspec.json.encode(value).decode()
    if annotations:
        scaler["metadata"]["annotations"] = annotations
    status.pop("currentMetrics", None)


def _take_annotations(scaler: Manifest) -> None:
    """Move the values of annotations to their fields in v2; values that cannot be decoded are dropped."""
    metadata = scaler.get("metadata")
    # Its own rules come later: here it may be anything.
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(found, dict) or found.keys().isdisjoint(_ANNOTATIONS.values()):
        return
    annotations = scaler["metadata"]["annotations"] = dict(found)
    for (part, name), key in _ANNOTATIONS.items():
        try:
            value = _FORMS[name].decode(annotations.pop(key))
        except (KeyError, TypeError, ValueError):
            continue
        scaler.setdefault(part, {})[name] = value


def _cpu(share: int) -> Manifest:
    return {"type": "Resource", "resource": {"name": "cpu", "target": _target({"averageUtilization": share})}}


def _cpu_share(metric: Manifest) -> int | None:
    resource = metric.get("resource") or {}
    share: int | None = (resource.get("target") or {}).get("averageUtilization")
    return share if metric.get("type") == "Resource" and resource.get("name") == "cpu" else None


def _target(values: Manifest) -> Manifest:
    kind = next((_TARGET_TYPES[name] for name in _TARGET_TYPES if name in values), "")
    return {"type": kind, **values}


def _metric_of_v2(metric: Manifest) -> Manifest:
    made: Manifest = {"type": metric.get("type", "")}
    for name, source in _SOURCES.items():
        if isinstance(old := metric.get(name), dict):
            new: Manifest = {}
            for path, field in source.fields.items():
                if field in old:
                    _set(new, path, old[field])
            new["target"] = _target({name: old[field] for name, field in source.targets.items() if field in old})
            made[name] = new
    return made


def _metric_of_v1(metric: Manifest) -> Manifest:
    made: Manifest = {"type": metric.get("type", "")}
    for name, source in _SOURCES.items():
        if isinstance(new := metric.get(name), dict):
            old = {field: value for path, field in source.fields.items() if (value := _at(new, path)) is not None}
            target = new.get("target") or {}
            made[name] = old | {field: target[name] for name, field in source.targets.items() if name in target}
    return made


def _set(obj: Manifest, path: tuple[str, ...], value: Any) -> None:
    *parents, last = path
    for step in parents:
        obj = obj.setdefault(step, {})
    obj[last] = value


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


AUTOSCALERS_V1: Kind = replace(
    AUTOSCALERS,
    type=AUTOSCALERS.type._replace(version="v1"),
    conversion=Conversion(AUTOSCALERS, _SHAPE, to_v2, from_v2),
)
