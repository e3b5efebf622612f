"""Shared informers: list and watch one kind into a local store, index it, and dispatch events to handlers.

A `Reflector` lists and watches. It writes through the `StoreWriter` interface of the `Informer`, which updates the
`Store` and calls the handlers. One informer of a kind serves all controllers of a manager (`manager.informer(Kind)`).

What it guarantees:

- **The store converges.** Whatever fails (connections, expired versions, proxies that cut streams, watches that are
  silent or repeat events), the store comes to hold what the server holds. A list replaces it as one change: no reader
  sees half of a list, and before the initial list is complete reading raises `NotSyncedError`.
- **Delivery is at least once, and coalesced.** After a gap, changes of one object are merged; a deletion that
  no watch event showed is delivered as one whose final state is unknown (client-go's tombstone). An object that was
  deleted and made again under its name is a deletion and an addition, never an update.
- **Order.** The changes of one object are dispatched in order, after the store has changed; there is no order between
  objects. All of it happens on the event loop, so between two awaits of a reconciler nothing changes under it.
- **Versions.** `Store.resource_version` never moves back. It is what read-your-writes compares with.
- **An informer ends with its last user.** `InformerHandle` is a counted reference (`manager.open_informer(Kind)`). When
  the last one is closed, the watch ends and the store is emptied: it says so, and never "there is no such object".
- **One bad object hides no other.** An object that cannot be decoded keeps its last good version, and is named in
  `Store.undecodable`.

Controllers are level-triggered: a handler enqueues the key of what changed, and the reconciler reads the store.
"""

from kcr.informer.cache import InformerHandle
from kcr.informer.handlers import Handler, Registration, Trigger
from kcr.informer.informer import Informer
from kcr.informer.selection import Selection
from kcr.informer.store import Store

__all__ = ["Handler", "Informer", "InformerHandle", "Registration", "Selection", "Store", "Trigger"]
