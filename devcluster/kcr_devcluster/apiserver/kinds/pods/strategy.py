"""The strategy of pods.

Source: kubernetes/pkg/registry/core/pod/strategy.go.
"""

from kcr_devcluster.apiserver.kinds.pods.defaults import default_pod, select_own_labels, tolerate_eviction
from kcr_devcluster.apiserver.kinds.pods.resize import prepare_resize, validate_resize
from kcr_devcluster.apiserver.kinds.pods.status import check_pod_status, default_pod_status
from kcr_devcluster.apiserver.kinds.pods.update import check_pod_update
from kcr_devcluster.apiserver.kinds.pods.validation.annotations import check_pod_annotations
from kcr_devcluster.apiserver.kinds.pods.validation.resources import qos_class
from kcr_devcluster.apiserver.kinds.pods.validation.spec import check_images, check_pod_spec
from kcr_devcluster.apiserver.kinds.pods.warnings import annotation_warnings, template_warnings
from kcr_devcluster.apiserver.kinds.strategy import Strategy, UpdateRules
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_label

# Fields that admission sets once.
_SELECTING = frozenset({"affinity", "topologySpreadConstraints"})
_ADMITTED = ("priority", "preemptionPolicy")
_GATED: Manifest = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "lastProbeTime": None,
}


class PodStrategy(Strategy):
    """Pods: deletion is graceful, and most of the spec is immutable."""

    stored_as = ("v1", "Pod")
    status_resets = ("spec", "metadata.deletionTimestamp", "metadata.ownerReferences")
    has_generation = True
    graceful_deletion = True

    def default(self, obj: Manifest) -> None:
        """Fill in the defaults of spec and status."""
        super().default(obj)
        default_pod(obj["spec"])
        default_pod_status(obj["status"])

    def prepare_create(self, obj: Manifest) -> None:
        """Reset the status; admission has set priority and tolerations."""
        if not _SELECTING.isdisjoint(obj["spec"]):
            select_own_labels(obj["spec"], obj["metadata"].get("labels") or {})
        _end_soon(obj["spec"])
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj["spec"])}
        if obj["spec"].get("schedulingGates"):
            obj["status"]["conditions"] = [{**_GATED, "lastTransitionTime": obj["metadata"].get("creationTimestamp")}]

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status; fields set by admission are set again where they are missing."""
        super().prepare_update(new, old)
        for name in _ADMITTED:
            if name in old["spec"]:
                new["spec"].setdefault(name, old["spec"][name])
        _end_soon(new["spec"])
        tolerate_eviction(new)

    def prepare_status(self, new: Manifest, old: Manifest) -> None:
        """Keep the spec, the owner references, and status fields that are not set again."""
        super().prepare_status(new, old)
        status, stored = new.setdefault("status", {}), old.get("status") or {}
        for name in ("qosClass", "observedGeneration"):
            if not status.get(name) and stored.get(name):
                status[name] = stored[name]

    def resets(self, subresource: str) -> tuple[str, ...]:
        """Return the fields that a write leaves as they are."""
        return super().resets("" if subresource == "resize" else subresource)

    def update_rules(self, subresource: str) -> UpdateRules:
        """Return the rules of an update of the pod, of its resources, or of its status."""
        if subresource == "resize":
            return UpdateRules(prepare_resize, validate_resize, writes_spec=True)
        return super().update_rules(subresource)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new pod."""
        spec = obj["spec"]
        errors = check_pod_spec(spec, "spec") + check_images(spec)
        if annotations := obj["metadata"].get("annotations"):
            errors += check_pod_annotations(annotations, spec, "metadata.annotations")
        if spec.get("ephemeralContainers"):
            errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            words = "cannot be set until all schedulingGates have been cleared"
            errors.append(forbidden("spec.nodeName", words))
        return errors

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update; a spec that does not change is not validated again."""
        if new["spec"] == old["spec"]:
            return []
        return check_pod_spec(new["spec"], "spec") + check_pod_update(new["spec"], old["spec"])

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        return check_pod_status(new["status"], old.get("status") or {}, old["spec"])

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return the warnings about a pod that is valid."""
        if old is not None:
            return [] if new["spec"] == old["spec"] else template_warnings(new["spec"], "spec")
        warnings = template_warnings(new["spec"], "spec")
        if annotations := new["metadata"].get("annotations"):
            warnings += annotation_warnings(annotations, "metadata.annotations")
        reasons = dns_label(new["metadata"].get("name", ""))
        if reasons:
            warnings.insert(
                0,
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
                f"a DNS label is recommended: [{' '.join(reasons)}]",
            )
        return warnings


def _end_soon(spec: Manifest) -> None:
    """Give a pod whose grace period is negative one of a second."""
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1
