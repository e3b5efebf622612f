"""The strategies of Deployments and ReplicaSets: defaults that depend on other fields, and validation.

Source: kubernetes/pkg/apis/apps/v1/defaults.go, SetDefaults_Deployment; pkg/apis/apps/validation/validation.go,
ValidateDeploymentSpec and ValidateReplicaSetSpec; pkg/registry/apps/{deployment,replicaset}/strategy.go.
"""

import re

from kcr.api.durations import parse_int
from kcr_devcluster.apiserver.kinds.apps.statuses import check_workload_status
from kcr_devcluster.apiserver.kinds.pods.defaults import default_pod_spec
from kcr_devcluster.apiserver.kinds.pods.validation.spec import check_selector_of, check_template
from kcr_devcluster.apiserver.kinds.pods.warnings import template_warnings
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import (
    IMMUTABLE,
    FieldError,
    forbidden,
    invalid,
    non_negative,
    not_supported,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal
from kcr_devcluster.apiserver.protocol.names import check_selector

# How many pods more and how many less than wanted there may be during a rolling update.
ROLLING_UPDATE = {"maxUnavailable": "25%", "maxSurge": "25%"}

_percent = re.compile(r"[0-9]+%")
_PERCENT_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


class ReplicaSetStrategy(Strategy):
    """ReplicaSets: a selector that never changes, and that picks the labels of the template."""

    stored_as = ("apps/v1", "ReplicaSet")
    has_generation = True

    def default(self, obj: Manifest) -> None:
        """Fill in the defaults of the pod template."""
        super().default(obj)
        default_pod_spec(obj["spec"]["template"]["spec"])

    def prepare_create(self, obj: Manifest) -> None:
        """Empty the status."""
        obj["status"] = {"replicas": 0}

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new ReplicaSet."""
        return check_replicas(obj["spec"])

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        errors = self.validate(new)
        if not semantic_equal(new["spec"].get("selector"), old["spec"].get("selector")):
            errors.append(invalid("spec.selector", new["spec"].get("selector"), IMMUTABLE))
        return errors

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        return check_workload_status(new, old)

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return the warnings about a pod template that is new or has changed."""
        template = new["spec"]["template"]
        if old is not None and template == old["spec"].get("template"):
            return []
        return template_warnings(template["spec"], "spec.template.spec")


class DeploymentRegistryStrategy(ReplicaSetStrategy):
    """Deployments: as ReplicaSets, with the way in which pods are replaced."""

    stored_as = ("apps/v1", "Deployment")
    status_resets = ("spec", "metadata.labels")

    def default(self, obj: Manifest) -> None:
        """Fill in the defaults of the pod template and of a rolling update."""
        super().default(obj)
        strategy = obj["spec"]["strategy"]
        if strategy["type"] == "RollingUpdate":
            strategy["rollingUpdate"] = {**ROLLING_UPDATE, **(strategy.get("rollingUpdate") or {})}

    def prepare_create(self, obj: Manifest) -> None:
        """Empty the status."""
        obj["status"] = {}

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new Deployment."""
        return check_replicas(obj["spec"]) + _check_strategy(obj["spec"]["strategy"]) + _check_limits(obj["spec"])


def check_replicas(spec: Manifest) -> list[FieldError]:
    """Return the field errors of the fields that both kinds share: the numbers, the selector and the pod template."""
    errors = [*non_negative("spec.replicas", spec["replicas"])]
    errors += non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    errors += check_selector_of(spec, "spec")
    selector = spec.get("selector")
    if selector is not None and check_selector(selector, ""):
        # Upstream does not validate the template then.
        return [*errors, invalid("spec.selector", selector, "invalid label selector")]
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        errors.append(invalid("spec.selector", selector, "empty selector is invalid for deployment"))
    return errors + _check_template(spec["template"])


def _check_template(template: Manifest) -> list[FieldError]:
    errors, spec = check_template(template, "spec.template"), template["spec"]
    if spec["restartPolicy"] != "Always":
        errors.append(not_supported("spec.template.spec.restartPolicy", spec["restartPolicy"], ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        words = "activeDeadlineSeconds in ReplicaSet is not Supported"
        errors.append(forbidden("spec.template.spec.activeDeadlineSeconds", words))
    return errors


def _check_strategy(strategy: Manifest) -> list[FieldError]:
    field, update = "spec.strategy.rollingUpdate", strategy.get("rollingUpdate")
    match strategy["type"]:
        case "RollingUpdate":
            return _check_rolling_update(update or {}, field)
        case "Recreate":
            words = "may not be specified when strategy `type` is 'Recreate'"
            return [forbidden(field, words)] if update is not None else []
        case _:
            return [not_supported("spec.strategy", strategy, ("Recreate", "RollingUpdate"))]


def _check_rolling_update(update: Manifest, field: str) -> list[FieldError]:
    unavailable, surge = update["maxUnavailable"], update["maxSurge"]
    errors = check_amount(unavailable, f"{field}.maxUnavailable") + check_amount(surge, f"{field}.maxSurge")
    if is_zero(unavailable) and is_zero(surge):
        errors.append(invalid(f"{field}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    if is_more_than_all(unavailable):
        errors.append(invalid(f"{field}.maxUnavailable", unavailable, "must not be greater than 100%"))
    return errors


def check_amount(amount: int | str, field: str) -> list[FieldError]:
    """Return the field errors of a number of pods, or of a share of them in percent."""
    if isinstance(amount, int):
        return non_negative(field, amount)
    return [] if _percent.fullmatch(amount) else [invalid(field, amount, _PERCENT_MESSAGE)]


def is_zero(amount: int | str) -> bool:
    """Return whether a number of pods, or a share of them, is none; a text that is no share counts as none."""
    if isinstance(amount, int):
        return amount == 0
    return not _percent.fullmatch(amount) or not amount.strip("0%")


def is_more_than_all(amount: int | str) -> bool:
    """Return whether a share of pods is more than 100 %; a number of them never is."""
    if not isinstance(amount, str) or not _percent.fullmatch(amount):
        return False
    percents = parse_int(amount[:-1])
    return percents is None or percents > 100


def _check_limits(spec: Manifest) -> list[FieldError]:
    errors = non_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))
    deadline = spec.get("progressDeadlineSeconds")
    errors += non_negative("spec.progressDeadlineSeconds", deadline)
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        errors.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return errors
