"""Conflicts that repeat: a key whose store has lost a watch event meets the same 409 at every retry.

A reconcile that fails with a conflict (409) is retried, and mostly the watch has shown the newer object by then. Where
the store still shows the version of the last conflict, the object is compared with the server. A store that has passed
the server's version of the object without showing it has lost the event, for a watch delivers in order: no other event
need ever come, so the informer lists again. A store that has not passed it yet is late, and needs nothing but time.

A conflict may also come from elsewhere, such as another object or an outside service, and then it may last: comparisons
of one object at one version are a second apart, and later 30 s.
"""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, NamedTuple

from kcr.api.meta import Key
from kcr.client import Client
from kcr.controller.observers import Observer, ReconcileRun
from kcr.errors import ConflictError, KcrError, TerminalError
from kcr.informer import Informer, InformerHandle, Store
from kcr.informer.store import version_of

# How long the worker waits for the server: no timeout of a reconcile counts here.
_LOOK_SECONDS = 5.0
# Between two comparisons of one object at one version: the first pause, which doubles each time, and the longest.
_FIRST_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 30.0


class _Met(NamedTuple):
    """The conflicts that a key has met at one version.

    Attributes:
        version: The version that the store shows of the object.
        next_look: The loop's time from which the next conflict is followed by a comparison.
        pause: The seconds from that comparison to the one after it.
    """

    version: str
    next_look: float
    pause: float


class Conflicts(Observer):
    """The conflicts of one controller's keys; shared by its workers."""

    def __init__(self, client: Client) -> None:
        """Know of no conflict; `client` reads objects."""
        self._client = client
        # Watches the objects that the keys name; None when they name none that is known.
        self._informer: Informer[Any] | InformerHandle[Any] | None = None
        self._store: Store[Any] | None = None
        # The last conflict of each key that has met one, until its reconcile meets none.
        self._met: dict[Key, _Met] = {}

    def watch(self, informer: Informer[Any] | InformerHandle[Any]) -> None:
        """Compare the objects of this informer, whose keys are those of the controller."""
        self._informer, self._store = informer, informer.store

    def end(self, run: ReconcileRun) -> Awaitable[None] | None:
        """Note a conflict, or forget those of a key whose reconcile met none; compare one that has met two."""
        key, causes = run.key, run.causes
        if not causes:
            if self._met and run.outcome != "cancelled":
                self._met.pop(key, None)
            return None
        if all(isinstance(cause, TerminalError) for cause in causes):
            self._met.pop(key, None)
        elif all(isinstance(cause, ConflictError) for cause in causes) and self._note(key, run.ended):
            return self._inspect(key)
        return None

    def _note(self, key: Key, now: float) -> bool:
        version, met = self._shown(key), self._met.get(key)
        if not version or met is None or met.version != version:
            self._met[key] = _Met(version, now, _FIRST_PAUSE_SECONDS)
            return False
        if is_due := now >= met.next_look:
            self._met[key] = _Met(version, now + met.pause, min(2 * met.pause, _MAX_PAUSE_SECONDS))
        return is_due

    async def _inspect(self, key: Key) -> None:
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
