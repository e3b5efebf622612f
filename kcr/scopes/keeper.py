"""The keeper of the scopes of a process: it settles those that are given up."""

import asyncio
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from kcr.api.meta import Key
from kcr.informer import Informer
from kcr.scopes.gate import ScopeGate

# How long unanswered writes may take to be settled before their scope is left to expire.
SETTLE_SECONDS = 5.0
_POLL_SECONDS = 0.01
_SLOW_POLL_SECONDS = 1.0

S = TypeVar("S", int, str)
G = TypeVar("G", bound=ScopeGate[Any])


class ScopeKeeper(Generic[S, G]):
    """Settles and closes scopes, on the program's loop.

    A scope is given up in this order: no key of it is begun; running reconciles end, and unanswered writes are settled;
    it is released, or left to expire; its watches are closed, its objects leave the stores, and the memory of its keys
    is dropped.
    """

    def __init__(self) -> None:
        """Keep no scope, and have no gate yet."""
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
