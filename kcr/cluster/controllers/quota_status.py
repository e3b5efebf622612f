"""Keeps the status of quotas: what they allow, and what is used. A client like any other.

Source: kubernetes/pkg/controller/resourcequota/resource_quota_controller.go, syncResourceQuota.
"""

import asyncio
import logging

from kcr.api.meta import Key, Resource
from kcr.apiserver.quota.quotas import Quotas
from kcr.client import Client
from kcr.cluster.controllers.pending import Pending
from kcr.errors import ApiError, NotFoundError, TransportError

_PAUSE_SECONDS = 1.0

_log = logging.getLogger(__name__)


class _ResourceQuota(Resource, api_version="v1", kind="ResourceQuota", plural="resourcequotas"):
    """A quota; only its key matters here."""


class QuotaStatusWriter:
    """Writes the status of each quota that has changed. `run` does so until it is cancelled."""

    def __init__(self, client: Client, quotas: Quotas) -> None:
        self._client = client
        self._quotas = quotas
        self._changed: Pending[Key] = Pending()
        quotas.on_change = self._changed.add

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            key = await self._changed.next()
            try:
                await self._write(key)
            except NotFoundError:
                continue
            except (ApiError, TransportError) as error:
                _log.warning("quota %s: status not written: %s", key, error)
                self._changed.add(key)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _write(self, key: Key) -> None:
        status = self._quotas.status(key)
        if status is not None:
            replaced = {"op": "add", "path": "/status", "value": status}
            await self._client.json_patch(_ResourceQuota, key, [replaced], subresource="status")
