"""Defaults of Jobs, and the selector that the server generates.

The uid makes the selector unique over time and kinds; the name is for people. Keys that are present are never
overwritten: a Job that is posted again with the labels of another is refused, not repaired.

Source: kubernetes/pkg/apis/batch/v1/defaults.go, SetDefaults_Job; pkg/registry/batch/job/strategy.go, generateSelector;
pkg/apis/batch/validation/validation.go, validateGeneratedSelector.
"""

from kcr_devcluster.apiserver.kinds.pods.defaults import default_pod_spec
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import check_selector, selects

_NO_LIMIT = 2**31 - 1


def default_job(job: Manifest) -> None:
    """Fill in a Job."""
    spec: Manifest = job["spec"]
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _NO_LIMIT if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    default_parts(spec)
    # A new Job has to wait: it takes the labels of its template after these were generated.
    if not is_automatic(job) or has_generated_labels(job):
        copy_labels(job)


def default_parts(spec: Manifest) -> None:
    """Fill in the defaults inside the spec of a Job, which the job template of a CronJob gets as well."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"
    default_pod_spec(spec["template"]["spec"])


def copy_labels(job: Manifest) -> None:
    """Give a Job without labels those of its template."""
    metadata, labels = job.setdefault("metadata", {}), job["spec"]["template"]["metadata"].get("labels")
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


UID_LABEL, NAME_LABEL = "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"
_OLD_UID_LABEL, _OLD_NAME_LABEL = "controller-uid", "job-name"


def is_automatic(job: Manifest) -> bool:
    """Return whether the server makes the selector."""
    return job["spec"].get("manualSelector") is not True


def has_generated_labels(job: Manifest) -> bool:
    """Return whether the template carries both prefixed labels."""
    labels = _template_labels(job)
    return UID_LABEL in labels and NAME_LABEL in labels


def generate_selector(job: Manifest) -> None:
    """Add the four labels to the template and the uid to the selector, where they are missing."""
    uid, name = job["metadata"]["uid"], job["metadata"]["name"]
    labels: Manifest = job["spec"]["template"]["metadata"].setdefault("labels", {})
    for key, value in _expected(uid, name, prefixed=True).items():
        labels.setdefault(key, value)
    selector: Manifest = job["spec"].setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault(UID_LABEL, uid)


def check_generated_selector(job: Manifest, *, prefixed: bool) -> list[FieldError]:
    """Return the field errors of labels and selector where the server makes them.

    Args:
        job: The Job after `generate_selector`.
        prefixed: Whether the two prefixed labels are demanded; very old Jobs lack them.
    """
    selector = job["spec"].get("selector")
    if not is_automatic(job) or selector is None:
        return []
    labels = _template_labels(job)
    expected = _expected(job["metadata"].get("uid", ""), job["metadata"].get("name", ""), prefixed=prefixed)
    errors: list[FieldError] = []
    for key, value in expected.items():
        field, words = f"spec.template.metadata.labels[{key}]", f"must be '{value}'"
        if key not in labels:
            errors.append(required(field, words))
        elif labels[key] != value:
            errors.append(invalid(field, labels, words))
    if not check_selector(selector, "spec.selector") and not selects(selector, expected):
        errors.append(invalid("spec.selector", selector, "`selector` not auto-generated"))
    return errors


def _expected(uid: str, name: str, *, prefixed: bool) -> dict[str, str]:
    old = {_OLD_UID_LABEL: uid, _OLD_NAME_LABEL: name}
    return {**old, UID_LABEL: uid, NAME_LABEL: name} if prefixed else old


def _template_labels(job: Manifest) -> Manifest:
    labels: Manifest | None = job["spec"]["template"]["metadata"].get("labels")
    return labels or {}
