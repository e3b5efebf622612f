"""The strategy of PriorityClasses, and the two that every cluster has.

Source: kubernetes/pkg/apis/scheduling/validation/validation.go, ValidatePriorityClass and ValidatePriorityClassUpdate;
pkg/apis/scheduling/v1/{defaults,helpers}.go; pkg/registry/scheduling/priorityclass/strategy.go.
"""

from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import IMMUTABLE, FieldError, forbidden, invalid, one_of
from kcr_devcluster.apiserver.protocol.manifests import Manifest

HIGHEST_USER_PRIORITY = 1_000_000_000
PREEMPT = "PreemptLowerPriority"
_SYSTEM = "system-"
_POLICIES = (PREEMPT, "Never")

SYSTEM_PRIORITY_CLASSES: tuple[Manifest, ...] = (
    {
        "metadata": {"name": "system-node-critical"},
        "value": 2_000_001_000,
        "description": "Used for system critical pods that must not be moved from their current node.",
    },
    {
        "metadata": {"name": "system-cluster-critical"},
        "value": 2_000_000_000,
        "description": "Used for system critical pods that must run in the cluster, but can be moved to another node "
        "if necessary.",
    },
)


class PriorityClassStrategy(Strategy):
    """PriorityClasses: the value and the preemption policy are immutable."""

    stored_as = ("scheduling.k8s.io/v1", "PriorityClass")
    has_generation = True

    def default(self, obj: Manifest) -> None:
        """Set the preemption policy."""
        super().default(obj)
        obj.setdefault("preemptionPolicy", PREEMPT)
        obj.setdefault("value", 0)

    def is_new_generation(self, new: Manifest, old: Manifest) -> bool:
        """Return that the generation stays 1."""
        return False

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Change nothing: there is no status to keep."""

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new class."""
        name, value, policy = obj["metadata"]["name"], obj["value"], obj["preemptionPolicy"]
        errors: list[FieldError] = []
        if name.startswith(_SYSTEM):
            if reason := _why_not_of_the_system(obj):
                words = f"priority class names with '{_SYSTEM}' prefix are reserved for system use only."
                errors.append(forbidden("metadata.name", f"{words} error: {reason}"))
        elif value > HIGHEST_USER_PRIORITY:
            words = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            errors.append(forbidden("value", words))
        return errors + one_of("preemptionPolicy", policy, _POLICIES)

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update."""
        errors: list[FieldError] = []
        if new["value"] != old.get("value", 0):
            errors.append(forbidden("value", "may not be changed in an update."))
        if new["preemptionPolicy"] != old.get("preemptionPolicy"):
            errors.append(invalid("preemptionPolicy", new["preemptionPolicy"], IMMUTABLE))
        return errors


def _why_not_of_the_system(obj: Manifest) -> str:
    known = next((one for one in SYSTEM_PRIORITY_CLASSES if one["metadata"]["name"] == obj["metadata"]["name"]), None)
    if known is None:
        return f"{obj['metadata']['name']} is not a known system priority class"
    if obj["value"] != known["value"]:
        return f"value of {obj['metadata']['name']} PriorityClass must be {known['value']}"
    if obj.get("globalDefault"):
        return f"globalDefault of {obj['metadata']['name']} PriorityClass must be false"
    return ""
