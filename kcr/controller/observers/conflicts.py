"""Conflicts that repeat: a key whose store has lost a watch event meets the same 409 at every retry.

A reconcile that fails with a conflict (409) is retried, and mostly the watch has shown the newer object by then. Where
the store still shows the version of the last conflict, the object is compared with the server. A store that has passed
the server's version of the object without showing it has lost the event, for a watch delivers in order: no other event
need ever come, so the informer lists again. A store that has not passed it yet is late, and needs nothing but time.

A conflict is the one trace that a lost event leaves, and it is left only where an object is written with its
resourceVersion as the precondition.
"""

import asyncio
from contextlib import suppress
from typing import Any

from kcr.api.meta import Key
from kcr.client import Client
from kcr.errors import KcrError
from kcr.informer import Informer, InformerHandle, Store
from kcr.informer.store import version_of

# How long the worker waits for the server: no timeout of a reconcile counts here.
_LOOK_SECONDS = 5.0


class Conflicts:
    """The conflicts of one controller's keys; shared by its workers."""

    def __init__(self, client: Client | None) -> None:
        """Know of no conflict; `client` reads objects, None leaves that out."""
        self._client = client
        # Watches the objects that the keys name; None when they name none that is known.
        self._informer: Informer[Any] | InformerHandle[Any] | None = None
        self._store: Store[Any] | None = None
        # The version at which the store showed the object of a key at its last conflict.
        self._versions: dict[Key, str] = {}
        # Keys whose store has shown the same version at two conflicts.
        self._suspects: set[Key] = set()

    def watch(self, informer: Informer[Any] | InformerHandle[Any]) -> None:
        """Compare the objects of this informer, whose keys are those of the controller."""
        self._informer, self._store = informer, informer.store

    def note(self, key: Key) -> None:
        """Note that a reconcile of a key has met a conflict."""
        version = self._shown(key)
        if version and self._versions.get(key) == version:
            self._suspects.add(key)
        self._versions[key] = version

    def forget(self, key: Key) -> None:
        """Forget the conflicts of a key whose reconcile met none."""
        if self._versions:
            self._versions.pop(key, None)

    @property
    def has_suspects(self) -> bool:
        """Whether a key has met two conflicts at the same version, and was not inspected since."""
        return bool(self._suspects)

    async def inspect(self, key: Key) -> None:
        """Compare a key's object with the server if it has met two conflicts, and list again if an event was lost."""
        if key not in self._suspects:
            return
        self._suspects.discard(key)
        with suppress(KcrError, TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._compare(key)

    async def _compare(self, key: Key) -> None:
        informer, store, shown = self._informer, self._store, self._shown(key)
        if self._client is None or informer is None or store is None or not shown:
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
