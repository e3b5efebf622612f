"""Resource quota controller: writes the hard limits and the usage of each quota into its status.

The API server's admission counts the usage, so that a limit holds exactly; the controller publishes it.

Source: kubernetes/pkg/controller/resourcequota/resource_quota_controller.go, syncResourceQuota.
"""

from contextlib import suppress

from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.client import Client
from kcr.controller import Result
from kcr.errors import NotFoundError
from kcr.manager import Manager
from kcr_devcluster.apiserver.quota.quotas import QuotaAdmission

# How often each status is computed again, which repairs one that another client has written.
# Source: kubernetes/pkg/controller/resourcequota/config/v1alpha1/defaults.go, ResourceQuotaSyncPeriod.
RESYNC_SECONDS = 300.0
_ResourceQuota = unstructured("v1", "ResourceQuota", plural="resourcequotas")


class QuotaStatusReconciler:
    """Writes the status of one quota; idempotent."""

    def __init__(self, client: Client, quotas: QuotaAdmission) -> None:
        self._client = client
        self._quotas = quotas

    async def reconcile(self, key: Key) -> Result:
        """Write the quota's status, unless the quota is deleted."""
        status = self._quotas.status(key)
        if status is None:
            return Result()
        replaced = {"op": "add", "path": "/status", "value": status}
        with suppress(NotFoundError):  # deleted meanwhile
            await self._client.json_patch(_ResourceQuota, key, [replaced], subresource="status")
        return Result(requeue_after=RESYNC_SECONDS)


def setup(manager: Manager, quotas: QuotaAdmission) -> None:
    """Add the controller.

    Args:
        manager: The manager.
        quotas: Counts the usage of every quota, and names those whose status may be out of date.
    """
    controller = manager.add_controller("resourcequota", QuotaStatusReconciler(manager.client, quotas), watches=())
    quotas.subscribe(controller.queue.add)
