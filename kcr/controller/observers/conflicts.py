"""Conflicts that repeat: a key whose store has lost a watch event meets the same 409 at every retry.

A reconcile that fails with a conflict (409) is retried, and mostly the watch has shown the newer object by then. Where
the store still shows the version of the last conflict, the object is compared with the server. A store that has passed
the server's version of the object without showing it has lost the event, for a watch delivers in order: no other event
need ever come, so the informer lists again. A store that has not passed it yet is late, and needs nothing but time.

A conflict is the one trace that a lost event leaves, and it is left only where an object is written with its
resourceVersion as the precondition.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from kcr.api.meta import Key
from kcr.client import Client
from kcr.controller.observers import Observer, ReconcileRun
from kcr.errors import ConflictError, KcrError, TerminalError
from kcr.informer import Informer, InformerHandle, Store
from kcr.informer.store import version_of

# How long the worker waits for the server: no timeout of a reconcile counts here.
_LOOK_SECONDS = 5.0


class Conflicts(Observer):
    """The conflicts of one controller's keys; shared by its workers."""

    def __init__(self, client: Client) -> None:
        """Know of no conflict; `client` reads objects."""
        self._client = client
        # Watches the objects that the keys name; None when they name none that is known.
        self._informer: Informer[Any] | InformerHandle[Any] | None = None
        self._store: Store[Any] | None = None
        # The version at which the store showed the object of a key at its last conflict.
        self._versions: dict[Key, str] = {}

    def watch(self, informer: Informer[Any] | InformerHandle[Any]) -> None:
        """Compare the objects of this informer, whose keys are those of the controller."""
        self._informer, self._store = informer, informer.store

    def end(self, run: ReconcileRun) -> Awaitable[None] | None:
        """Note a conflict, or forget those of a key whose reconcile met none; compare one that has met two."""
        key, causes = run.key, run.causes
        if not causes:
            if self._versions and run.outcome != "cancelled":
                self._versions.pop(key, None)
            return None
        if all(isinstance(cause, TerminalError) for cause in causes):
            self._versions.pop(key, None)
        elif all(isinstance(cause, ConflictError) for cause in causes):
            version = self._shown(key)
            repeated = bool(version) and self._versions.get(key) == version
            self._versions[key] = version
            if repeated:
                return self._inspect(key)
        return None

    async def _inspect(self, key: Key) -> None:
        """Compare a key's object with the server, and list again if an event was lost."""
        with suppress(KcrError, TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._compare(key)

    async def _compare(self, key: Key) -> None:
        informer, store, shown = self._informer, self._store, self._shown(key)
        if informer is None or store is None or not shown:
            return
        # A list, because a controller has the right to that for sure.
        found = await self._client.list(informer.kind, key.namespace, fields=f"metadata.name={key.name}")
        live = found[0].metadata.resource_version if found else ""
        if version_of(shown) < version_of(live) <= store.resource_version and self._shown(key) == shown:
            name = f"{informer.kind.resource.display} {key}"
            why = f"{name} is at version {live}, and the store shows {shown}: its writes meet conflicts"
            informer.note_lost_event(why)

    def _shown(self, key: Key) -> str:
        store = self._store
        # A store that is not synced, or closed, shows no objects.
        obj = store.get(key) if store is not None and store.synced and not store.is_closed else None
        return "" if obj is None else str(obj.metadata.resource_version)
