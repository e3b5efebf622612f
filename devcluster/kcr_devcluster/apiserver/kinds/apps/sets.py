"""The strategies of ReplicationControllers, and of DaemonSets, PodTemplates and ControllerRevisions, which are stored.

Source: kubernetes/pkg/apis/apps/v1/defaults.go; pkg/apis/apps/validation/validation.go; pkg/apis/core/v1/defaults.go,
SetDefaults_ReplicationController; pkg/apis/core/validation/validation.go, ValidateReplicationControllerSpec.
"""

from kcr.api.durations import parse_int
from kcr.api.equality import same_json
from kcr_devcluster.apiserver.kinds.apps.deployments import check_amount, is_more_than_all, is_zero
from kcr_devcluster.apiserver.kinds.apps.statuses import check_workload_status
from kcr_devcluster.apiserver.kinds.generic import GenericStrategy, without_effect
from kcr_devcluster.apiserver.kinds.pods.defaults import default_pod_spec
from kcr_devcluster.apiserver.kinds.pods.validation.spec import check_template
from kcr_devcluster.apiserver.kinds.pods.warnings import template_warnings
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import (
    IMMUTABLE,
    FieldError,
    forbidden,
    invalid,
    non_negative,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest, semantic_equal
from kcr_devcluster.apiserver.protocol.names import check_selector, selects

_MISMATCH = "`selector` does not match template `labels`"
# Source: kubernetes/pkg/apis/apps/v1/conversion.go; pkg/registry/apps/daemonset/strategy.go.
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
# A longer count is not parsed: the integer of upstream has 64 bits.


class PodSetStrategy(Strategy):
    """Base strategy of kinds whose controllers create pods from a template."""

    has_generation = True
    # The name of a kind in messages whose controller does not run here; empty for others.
    display = ""
    # Whether Go's type holds the template by value.
    has_own_template = True

    def default(self, obj: Manifest) -> None:
        """Fill in the defaults of the pod template; in Go, an absent one has them as well."""
        if obj.get("spec") is None:
            obj["spec"] = {}
        if self.has_own_template and isinstance(obj["spec"], dict) and obj["spec"].get("template") is None:
            obj["spec"]["template"] = {}
        super().default(obj)
        if template := obj["spec"].get("template"):
            default_pod_spec(template["spec"])

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        return check_workload_status(new, old)

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return, on create, that no controller runs; and the warnings about a new or changed pod template."""
        found = [without_effect(self.display)] if old is None and self.display else []
        template = new["spec"].get("template")
        if template is None or (old is not None and template == old["spec"].get("template")):
            return found
        return [*template_warnings(template["spec"], "spec.template.spec"), *found]


def check_own_selector(spec: Manifest, empty: str, *, is_required: bool) -> list[FieldError]:
    """Return the field errors of a selector.

    Args:
        spec: The spec that holds it.
        empty: The detail of the error of a selector that selects everything.
        is_required: Whether its absence is an error.
    """
    selector = spec.get("selector")
    if selector is None:
        return [required("spec.selector")] if is_required else []
    errors = check_selector(selector, "spec.selector")
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        errors.append(invalid("spec.selector", selector, empty))
    return errors


def check_picked(spec: Manifest) -> list[FieldError]:
    """Return the field error of template labels that the selector does not pick; an invalid selector is no error."""
    selector, labels = spec.get("selector"), (spec["template"].get("metadata") or {}).get("labels")
    if selector is not None and (check_selector(selector, "") or selects(selector, labels or {})):
        return []
    return [invalid("spec.template.metadata.labels", labels or None, _MISMATCH)]


def check_runs(spec: Manifest, kind: str) -> list[FieldError]:
    """Return the field errors of a template whose pods could finish: its restart policy and its deadline."""
    made = (spec.get("template") or {}).get("spec") or {}
    field, errors = "spec.template.spec", []
    if made.get("restartPolicy") != "Always":
        errors.append(not_supported(f"{field}.restartPolicy", made.get("restartPolicy", ""), ("Always",)))
    if made.get("activeDeadlineSeconds") is not None:
        words = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden(f"{field}.activeDeadlineSeconds", words))
    return errors


class DaemonSetStrategy(PodSetStrategy):
    """DaemonSets: a selector that never changes, and a template that is validated whole."""

    stored_as = ("apps/v1", "DaemonSet")
    display = "daemonsets.apps"

    def default(self, obj: Manifest) -> None:
        """Fill in how many pods more and less there may be during a rolling update."""
        super().default(obj)
        strategy = obj["spec"]["updateStrategy"]
        if strategy["type"] == "RollingUpdate":
            amounts = {"maxUnavailable": 1, "maxSurge": 0}
            strategy["rollingUpdate"] = {**amounts, **(strategy.get("rollingUpdate") or {})}

    def prepare_create(self, obj: Manifest) -> None:
        """Set the numbers of a status that says nothing yet."""
        names = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
        obj["status"] = dict.fromkeys(names, 0)
        _set_template_generation(obj, 1)

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Count the changes of the template, in the annotation that stands for a field of older versions."""
        super().prepare_update(new, old)
        changed = new["spec"]["template"] != old["spec"]["template"]
        _set_template_generation(new, _template_generation(old) + changed)

    def prepare_status(self, new: Manifest, old: Manifest) -> None:
        """Keep the spec, and the count of changes of the template."""
        super().prepare_status(new, old)
        _set_template_generation(new, _template_generation(old))

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a DaemonSet."""
        spec = obj["spec"]
        template = spec["template"]
        errors = check_own_selector(spec, "empty selector is invalid for daemonset", is_required=False)
        errors += check_picked(spec)
        errors += check_template(template, "spec.template")
        errors += check_runs(spec, "DaemonSet")
        errors += non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        errors += _check_daemon_update(spec["updateStrategy"])
        return errors + non_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        selector = new["spec"].get("selector")
        errors = self.validate(new)
        if not semantic_equal(selector, old["spec"].get("selector")):
            errors.append(invalid("spec.selector", selector, "field is immutable"))
        return errors


def _template_generation(obj: Manifest) -> int:
    count = (obj["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "")
    return (parse_int(count) if count.isdecimal() else None) or 1


def _set_template_generation(obj: Manifest, count: int) -> None:
    annotations = obj["metadata"].get("annotations") or {}
    obj["metadata"]["annotations"] = {**annotations, _TEMPLATE_GENERATION: str(count)}


def _check_daemon_update(strategy: Manifest) -> list[FieldError]:
    field = "spec.updateStrategy"
    if strategy["type"] == "OnDelete":
        return []
    if strategy["type"] != "RollingUpdate":
        return [not_supported(field, strategy, ("RollingUpdate", "OnDelete"))]
    rolling, field = strategy["rollingUpdate"], f"{field}.rollingUpdate"
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    errors = check_amount(unavailable, f"{field}.maxUnavailable") + check_amount(surge, f"{field}.maxSurge")
    errors += [
        invalid(f"{field}.{name}", amount, "must not be greater than 100%")
        for name, amount in (("maxUnavailable", unavailable), ("maxSurge", surge))
        if is_more_than_all(amount)
    ]
    if not is_zero(unavailable) and not is_zero(surge):
        errors.append(invalid(f"{field}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif is_zero(unavailable) and is_zero(surge):
        errors.append(required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


class ReplicationControllerStrategy(PodSetStrategy):
    """ReplicationControllers: the selector is a map of labels, by default those of the template."""

    stored_as = ("v1", "ReplicationController")
    default_propagation = "Orphan"
    has_own_template = False

    def default(self, obj: Manifest) -> None:
        """Take the labels of the template where there is no selector, and where it has no labels itself."""
        super().default(obj)
        labels = ((obj["spec"].get("template") or {}).get("metadata") or {}).get("labels")
        if labels and not obj["spec"].get("selector"):
            obj["spec"]["selector"] = dict(labels)
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def prepare_create(self, obj: Manifest) -> None:
        """Set the number of a status that says nothing yet."""
        obj["status"] = {"replicas": 0}

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a ReplicationController."""
        spec = obj["spec"]
        template, selector = spec.get("template"), spec.get("selector") or {}
        errors = non_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        errors += [] if selector else [required("spec.selector")]
        errors += non_negative("spec.replicas", spec["replicas"])
        if template is None:
            return [*errors, required("spec.template")]
        labels = (template.get("metadata") or {}).get("labels")
        if selector and not selector.items() <= (labels or {}).items():
            errors.append(invalid("spec.template.metadata.labels", labels, _MISMATCH))
        return errors + check_template(template, "spec.template") + check_runs(spec, "ReplicationController")


class ControllerRevisionStrategy(GenericStrategy):
    """ControllerRevisions: data that never change, and their number.

    Source: kubernetes/pkg/apis/apps/validation/validation.go, ValidateControllerRevision.
    """

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a revision."""
        errors, data = non_negative("revision", obj.get("revision")), obj.get("data")
        if data is None:
            return [*errors, required("data", "data is mandatory")]
        return errors if isinstance(data, dict) else [*errors, required("data", "data must be a valid JSON object")]

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        errors = non_negative("revision", new.get("revision"))
        if not same_json(new.get("data"), old.get("data")):
            errors.append(invalid("data", new.get("data"), IMMUTABLE))
        return errors


class PodTemplateStrategy(Strategy):
    """PodTemplates, whose template is validated like any."""

    stored_as = ("v1", "PodTemplate")
    has_generation = True

    def default(self, obj: Manifest) -> None:
        """Fill in the defaults of the pod template."""
        super().default(obj)
        default_pod_spec(obj["template"]["spec"])

    def is_new_generation(self, new: Manifest, old: Manifest) -> bool:
        """Return whether an update changes the template."""
        changed: bool = new.get("template") != old.get("template")
        return changed

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a PodTemplate."""
        return check_template(obj["template"], "template")

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return, on create, that nothing uses it."""
        return [without_effect("podtemplates")] if old is None else []
