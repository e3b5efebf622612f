"""The strategy of PodDisruptionBudgets.

Source: kubernetes/pkg/apis/policy/validation/validation.go, ValidatePodDisruptionBudgetSpec and
ValidatePodDisruptionBudgetStatusUpdate.
"""

from kcr_devcluster.apiserver.kinds.apps.deployments import check_amount, is_more_than_all
from kcr_devcluster.apiserver.kinds.conditions import check_conditions
from kcr_devcluster.apiserver.kinds.generic import GenericStrategy
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid, non_negative, not_supported
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import check_selector

# The numbers of a status, which Go always writes.
_NUMBERS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


class BudgetStrategy(GenericStrategy):
    """PodDisruptionBudgets: either how many pods stay, or how many may go."""

    stored_as = ("policy/v1", "PodDisruptionBudget")

    def __init__(self) -> None:
        super().__init__("poddisruptionbudgets.policy", has_generation=True)

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return none: the disruption controller acts on budgets."""
        return []

    def prepare_create(self, obj: Manifest) -> None:
        """Set the numbers of a status that says nothing yet."""
        obj["status"] = dict.fromkeys(_NUMBERS, 0)

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a budget."""
        spec, errors = obj.get("spec") or {}, []
        amounts = {name: spec[name] for name in ("minAvailable", "maxUnavailable") if spec.get(name) is not None}
        if len(amounts) > 1:
            errors.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
        for name, amount in amounts.items():
            errors += check_amount(amount, f"spec.{name}")
            if is_more_than_all(amount):
                errors.append(invalid(f"spec.{name}", amount, "must not be greater than 100%"))
        errors += check_selector(spec.get("selector") or {}, "spec.selector")
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _EVICTION_POLICIES:
            errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES))
        return errors

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        status = new.get("status") or {}
        errors = check_conditions(status.get("conditions") or (), "status.conditions")
        return errors + [error for name in _NUMBERS for error in non_negative(f"status.{name}", status.get(name))]
