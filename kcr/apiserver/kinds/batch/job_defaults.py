"""What the server fills in on Jobs.

Source: kubernetes/pkg/apis/batch/v1/defaults.go, SetDefaults_Job.
"""

from kcr.apiserver.kinds.batch.selector import has_generated_labels, is_automatic
from kcr.apiserver.kinds.core.pod_defaults import default_pod_spec
from kcr.apiserver.kinds.strategy import Manifest

_NO_LIMIT = 2**31 - 1


def default_job(job: Manifest) -> None:
    """Fill in a Job."""
    spec: Manifest = job.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _NO_LIMIT if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    default_parts(spec)
    for condition in job.setdefault("status", {}).get("conditions") or ():
        condition.setdefault("lastProbeTime", None)
        condition.setdefault("lastTransitionTime", None)
    # A new Job has to wait: it takes the labels of its template after these were generated.
    if not is_automatic(job) or has_generated_labels(job):
        copy_labels(job)


def default_parts(spec: Manifest) -> None:
    """Fill in what lies within the spec of a Job: all that is filled in already where a CronJob carries it."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def copy_labels(job: Manifest) -> None:
    """Give a Job without labels those of its template."""
    metadata, labels = job.setdefault("metadata", {}), job["spec"]["template"]["metadata"].get("labels")
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)
