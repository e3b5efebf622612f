"""Keys that rest until the stores show what was written for them: nobody decides on a past of his own making."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from kcr.api.meta import Key
from kcr.errors import KcrError
from kcr.informer import Store
from kcr.informer.store import version_of

# How long a key rests for a store, before that becomes an error.
PATIENCE_SECONDS = 0.5


class StaleStoreError(KcrError):
    """A store still lags behind our own writes; the key is tried again, later each time."""


class Parking:
    """Remembers what a reconciler wrote for each key, and whether the stores show it yet.

    The reconciler reports its writes with `wrote`. A controller that is given the parking does not reconcile a key
    before the stores have reached the versions reported; the key is parked then, holds no worker, and comes back
    the moment they do. A watch that is late by more than half a second makes the key fail, and be tried again.

    Nothing is remembered by uid: versions only grow, so that whatever was written to an object is older than all that
    a store shows of its successor under the same name.
    """

    def __init__(self, behind: Callable[[Store[Any]], None] | None = None) -> None:
        """Wait for nothing so far.

        Args:
            behind: Told of each store that keeps a key from its reconcile, every time; for those who count.
        """
        self._debts: dict[Key, _Debt] = {}
        self._behind = behind

    def wrote(self, key: Key, store: Store[Any], version: str) -> None:
        """Note a write.

        Args:
            key: The key that was being reconciled.
            store: Where the object that was written will show up.
            version: Its `metadata.resourceVersion` as the server returned it.
        """
        versions = self._debts.setdefault(key, _Debt()).versions
        # A version that is no number cannot be compared: 0 has always been reached.
        versions[store] = max(versions.get(store, 0), version_of(version))

    def forget(self, key: Key) -> None:
        """Wait for nothing: the stores show everything, or the key's object is gone."""
        debt = self._debts.pop(key, None)
        if debt is not None and debt.timer is not None:
            debt.timer.cancel()

    def rests(self, key: Key, wake: Callable[[], None]) -> bool:
        """Return whether a key that a worker is about to reconcile has to rest.

        Args:
            key: The key.
            wake: Brings the key back; called when a store catches up or patience ends, perhaps more than once.

        Raises:
            StaleStoreError: It has rested for long enough.
        """
        debt = self._debts.get(key)
        if debt is None:
            return False
        behind = [(store, version) for store, version in debt.versions.items() if store.resource_version < version]
        if not behind:
            self.forget(key)
            return False
        if self._behind is not None:
            for store, _ in behind:
                self._behind(store)
        if debt.overdue:
            raise StaleStoreError(f"{key}: the store does not show our own write yet; its watch is late")
        if debt.timer is None:
            # An empty context: the timer outlives the turn that sets it, and must not log in its name.
            debt.timer = asyncio.get_running_loop().call_later(
                PATIENCE_SECONDS, _lose_patience, debt, wake, context=contextvars.Context()
            )
            for store, version in behind:
                store.notify_at_version(version, wake)
        return True


class _Debt:
    """What the stores have yet to show for one key."""

    __slots__ = ("overdue", "timer", "versions")

    def __init__(self) -> None:
        self.versions: dict[Store[Any], int] = {}
        # Runs while the key rests in patience. It is not the queue's: a later turn the key has there stays its own.
        self.timer: asyncio.TimerHandle | None = None
        self.overdue = False


def _lose_patience(debt: _Debt, wake: Callable[[], None]) -> None:
    debt.overdue = True
    wake()
