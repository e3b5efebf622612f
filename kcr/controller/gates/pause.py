"""Objects that are not reconciled for as long as an annotation says so.

The annotation `kcr.dev/paused: "true"` on an object keeps each controller whose keys name objects of that kind from
reconciling it, its deletion included: finalizers of the controller stay. Everything else goes on: the store follows
the object, handlers enqueue its key, and the key is dropped when a worker takes it, so that a paused object holds no
worker and is not retried. A reconciler is level-triggered, so nothing is lost: the change that removes the annotation
enqueues the key, and the reconcile finds what has happened meanwhile.

Source: cluster-api/util/annotations/helpers.go, HasPaused: there any value counts, and deletion is paused as well.
"""

from typing import Any

from kcr.api.meta import Key, Resource
from kcr.controller.gates import GateDecision
from kcr.informer import Store
from kcr.log import get_logger
from kcr.metrics import ControllerMetrics

PAUSED = "kcr.dev/paused"

_log = get_logger()


def is_paused(obj: Resource) -> bool:
    """Return whether an object's annotations say that no controller reconciles it."""
    return obj.metadata.annotations.get(PAUSED) == "true"


def is_resumed(old: Resource, new: Resource) -> bool:
    """Return whether a change ends a pause."""
    return is_paused(old) and not is_paused(new)


class Pauses:
    """Drops the keys of paused objects; a gate. The change that ends a pause enqueues its key.

    Attributes:
        store: The objects that the controller's keys name; None when keys name none that it knows of, and then no key
            is paused.
    """

    def __init__(self, metrics: ControllerMetrics) -> None:
        """Know of no paused object; `metrics` count them."""
        self.store: Store[Any] | None = None
        # The uids of the paused objects whose keys have come: one log line for each pause, however many events.
        self._uids: dict[Key, str] = {}
        self._metrics = metrics

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of paused objects, as far as they have come; it may be read in any thread."""
        return tuple(self._uids)

    def check(self, key: Key) -> GateDecision:
        """Drop a key whose object is paused; the first decision that is new is logged."""
        store = self.store
        # A store that is not synced, or closed, shows no objects; what reads it then says so itself.
        obj = store.get(key) if store is not None and store.synced and not store.is_closed else None
        if obj is None or not is_paused(obj):
            if self._uids and self._uids.pop(key, None) is not None:
                self._metrics.paused = len(self._uids)
                _log.info("resumed" if obj is not None else "paused object was deleted")
            return GateDecision.ADMIT
        if self._uids.get(key) != obj.metadata.uid:
            self._uids[key] = obj.metadata.uid
            self._metrics.paused = len(self._uids)
            _log.info("paused, not reconciled", annotation=f"{PAUSED}=true", version=obj.metadata.resource_version)
        return GateDecision.DROP
