"""The gate of a controller whose keys belong to scopes: keys of active scopes are reconciled."""

import asyncio
from abc import abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar

from kcr.api.meta import Key
from kcr.controller import Controller
from kcr.controller.gates import GateDecision, HandlingGate
from kcr.informer import Informer
from kcr.workqueue import Reason

S = TypeVar("S", int, str)

# How long unanswered writes may take to be settled before their scope is left to expire.
SETTLE_SECONDS = 5.0
_POLL_SECONDS = 0.01
_SLOW_POLL_SECONDS = 1.0


class ScopePhase(Enum):
    """How far a scope is; one that is not held has no phase.

    Attributes:
        OPENING: Its caches are being filled: its keys wait.
        ACTIVE: Its keys are reconciled.
        DRAINING: It is being given up: no key is begun, except to settle a write without an answer.
        CLOSED: Nothing is written in its name any more, and it is about to be released.
    """

    OPENING = "opening"
    ACTIVE = "active"
    DRAINING = "draining"
    CLOSED = "closed"


class ScopeGate(HandlingGate, Generic[S]):
    """Decides about a key by the phase of its scope.

    - The key of an active scope is admitted.
    - The key of a scope that is being opened waits for it, at its priority.
    - While a scope drains, only keys with an unanswered write are admitted, to settle it.
    - The key of any other scope is dropped: another replica reconciles it, or nobody is to.

    Attributes:
        controller: The controller whose keys it decides about.
        opened_reason: Why a key that has waited is enqueued.
        settled_reason: Why a key with an unanswered write is enqueued.
    """

    opened_reason: ClassVar[Reason]
    settled_reason: ClassVar[Reason]

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        # The keys that wait for a scope to be opened, with their priorities.
        self._waiting: dict[S, dict[Key, int]] = {}
        # Keys that were enqueued to settle a write; their backoff retries them.
        self._settling: set[Key] = set()

    @abstractmethod
    def scope_of(self, key: Key) -> S | None:
        """Return the scope of a key; None when it belongs to none, or to none that is known."""

    @abstractmethod
    def phase(self, scope: S) -> ScopePhase | None:
        """Return the phase of a scope for this controller; None when this process does not hold it."""

    def check_outside(self, key: Key) -> GateDecision:
        """Decide about a key without a scope: by default it is admitted."""
        return GateDecision.ADMIT

    def check_inside(self, key: Key, scope: S) -> GateDecision:
        """Decide about a key whose scope admits it: by default it is admitted."""
        return GateDecision.ADMIT

    def refuse(self, key: Key, scope: S) -> None:
        """Note that a key is dropped, because this process does not hold its scope."""

    def scope_of_running(self, key: Key) -> S | None:
        """Return the scope in which the running reconcile of a key was admitted."""
        return self.scope_of(key)

    def check(self, key: Key) -> GateDecision:
        """Decide about a key by the phase of its scope."""
        scope = self.scope_of(key)
        if scope is None:
            return self.check_outside(key)
        phase = self.phase(scope)
        if phase is ScopePhase.ACTIVE or (phase is ScopePhase.DRAINING and key in self._pending()):
            return self.check_inside(key, scope)
        if phase is ScopePhase.OPENING:
            self.wait(key, scope)
            return GateDecision.DEFER
        if phase is not ScopePhase.DRAINING:
            self.refuse(key, scope)
        return GateDecision.DROP

    def wait(self, key: Key, scope: S) -> None:
        """Enqueue a key when its scope is opened."""
        self._waiting.setdefault(scope, {})[key] = self.controller.queue.priority(key)

    def opened(self, scope: S) -> None:
        """Enqueue the keys that have waited for a scope, which is active now."""
        for key, priority in self._waiting.pop(scope, {}).items():
            self.controller.queue.add(key, priority, self.opened_reason)

    def closed(self, scope: S) -> None:
        """Forget a scope that is no longer held, before it may be opened again."""
        self._waiting.pop(scope, None)

    def is_running(self, scope: S) -> bool:
        """Return whether a key of a scope is being reconciled."""
        return any(self.scope_of_running(key) == scope for key in self.controller.journal.running)

    def unsettled(self, scope: S) -> tuple[Key, ...]:
        """Return the keys of a scope with writes that were not answered; it may be called in any thread."""
        return tuple(key for key in self._pending() if self.scope_of(key) == scope)

    def settle(self, scope: S) -> bool:
        """Return whether no write of a scope is unanswered; the keys of those that are, are enqueued once."""
        unsettled = self.unsettled(scope)
        for key in unsettled:
            if key not in self._settling:
                self._settling.add(key)
                self.controller.queue.add(key, reason=self.settled_reason)
        return not unsettled

    def release(self, keys: Iterable[Key]) -> None:
        """Drop the memory of keys that this process does not reconcile any more."""
        for key in keys:
            self._settling.discard(key)
            self.controller.release(key)

    def _pending(self) -> tuple[Key, ...]:
        return unsettled_keys((self.controller,))


def unsettled_keys(controllers: Iterable[Controller]) -> tuple[Key, ...]:
    """Return the keys of some controllers with writes that were not answered, and may still be executed."""
    return tuple(key for one in controllers if one.own_writes is not None for key in one.own_writes.unsettled)


G = TypeVar("G", bound=ScopeGate[Any])


class ScopeKeeper(Generic[S, G]):
    """Settles and closes scopes, on the program's loop.

    A scope is given up in this order: no key of it is begun; running reconciles end, and unanswered writes are settled;
    it is released, or left to expire; its watches are closed, its objects leave the stores, and the memory of its keys
    is dropped.
    """

    def __init__(self) -> None:
        self.gates: list[G] = []

    def is_settled(self, scope: S) -> bool:
        """Return whether no write of a scope is unanswered; it may be called in any thread."""
        return not any(gate.unsettled(scope) for gate in self.gates)

    async def drain(self, scope: S, *, waits_for_reconciles: bool) -> bool:
        """Return once no key of a scope is reconciled and its writes are settled, or when that takes too long.

        Args:
            scope: The scope; its gates begin no key any more.
            waits_for_reconciles: Whether running reconciles take as long as they need.

        Returns:
            Whether nothing is running or unanswered.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + SETTLE_SECONDS
        while True:
            # All of them: each enqueues the keys that it has to settle.
            settled = [gate.settle(scope) for gate in self.gates]
            running = any(gate.is_running(scope) for gate in self.gates)
            if all(settled) and not running:
                return True
            is_late = loop.time() >= give_up_at
            if is_late and not (running and waits_for_reconciles):
                return False
            await asyncio.sleep(_SLOW_POLL_SECONDS if is_late else _POLL_SECONDS)

    def release(self, informer: Informer[Any], removed: Iterable[Key]) -> None:
        """Drop the memory of the keys whose objects have left the store of an informer."""
        removed = tuple(removed)
        for gate in self.gates:
            if gate.controller.own_store is informer.store:
                gate.release(removed)
