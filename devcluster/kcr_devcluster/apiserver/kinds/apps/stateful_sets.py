"""The strategy of StatefulSets: most of the spec is fixed; the template is validated with the volumes of its claims.

Source: kubernetes/pkg/apis/apps/v1/{defaults,conversion}.go; pkg/apis/apps/validation/validation.go,
ValidateStatefulSetSpec, volumesToAddForTemplates and ValidateVolumeClaimTemplates.
"""

from kcr_devcluster.apiserver.kinds.apps.deployments import check_amount, is_more_than_all, is_zero
from kcr_devcluster.apiserver.kinds.apps.sets import PodSetStrategy, check_own_selector, check_picked, check_runs
from kcr_devcluster.apiserver.kinds.pods.validation.spec import check_metadata, check_template
from kcr_devcluster.apiserver.kinds.storage.claims import check_claim_spec
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden, invalid, non_negative, not_supported
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal
from kcr_devcluster.apiserver.protocol.names import check_selector, dns_label

_POLICIES = ("OrderedReady", "Parallel")
# The mutable fields of a StatefulSet, as messages list them; all of them are fields of the spec.
_CHANGEABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_FIXED = (
    "updates to statefulset spec for fields other than "
    f"{', '.join(repr(one) for one in _CHANGEABLE[:-1])} and '{_CHANGEABLE[-1]}' are forbidden"
)
_RETENTIONS = ("Retain", "Delete")


class StatefulSetStrategy(PodSetStrategy):
    """StatefulSets: pods with a name and a claim each."""

    stored_as = ("apps/v1", "StatefulSet")
    display = "statefulsets.apps"

    def __init__(self, *, keeps_max_unavailable: bool = False) -> None:
        """Take the traits of the version of Kubernetes.

        Args:
            keeps_max_unavailable: Whether the feature MaxUnavailableStatefulSet is on.
        """
        self._keeps_max_unavailable = keeps_max_unavailable

    def prepare_create(self, obj: Manifest) -> None:
        """Set the numbers of a status that says nothing yet."""
        obj["status"] = {"replicas": 0, "availableReplicas": 0}

    def default(self, obj: Manifest) -> None:
        """Fill in the partition of a rolling update, the retention policy of claims, and their kind and phase."""
        super().default(obj)
        spec = obj["spec"]
        if spec["updateStrategy"]["type"] == "RollingUpdate":
            rolling = dict(spec["updateStrategy"].get("rollingUpdate") or {})
            if self._keeps_max_unavailable:
                rolling = {"maxUnavailable": 1, **rolling}
            else:
                rolling.pop("maxUnavailable", None)
            spec["updateStrategy"]["rollingUpdate"] = {"partition": 0, **rolling}
        kept = {"whenDeleted": "Retain", "whenScaled": "Retain"}
        policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        spec["persistentVolumeClaimRetentionPolicy"] = kept | {name: one for name, one in policy.items() if one}
        for claim in spec.get("volumeClaimTemplates") or ():
            claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
            claim["status"] = {"phase": "Pending"} | (claim.get("status") or {})

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new StatefulSet."""
        spec = obj["spec"]
        errors = _check_fixed(spec) + _check_changeable(spec)
        for position, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            errors += check_claim_spec(claim["spec"], f"spec.volumeClaimTemplates[{position}].spec")
        return errors + _check_template(spec) + check_runs(spec, "StatefulSet")

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update.

        A template that was stored before templates were validated does not keep the rest from being changed.
        """
        spec, stored = new["spec"], old["spec"]
        errors = _check_fixed(spec) + _check_changeable(spec)
        errors += [] if _check_template(stored) else _check_template(spec)
        errors += check_runs(spec, "StatefulSet")
        after, before = ({n: v for n, v in one.items() if n not in _CHANGEABLE} for one in (spec, stored))
        return errors if semantic_equal(after, before) else [*errors, forbidden("spec", _FIXED)]


def _check_fixed(spec: Manifest) -> list[FieldError]:
    policy, service = spec["podManagementPolicy"], spec.get("serviceName")
    errors: list[FieldError] = []
    if policy not in _POLICIES:
        errors.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    errors += [invalid("spec.serviceName", service, reason) for reason in (dns_label(service) if service else ())]
    errors += check_own_selector(spec, "empty selector is invalid for statefulset", is_required=True)
    if _has_invalid_selector(spec):
        errors.append(invalid("spec.selector", spec["selector"], ""))
    return errors


def _check_changeable(spec: Manifest) -> list[FieldError]:
    errors = _check_update_strategy(spec["updateStrategy"])
    for name, kept in spec["persistentVolumeClaimRetentionPolicy"].items():
        if kept not in _RETENTIONS:
            field = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            errors.append(not_supported(field, kept, _RETENTIONS))
    errors += non_negative("spec.replicas", spec["replicas"])
    errors += non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    return errors + non_negative("spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))


def _check_update_strategy(strategy: Manifest) -> list[FieldError]:
    rolling, field = strategy.get("rollingUpdate"), "spec.updateStrategy"
    match strategy["type"]:
        case "RollingUpdate":
            errors = non_negative(f"{field}.rollingUpdate.partition", (rolling or {}).get("partition"))
            return errors + _check_unavailable((rolling or {}).get("maxUnavailable"), f"{field}.rollingUpdate")
        case "OnDelete":
            words = "only allowed for updateStrategy 'RollingUpdate'"
            return [invalid(f"{field}.rollingUpdate", rolling, words)] if rolling is not None else []
    return [invalid(field, strategy, "must be 'RollingUpdate' or 'OnDelete'")]


def _check_unavailable(amount: int | str | None, field: str) -> list[FieldError]:
    if amount is None:
        return []
    where = f"{field}.maxUnavailable"
    errors = check_amount(amount, where)
    if is_zero(amount):
        errors.append(invalid(where, amount, "cannot be 0"))
    if is_more_than_all(amount):
        errors.append(invalid(where, amount, "must not be greater than 100%"))
    return errors


def _has_invalid_selector(spec: Manifest) -> bool:
    return spec.get("selector") is not None and bool(check_selector(spec["selector"], ""))


def _check_template(spec: Manifest) -> list[FieldError]:
    """Return the field errors of the pod template, whose pods have a volume for each claim.

    A claim replaces a volume of its name. With an invalid selector, upstream does not validate the template.
    """
    if _has_invalid_selector(spec):
        return []
    template = spec["template"]
    claims = {
        name: {"name": name, "persistentVolumeClaim": {"claimName": name}}
        for claim in spec.get("volumeClaimTemplates") or ()
        for name in ((claim.get("metadata") or {}).get("name", ""),)
    }
    volumes = [one for one in template["spec"].get("volumes") or () if one.get("name", "") not in claims]
    # The controller names the pods.
    named = {name: value for name, value in template["spec"].items() if name not in ("hostname", "subdomain")}
    complete = {**template, "spec": {**named, "volumes": [*claims.values(), *volumes]}}
    # Upstream validates the metadata of the template twice.
    return check_picked(spec) + check_template(complete, "spec.template") + check_metadata(complete, "spec.template")
