"""Limit ranges: defaults and bounds of the resources of new pods, bounds of the storage of claims.

Source: kubernetes/plugin/pkg/admission/limitranger/admission.go, PodMutateLimitFunc, PodValidateLimitFunc and
PersistentVolumeClaimValidateLimitFunc.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from kcr_devcluster.apiserver.kinds.catalogue import CLAIMS, LIMIT_RANGES, PODS
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import forbidden
from kcr_devcluster.apiserver.quota.usage import total_resources
from kcr_devcluster.apiserver.schema.quantities import amount, family, written
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes, AdmissionContext, AdmissionStep

_ANNOTATION = "kubernetes.io/limit-ranger"
_CLAIM = "PersistentVolumeClaim"
# Amounts as they are written.
_Amounts = Mapping[str, str]


class LimitRangeAdmission(AdmissionStep):
    """The admission plugin LimitRanger. Without limit ranges a creation costs one look-up."""

    kinds = (PODS, CLAIMS)

    def __init__(self, context: AdmissionContext) -> None:
        self._cache = context.storage.cache(LIMIT_RANGES)

    def admit(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Give the containers of a new pod the limits and requests that they do not state."""
        if not self._cache.records or attributes.kind is not PODS:
            return
        for item in self._items(obj):
            if item.get("type") == "Container":
                _set_defaults(obj, item)

    def check(self, attributes: AdmissionAttributes, obj: Manifest) -> None:
        """Admit a new object that is within all bounds.

        Raises:
            StatusError: 403, it is not.
        """
        kind = attributes.kind
        if not self._cache.records or (kind is not PODS and kind.type.kind != _CLAIM):
            return
        rule = _pod_errors if kind is PODS else _claim_errors
        errors = [error for item in self._items(obj) for error in rule(obj["spec"], item)]
        if errors:
            why = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
            raise forbidden(kind.type, obj["metadata"]["name"], why)

    def _items(self, obj: Manifest) -> Iterator[Manifest]:
        for record in self._cache.select(obj["metadata"].get("namespace", "")):
            yield from (record.manifest().get("spec") or {}).get("limits") or ()


def _set_defaults(pod: Manifest, item: Manifest) -> None:
    said: list[str] = []
    for members, called in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(members) or ():
            resources: Manifest = container.setdefault("resources", {})
            for member, source, word in (
                ("requests", "defaultRequest", "request"),
                ("limits", "default", "limit"),
            ):
                missing = sorted((item.get(source) or {}).keys() - (resources.get(member) or {}).keys())
                if missing:
                    resources[member] = {**(resources.get(member) or {}), **{one: item[source][one] for one in missing}}
                    said.append(f"{', '.join(missing)} {word} for {called} {container.get('name', '')}")
    if said:
        annotations: Manifest = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, _ANNOTATION: f"LimitRanger plugin set: {'; '.join(said)}"}


def _pod_errors(spec: Manifest, item: Manifest) -> Iterator[str]:
    kind = item.get("type", "")
    if kind == "Container":
        for members in ("containers", "initContainers"):
            for container in spec.get(members) or ():
                resources = container.get("resources") or {}
                yield from _errors(item, resources.get("requests") or {}, resources.get("limits") or {})
    elif kind == "Pod":
        yield from _errors(item, _total(spec, "requests"), _total(spec, "limits"))


def _total(spec: Manifest, which: str) -> _Amounts:
    stated = next(((one.get("resources") or {}).get(which) or {} for one in spec.get("containers") or ()), {})
    return {name: written(value, family(stated.get(name, "0"))) for name, value in total_resources(spec, which).items()}


def _errors(item: Manifest, requests: _Amounts, limits: _Amounts) -> Iterator[str]:
    kind = item["type"]
    for name, bound in (item.get("min") or {}).items():
        if why := _bound_error(bound, -1, (("request", requests.get(name)), ("limit", limits.get(name)))):
            yield f"minimum {name} usage per {kind} is {bound}{why}"
    for name, bound in (item.get("max") or {}).items():
        if why := _bound_error(bound, 1, (("limit", limits.get(name)), ("request", requests.get(name)))):
            yield f"maximum {name} usage per {kind} is {bound}{why}"
    for name, bound in (item.get("maxLimitRequestRatio") or {}).items():
        if why := _ratio_error(amount(requests.get(name, "0")), amount(limits.get(name, "0")), amount(bound)):
            yield f"{name} max limit to request ratio per {kind} is {bound}, but {why}"


def _bound_error(bound: str, sign: int, stated: tuple[tuple[str, str | None], ...]) -> str:
    """Return how the stated amounts break a bound, `""` if they do not.

    Args:
        bound: The bound.
        sign: 1 for an upper bound, -1 for a lower one.
        stated: Names and amounts; the first amount is required.
    """
    called, first = stated[0]
    if first is None:
        return f".  No {called} is specified"
    for name, value in stated:
        if value is not None and sign * amount(value) > sign * amount(bound):
            return f", but {name} is {value}"
    return ""


def _ratio_error(request: int, limit: int, most: int) -> str:
    if not request:
        return "no request is specified or request is 0"
    if not limit:
        return "no limit is specified or limit is 0"
    # Amounts may be larger than a float can say.
    is_over = limit * amount("1") > most * request
    return f"provided ratio is {Decimal(limit) / Decimal(request):.6f}" if is_over else ""


def _claim_errors(spec: Manifest, item: Manifest) -> Iterator[str]:
    if item.get("type") != _CLAIM:
        return
    requests = (spec.get("resources") or {}).get("requests") or {}
    for bounds, word, sign in (("min", "minimum", -1), ("max", "maximum", 1)):
        for name, bound in (item.get(bounds) or {}).items():
            if why := _bound_error(bound, sign, (("request", requests.get(name)),)):
                yield f"{word} {name} usage per {_CLAIM} is {bound}{why}"
