"""The gate of a controller with changing namespaces: it admits the keys of namespaces whose caches are filled."""

from collections.abc import Mapping
from typing import ClassVar

from kcr.api.meta import Key
from kcr.controller import Controller
from kcr.scopes.gate import ScopeGate
from kcr.scopes.phase import ScopePhase
from kcr.workqueue import Reason


class NamespaceGate(ScopeGate[str]):
    """Admits the keys of open namespaces, of no namespace, and of member clusters, where all namespaces are watched.

    A namespace is open for a controller once the caches are filled that this controller reads, others or not.
    """

    opened_reason: ClassVar[Reason] = Reason("namespaces", "namespace opened")
    settled_reason: ClassVar[Reason] = Reason("namespaces", "namespace leaves", detail="a create is not answered yet")

    def __init__(self, phases: Mapping[str, ScopePhase], controller: Controller) -> None:
        """Make the gate of a controller.

        Args:
            phases: The phases of the namespaces, as they change.
            controller: The controller.
        """
        super().__init__(controller)
        self._phases = phases
        # The namespaces with which all caches of this controller are filled.
        self._open: set[str] = set()

    def scope_of(self, key: Key) -> str | None:
        """Return the namespace of a key; None without one, and for those of member clusters."""
        return key.namespace if key.namespace and not key.cluster else None

    def phase(self, scope: str) -> ScopePhase | None:
        """Return the phase of a namespace for this controller."""
        if scope in self._open:
            return ScopePhase.ACTIVE
        phase = self._phases.get(scope)
        return ScopePhase.OPENING if phase is ScopePhase.ACTIVE else phase

    def refuse(self, key: Key, scope: str) -> None:
        """Drop the memory of a key: its object may have been deleted before, and then no list names the key."""
        self.controller.release(key)

    def is_open(self, namespace: str) -> bool:
        """Return whether the keys of a namespace are admitted."""
        return namespace in self._open

    def opened(self, scope: str) -> None:
        """Admit the keys of a namespace, and enqueue those that have waited for it."""
        self._open.add(scope)
        super().opened(scope)

    def closed(self, scope: str) -> None:
        """Begin no key of a namespace any more."""
        self._open.discard(scope)
        super().closed(scope)
