"""The gate of a controller with changing namespaces: it admits the keys of namespaces whose caches are filled."""

from collections.abc import Iterable, Mapping
from enum import Enum

from kcr.api.meta import Key
from kcr.controller import Controller
from kcr.controller.gates import GateDecision
from kcr.workqueue import Reason

_OPENED = Reason("namespaces", "namespace opened")
_SETTLED = Reason("namespaces", "namespace leaves", detail="a create is not answered yet")


class NamespacePhase(Enum):
    """How far a namespace is.

    Attributes:
        OPENING: Its objects are listed.
        ACTIVE: All controllers reconcile its keys.
        LEAVING: No key is begun; running reconciles end.
    """

    OPENING = "opening"
    ACTIVE = "active"
    LEAVING = "leaving"


class NamespaceGate:
    """Admits the keys of open namespaces, of no namespace, and of member clusters, where all namespaces are watched.

    The key of a namespace that is being opened waits. While one is left, only keys with an unconfirmed create are
    admitted, to settle it: its object may exist under a name that only this process knows. Any other key is dropped.
    """

    def __init__(self, phases: Mapping[str, NamespacePhase], controller: Controller) -> None:
        """Make the gate of a controller.

        Args:
            phases: The phases of the namespaces, as they change.
            controller: The controller.
        """
        self.controller = controller
        self._phases = phases
        # The namespaces with which all caches of this controller are filled.
        self._open: set[str] = set()
        # The keys that wait for a namespace, with their priorities.
        self._waiting: dict[str, dict[Key, int]] = {}
        # Keys that were enqueued to settle a create; their backoff retries them.
        self._settling: set[Key] = set()

    def check(self, key: Key) -> GateDecision:
        """Decide about a key by its namespace."""
        if not key.namespace or key.namespace in self._open or key.cluster:
            return GateDecision.ADMIT
        match self._phases.get(key.namespace):
            case NamespacePhase.OPENING | NamespacePhase.ACTIVE:
                self._waiting.setdefault(key.namespace, {})[key] = self.controller.queue.priority(key)
                return GateDecision.DEFER
            case NamespacePhase.LEAVING:
                return GateDecision.ADMIT if key in self._unsettled(key.namespace) else GateDecision.DROP
            case None:
                # Its object may have been deleted before, and then no list names the key.
                self.controller.release(key)
                return GateDecision.DROP

    def is_open(self, namespace: str) -> bool:
        """Return whether the keys of a namespace are admitted."""
        return namespace in self._open

    def open(self, namespace: str) -> None:
        """Admit the keys of a namespace, and enqueue those that have waited for it."""
        self._open.add(namespace)
        for key, priority in self._waiting.pop(namespace, {}).items():
            self.controller.queue.add(key, priority, _OPENED)

    def leave(self, namespace: str) -> None:
        """Admit no key of a namespace any more."""
        self._open.discard(namespace)
        self._waiting.pop(namespace, None)

    def is_running(self, namespace: str) -> bool:
        """Return whether a key of a namespace is being reconciled."""
        return any(key.namespace == namespace and not key.cluster for key in self.controller.journal.running)

    def settle(self, namespace: str) -> bool:
        """Return whether no create of a namespace is unconfirmed; keys that have some are enqueued once."""
        unsettled = self._unsettled(namespace)
        for key in unsettled - self._settling:
            self._settling.add(key)
            self.controller.queue.add(key, reason=_SETTLED)
        return not unsettled

    def _unsettled(self, namespace: str) -> set[Key]:
        own_writes = self.controller.own_writes
        pending = () if own_writes is None else own_writes.unsettled
        return {key for key in pending if key.namespace == namespace and not key.cluster}

    def release(self, keys: Iterable[Key]) -> None:
        """Drop the memory of keys whose namespace was left."""
        for key in keys:
            self._settling.discard(key)
            self.controller.release(key)
