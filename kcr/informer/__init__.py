"""Shared informers: list and watch one kind into a local store, index it, and dispatch events to handlers.

A `Reflector` lists and watches. It writes to the `StoreWriter` of its `Informer`, which updates the `Store` and calls
the handlers. One informer per kind serves all controllers of a manager (`manager.informer(Kind)`).
Guarantees to handlers and readers:

- **Convergence.** The store converges to the server's state, despite lost connections, expired versions, and streams
  that are cut, silent or repeated. A list replaces the contents in one step: readers never see a partial list, and
  reads before the initial list raise `NotSyncedError`.
- **At-least-once, coalesced delivery.** After a gap, changes of one object are merged. A deletion without a watch
  event is delivered with an unknown final state (client-go's tombstone). An object that was deleted and created
  again under its name is a deletion and an addition, never an update.
- **Order.** Changes of one object are dispatched in order, after the store has changed; there is no order between
  objects. All of it happens on the event loop, so the store stays unchanged between two awaits of a reconciler.
- **Versions.** `Store.resource_version` only increases; read-your-writes compares with it.
- **Reference counting.** `InformerHandle` is a counted reference (`manager.open_informer(Kind)`). Closing the last one
  ends the watch and empties the store, whose reads then raise `NotSyncedError` instead of returning nothing.
- **Isolation of bad objects.** An undecodable object keeps its last good version, and is named in
  `Store.undecodable`; all others are unaffected.

Handlers enqueue the keys of changed objects, and level-triggered reconcilers read the store.
"""

from kcr.informer.cache import InformerHandle
from kcr.informer.handlers import ChangeHandler, Handler, Registration, Trigger
from kcr.informer.informer import Informer
from kcr.informer.selection import Selection
from kcr.informer.store import Store, version_of

__all__ = [
    "ChangeHandler", "Handler", "Informer", "InformerHandle", "Registration", "Selection", "Store", "Trigger",
    "version_of",
]  # fmt: skip
