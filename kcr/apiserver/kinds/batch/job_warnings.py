"""What the user should know about Jobs, and about CronJobs for their Jobs, that are accepted all the same.

Source: kubernetes/pkg/registry/batch/job/strategy.go, WarningsOnCreate and WarningsForJobSpec.
"""

from kcr.apiserver.kinds.core.names import dns_label
from kcr.apiserver.kinds.core.pod_warnings import template_warnings
from kcr.apiserver.kinds.strategy import Manifest

_MANY_COMPLETIONS, _MUCH_PARALLELISM = 100_000, 10_000


def name_warnings(obj: Manifest) -> list[str]:
    """Return the warning of a name that pods cannot carry on as their hostname."""
    reasons = dns_label(obj["metadata"].get("name", ""))
    if not reasons:
        return []
    return [
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(reasons)}]"
    ]


def spec_warnings(spec: Manifest, field: str) -> list[str]:
    """Return the warnings of the spec of a Job."""
    warnings: list[str] = []
    if (
        spec.get("completionMode") == "Indexed"
        and (spec.get("completions") or 0) > _MANY_COMPLETIONS
        and (spec.get("parallelism") or 0) > _MUCH_PARALLELISM
    ):
        warnings.append(
            f"{field}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
            "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        )
    return warnings + template_warnings(spec["template"]["spec"], f"{field}.template.spec")
