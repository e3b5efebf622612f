"""The keeper: opens the caches of shards that were taken, and hands over those that are to be released.

A hand-over, in order: no key of the shard is begun, running reconciles end and unanswered creates are settled, both
within a bound; the Lease is released; the watches of the shard are closed, and its objects leave the stores. The next
holder takes the Lease, lists the shard, and reconciles once its caches are filled: they are newer than the Lease, so
they show all writes of the last holder.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from kcr.api.meta import Resource
from kcr.client import Client
from kcr.client.context import WRITE_CONTEXT, WriteContext
from kcr.informer import Informer
from kcr.log import get_logger
from kcr.runnables import Runnable
from kcr.scopes.gate import SETTLE_SECONDS, ScopeKeeper, ScopePhase
from kcr.scopes.sharding.gate import ShardGate
from kcr.scopes.sharding.relabel import SlotRepair
from kcr.scopes.sharding.shards import UNSHARDED, Move, Shards, shown

_SLOW_SECONDS = 20.0

_log = get_logger()


class ShardKeeper(ScopeKeeper[int, ShardGate]):
    """Opens, drains and closes the shards of this replica, on the program's loop."""

    def __init__(
        self,
        shards: Shards,
        informers: Callable[[], Iterable[Informer[Any]]],
        drained: Callable[[int, bool], object],
    ) -> None:
        """Make a keeper.

        Args:
            shards: The shards of this replica.
            informers: Returns the informers of all kinds under sharding.
            drained: Called when a shard is drained, with whether nothing in it is running or unanswered.
        """
        super().__init__()
        self._drained = drained
        self._shards = shards
        self._informers = informers
        # Brings trees together whose labels a user has changed; None before the manager runs.
        self._repair: SlotRepair | None = None
        self._group: asyncio.TaskGroup | None = None
        self._moves: asyncio.Queue[tuple[Move, tuple[int, ...]]] = asyncio.Queue()
        # Set while the first shard is active, on which run the components that run once.
        self._first = asyncio.Event()
        # The tasks of these components.
        self._components: set[asyncio.Task[None]] = set()

    def post(self, move: Move, shards: tuple[int, ...]) -> None:
        """Note the news of the campaign; on the program's loop."""
        self._moves.put_nowait((move, shards))

    def repair_with(self, client: Client) -> None:
        """Repair the labels of slots that users change, with a client of the manager."""
        self._repair = SlotRepair(client, self._shards, lambda: self.gates, self._informers)

    def on_relabelled(self, gate: ShardGate, owner: Resource) -> None:
        """Gather the dependents of an object that a user has moved here."""
        if self._repair is not None and self._group is not None:
            self._group.create_task(self._repair.gather(gate, owner), name=f"gather dependents of {owner.key}")

    def on_left(self, informer: Informer[Any], left: Resource) -> None:
        """Bring back a dependent that has left the watched slots."""
        if self._repair is not None and self._group is not None:
            self._group.create_task(self._repair.restore(informer, left), name=f"restore {left.key}")

    async def run(self) -> None:
        """Follow the campaign until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            while True:
                move, shards = await self._moves.get()
                match move:
                    case Move.TAKEN:
                        group.create_task(self._open(shards), name=f"open shards {shown(shards)}")
                    case Move.RELEASE:
                        for shard in shards:
                            group.create_task(self._drain(shard), name=f"drain shard {shard}")
                    case Move.DROPPED:
                        for shard in shards:
                            group.create_task(self._close(shard), name=f"close shard {shard}")

    async def _open(self, shards: tuple[int, ...]) -> None:
        loop, slots = asyncio.get_running_loop(), self._shards.slots_of(shards)
        began = loop.time()
        watches = [informer.parted for informer in self._informers() if informer.parted is not None]
        for one in watches:
            one.open(slots)
        slow = loop.call_later(_SLOW_SECONDS, self._log_slow, shards)
        try:
            for one in watches:
                await one.wait_filled(slots)
        finally:
            slow.cancel()
        seconds = self._shards.last_handover_seconds = loop.time() - began
        self._shards.handover_seconds.observe(seconds)
        opened = [shard for shard in shards if self._shards.phase(shard) is ScopePhase.OPENING]
        self._shards.set_phase(opened, ScopePhase.ACTIVE)
        _log.info("shards are active", shards=shown(opened), seconds=round(seconds, 3))
        for gate in self.gates:
            for shard in opened:
                gate.opened(shard)
        if UNSHARDED in opened:
            self._first.set()

    def _log_slow(self, shards: tuple[int, ...]) -> None:
        reasons = (informer.last_error or informer.not_synced_reason for informer in self._informers())
        error = "; ".join(filter(None, reasons))
        _log.warning("shards wait for their caches", shards=shown(shards), error=error or "lists are under way")

    async def _drain(self, shard: int) -> None:
        # No key of a shard that is still being opened was admitted.
        is_clean = self._shards.phase(shard) is ScopePhase.OPENING
        if not is_clean:
            self._shards.set_phase((shard,), ScopePhase.DRAINING)
            if shard == UNSHARDED:
                await self._stop_components()
            is_clean = await self.drain(shard, waits_for_reconciles=False)
        self._shards.set_phase((shard,), ScopePhase.CLOSED)
        if not is_clean:
            _log.warning("shard is not drained, its lease is left to expire", shard=shard, after_seconds=SETTLE_SECONDS)
        self._drained(shard, is_clean)

    async def _close(self, shard: int) -> None:
        # At once: the shard may be taken again while its objects are removed.
        for gate in self.gates:
            gate.closed(shard)
        slots = self._shards.slots_of((shard,))
        for informer in tuple(self._informers()):
            if informer.parted is not None:
                self.release(informer, await informer.parted.close(slots))

    async def run_on_first(self, component: Runnable) -> None:
        """Run a component while this replica holds the first shard, again and again."""
        WRITE_CONTEXT.set(WriteContext(shard=UNSHARDED, has_slots=True, manager=WRITE_CONTEXT.get().manager))
        while True:
            await self._first.wait()
            async with asyncio.TaskGroup() as group:
                running = group.create_task(component.run(), name=f"on the first shard: {component!r}")
                self._components.add(running)
                running.add_done_callback(self._components.discard)
            if self._first.is_set():
                # It has ended by itself.
                return

    async def _stop_components(self) -> None:
        self._first.clear()
        running = tuple(self._components)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
