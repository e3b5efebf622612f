"""Labels of slots that were changed by hand: a tree of objects is brought together again.

Two things can happen, and both are repaired before the tree is reconciled:

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
from kcr.client.context import writing
from kcr.errors import ConflictError, KcrError, NotFoundError
from kcr.informer import Informer
from kcr.informer.slots import controller_uid
from kcr.informer.store import version_of
from kcr.log import get_logger
from kcr.scopes.gate import ScopePhase
from kcr.scopes.sharding.gate import ShardGate
from kcr.scopes.sharding.shards import Shards

# How long the last holder of an owner may need to see that it has left: the latency of its watch, and one reconcile.
SETTLE_SECONDS = 5.0
# How long an object may be on its way from one of this replica's watches to another.
_MOVE_SECONDS = 0.1
_RETRY_SECONDS = 1.0
_SHOWN_SECONDS = 5.0

_log = get_logger()


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
        await asyncio.sleep(SETTLE_SECONDS)
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
