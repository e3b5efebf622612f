"""ValidatingAdmissionPolicy status controller: writes the results of type checking into the status of each policy.

A policy is checked once for each generation; a kind that is defined later is not found by it.

Source: kubernetes/pkg/controller/validatingadmissionpolicystatus/controller.go.
"""

from contextlib import suppress

from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.controller import Result, watch
from kcr.errors import NotFoundError
from kcr.manager import Manager
from kcr_devcluster.apiserver.admission.policies.type_checking import expression_warnings
from kcr_devcluster.apiserver.kinds.served import ServedIndex

# The controller's name and field manager; upstream's.
_MANAGER = "validatingadmissionpolicy-status"
_Policy = unstructured(
    "admissionregistration.k8s.io/v1",
    "ValidatingAdmissionPolicy",
    plural="validatingadmissionpolicies",
    namespaced=False,
)


class PolicyStatusReconciler:
    """Checks the types of one policy; level-triggered and idempotent."""

    def __init__(self, manager: Manager, served: ServedIndex) -> None:
        self._client = manager.client
        self._policies = manager.store(_Policy)
        self._served = served

    async def reconcile(self, key: Key) -> Result:
        """Write the status of a policy, unless this generation has been checked."""
        policy = self._policies.get(key)
        if policy is None:
            return Result()
        generation = policy.metadata.generation
        if generation <= (policy.get("status") or {}).get("observedGeneration", 0):
            return Result()
        warnings = expression_warnings(policy.get("spec") or {}, self._served)
        checked = {"expressionWarnings": warnings} if warnings else {}
        status = {"observedGeneration": generation, "typeChecking": checked}
        applied = {"metadata": {"name": key.name}, "status": status}
        with suppress(NotFoundError):  # deleted meanwhile
            await self._client.apply_manifest(_Policy, applied, field_owner=_MANAGER, force=True, subresource="status")
        return Result()


def setup(manager: Manager, served: ServedIndex) -> None:
    """Add the controller.

    Args:
        manager: The manager.
        served: The kinds whose types expressions can name.
    """
    manager.add_controller(_MANAGER, PolicyStatusReconciler(manager, served), watches=[watch(_Policy)])
