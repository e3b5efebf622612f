"""The keeper: opens the caches of shards that were taken, and hands over those that are to be released.

A hand-over, in order: no key of the shard is begun, running reconciles end and unanswered creates are settled, both
within a bound; the Lease is released; the watches of the shard are closed, and its objects leave the stores. The next
holder takes the Lease, lists the shard, and reconciles once its caches are filled: they are newer than the Lease, so
they show all writes of the last holder.

Users may change labels of slots, and `SlotRepair` brings the tree of objects together again, before it is reconciled:

- *A dependent left the slots that this replica watches.* Its event is that of a deletion, although the object exists:
  a deleted object with finalizers has a deletionTimestamp. The store keeps it, and its label is written again.
- *An owner came into a slot of this replica by its label.* The replica that held it may be in the middle of a
  reconcile, so its key waits; then its dependents are listed, and those with another slot are labelled.

A dependent without finalizers looks deleted to the controller, which creates it again under its name.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from kcr.api.meta import Resource, controller_of, metadata_only
from kcr.api.slots import SLOT_LABEL, slot_of
from kcr.client import Client
from kcr.client.context import WRITE_CONTEXT, WriteContext, writing
from kcr.errors import ConflictError, KcrError, NotFoundError
from kcr.informer import Informer
from kcr.informer.slots import controller_uid
from kcr.informer.store import version_of
from kcr.log import get_logger
from kcr.runnables import Runnable
from kcr.scopes.gate import SETTLE_SECONDS, ScopeKeeper, ScopePhase
from kcr.scopes.sharding.gate import ShardGate
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


# How long the last holder of an owner may need to see that it has left: the latency of its watch, and one reconcile.
GATHER_SECONDS = 5.0
# How long an object may be on its way from one of this replica's watches to another.
_MOVE_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_SHOWN_SECONDS = 5.0


class SlotRepair:
    """Writes the labels of slots that were changed by hand."""

    def __init__(
        self,
        client: Client,
        shards: Shards,
        gates: Callable[[], Iterable[ShardGate]],
        informers: Callable[[], Iterable[Informer[Any]]],
    ) -> None:
        """Make one.

        Args:
            client: Writes the labels, with the fence of the shards.
            shards: The shards of this replica.
            gates: Returns the gates of all controllers.
            informers: Returns the informers of all kinds under sharding.
        """
        self._client = client
        self._shards = shards
        self._gates = gates
        self._informers = informers

    async def restore(self, informer: Informer[Any], left: Resource) -> None:
        """Label a dependent again that has left the watched slots, or drop it when its owner is another replica's."""
        await asyncio.sleep(_MOVE_SECONDS)
        # The store has the version that left: no watch has shown a newer one.
        while informer.store.stored(left.key) is left:
            owner = self._owner_of(left)
            if owner is None or not self._is_active(owner):
                informer.writer.remove(left)
                return
            try:
                await self._label(left, owner)
            except KcrError as error:
                if await self._is_gone(left, error):
                    informer.writer.remove(left)
                    return
                _log.warning("failed to restore the slot of a dependent", object=str(left.key), error=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return

    async def _is_gone(self, obj: Resource, error: KcrError) -> bool:
        if not isinstance(error, ConflictError):
            return isinstance(error, NotFoundError)
        try:
            live = await self._client.get(metadata_only(type(obj)), obj.key)
        except KcrError as failure:
            return isinstance(failure, NotFoundError)
        return live.metadata.uid != obj.metadata.uid

    async def gather(self, gate: ShardGate, owner: Resource) -> None:
        """Label the dependents of an owner that came by its own label, and wait until the stores show them."""
        await asyncio.sleep(GATHER_SECONDS)
        kinds = {
            kind for kind, rules in gate.controller.watched.slot_rules.items() if rules is not None and rules.is_owned
        }
        for informer in tuple(self._informers()):
            while informer.kind in kinds and self._is_active(owner) and gate.is_current(owner):
                try:
                    await self._gather(gate, informer, owner)
                    break
                except (KcrError, TimeoutError) as error:
                    _log.warning("failed to gather dependents", owner=str(owner.key), error=str(error))
                    await asyncio.sleep(_RETRY_SECONDS)
        gate.gathered(owner, is_complete=self._is_active(owner))

    async def _gather(self, gate: ShardGate, informer: Informer[Any], owner: Resource) -> None:
        slot, kind = str(slot_of(owner.metadata)), metadata_only(informer.kind)
        for found in await self._client.list(kind, owner.metadata.namespace):
            metadata = found.metadata
            is_elsewhere = controller_uid(metadata) == owner.metadata.uid and metadata.labels.get(SLOT_LABEL) != slot
            if is_elsewhere and gate.is_current(owner):
                with suppress(NotFoundError):
                    await _shown(informer, await self._label(found, owner))

    async def _label(self, obj: Resource, owner: Resource) -> Resource:
        slot = slot_of(owner.metadata)
        metadata = {"uid": obj.metadata.uid, "labels": {SLOT_LABEL: str(slot)}}
        with writing(owner=owner.key, shard=self._shards.shard_of(slot)):
            return await self._client.merge_patch(metadata_only(type(obj)), obj.key, {"metadata": metadata})

    def _is_active(self, owner: Resource) -> bool:
        return self._shards.phase(self._shards.shard_of(slot_of(owner.metadata))) is ScopePhase.ACTIVE

    def _owner_of(self, obj: Resource) -> Resource | None:
        reference = controller_of(obj.metadata)
        if reference is None:
            return None
        owners = (gate.own_object(reference, obj.metadata.namespace) for gate in self._gates())
        return next((owner for owner in owners if owner is not None), None)


async def _shown(informer: Informer[Any], written: Resource) -> None:
    """Wait until the store has reached the version of an object."""
    reached = asyncio.Event()
    progress = informer.store.progress_of(written)
    progress.notify_at_version(version_of(written.metadata.resource_version), reached.set)
    async with asyncio.timeout(_SHOWN_SECONDS):
        await reached.wait()
