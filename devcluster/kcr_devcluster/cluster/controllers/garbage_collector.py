"""Garbage collector: deletes objects whose owners no longer exist, in the background or foreground, or orphans them.

Optimistic concurrency: each object is read again before it is deleted or patched, and each write has the uid and
resourceVersion that were read as preconditions.

Source: kubernetes/pkg/controller/garbagecollector/garbagecollector.go, attemptToDeleteItem,
processDeletingDependentsItem, attemptToOrphanWorker.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal

from msgspec.structs import replace

from kcr.api.core import reference_to
from kcr.api.meta import Key, OwnerReference, PartialObjectMetadata, metadata_only
from kcr.api.resources import ResourceType
from kcr.client import Client
from kcr.controller import Result
from kcr.errors import ApiError, NotFoundError, NotSyncedError
from kcr.informer import InformerHandle, Trigger
from kcr.manager import Manager
from kcr_devcluster.cluster.controllers.graph import FOREGROUND, ORPHAN, Graph, is_named, waits_for_dependents

OwnerState = Literal["solid", "waiting", "dangling"]


class GarbageCollector:
    """Reconciles one object of the graph; keys have its uid as name, for an object of any kind may be meant."""

    def __init__(self, manager: Manager, kinds: Iterable[ResourceType]) -> None:
        """Make a garbage collector that watches nothing yet.

        Args:
            manager: The manager.
            kinds: The kinds that owners may be of.
        """
        self._manager = manager
        self._client: Client = manager.client
        self._kinds = {(kind.api_version, kind.kind): kind for kind in kinds}
        # Monitors of the kinds.
        self._handles: dict[ResourceType, InformerHandle[Any]] = {}
        self._graph = Graph(self._enqueue, self._record_other_namespace)
        self._queue = manager.add_controller("garbage-collector", self, watches=()).queue

    def watch(self, kind: ResourceType) -> None:
        """Add the objects of a kind to the graph, from now on."""
        if kind not in self._handles:
            self._handles[kind] = self._manager.open_informer(metadata_only(kind))
            self._handles[kind].add_handler(self._graph)

    def add_owner_kinds(self, kinds: Iterable[ResourceType]) -> None:
        """Owners may be of these kinds as well.

        They stay known when they are served no longer: the dependents of their last objects have lost their owners.
        """
        self._kinds |= {(kind.api_version, kind.kind): kind for kind in kinds}

    def unwatch(self, kind: ResourceType) -> None:
        """Remove from the graph the objects of a kind that is no longer served; they count as deleted."""
        handle = self._handles.pop(kind, None)
        if handle is not None:
            objects = handle.store.snapshot()
            handle.close()
            for obj in objects:
                self._graph.on_delete(obj, final_state_unknown=True)

    def _enqueue(self, uid: str, trigger: Trigger) -> None:
        self._queue.add(Key("", uid), *trigger)

    def _record_other_namespace(self, dependent: PartialObjectMetadata, reference: OwnerReference) -> None:
        namespace = dependent.metadata.namespace
        named = f"{reference.api_version}/{reference.kind}, namespace: {namespace}, name: {reference.name}"
        message = f'ownerRef [{named}, uid: {reference.uid}] does not exist in namespace "{namespace}"'
        about = replace(reference_to(dependent), resource_version="")
        # Few clusters have such references, and none of the others pays for a recorder.
        events = self._manager.recorder("garbage-collector-controller")
        events.event(about, "Warning", "OwnerRefInvalidNamespace", message)

    async def reconcile(self, key: Key) -> Result:
        """Delete the object, or let its deletion proceed, if its owners and dependents require that."""
        for kind in tuple(self._handles):
            # A dependent of a kind that is not listed yet would be missed.
            await self._wait_synced(kind)
        seen = self._graph.get(key.name)
        if seen is None or self._graph.is_settled(seen):
            return Result()
        with suppress(NotFoundError):  # deleted meanwhile: a watch event follows
            obj = await self._client.get(type(seen), seen.key)
            if obj.metadata.uid == seen.metadata.uid:
                await self._process(obj)
        return Result()

    async def _wait_synced(self, kind: ResourceType) -> None:
        """Wait until the objects of a kind are listed, or the kind is served no longer."""
        while (handle := self._handles.get(kind)) is not None and not handle.store.synced:
            with suppress(NotSyncedError):  # closed meanwhile
                await handle.wait_synced()

    async def _process(self, obj: PartialObjectMetadata) -> None:
        metadata = obj.metadata
        if metadata.deletion_timestamp is None:
            await self._attempt_to_delete(obj)
        elif ORPHAN in metadata.finalizers:
            for dependent in self._graph.dependents(obj):
                live = await self._client.get(type(dependent), dependent.key)
                await self._remove_references(live, {metadata.uid})
            await self._remove_finalizer(obj, ORPHAN)
        elif FOREGROUND in metadata.finalizers:
            dependents = self._graph.dependents(obj)
            for dependent in dependents:
                if dependent.metadata.deletion_timestamp is None:
                    self._enqueue(dependent.metadata.uid, Trigger())
            if not any(_blocks(dependent, obj) for dependent in dependents):
                await self._remove_finalizer(obj, FOREGROUND)

    async def _attempt_to_delete(self, obj: PartialObjectMetadata) -> None:
        """Delete an object without a solid owner; with one, remove the references to the owners that are not solid."""
        metadata = obj.metadata
        states = {reference.uid: await self._state_of(obj, reference) for reference in metadata.owner_references}
        lost = {uid for uid, state in states.items() if state != "solid"}
        if len(lost) < len(states):
            if lost:
                await self._remove_references(obj, lost)
            return
        policy = "Background"
        if "waiting" in states.values() and (dependents := self._graph.dependents(obj)):
            if any(map(waits_for_dependents, dependents)) and _blocks_any(obj):
                # A circle of owners, each of which would wait for the next one: this one no longer blocks its owners.
                # The watch event of the patch brings the object back here.
                await self._unblock_owners(obj)
                return
            policy = "Foreground"
        elif ORPHAN in metadata.finalizers:
            policy = "Orphan"
        elif FOREGROUND in metadata.finalizers:
            policy = "Foreground"
        version = metadata.resource_version
        await self._client.delete(type(obj), obj.key, uid=metadata.uid, resource_version=version, propagation=policy)

    async def _state_of(self, dependent: PartialObjectMetadata, reference: OwnerReference) -> OwnerState:
        kind = self._kinds.get((reference.api_version, reference.kind))
        if kind is None:
            return "solid"  # of a kind that is not served: nothing is known, so nothing is done
        if kind.namespaced and not dependent.metadata.namespace:
            return "solid"  # a reference that makes no sense is left alone
        owner = self._graph.get(reference.uid)
        if owner is None or not is_named(owner, reference, dependent):
            # Only the server knows that an object does not exist.
            owner = await self._read_owner(kind, dependent, reference)
        if owner is None or owner.metadata.uid != reference.uid:
            return "dangling"
        return "waiting" if waits_for_dependents(owner) else "solid"

    async def _read_owner(
        self, kind: ResourceType, dependent: PartialObjectMetadata, reference: OwnerReference
    ) -> PartialObjectMetadata | None:
        key = Key(dependent.metadata.namespace if kind.namespaced else "", reference.name)
        try:
            return await self._client.get(metadata_only(kind), key)
        except ApiError as error:
            if error.code == 404:  # there is no such object, or no such kind any more
                return None
            raise

    async def _unblock_owners(self, obj: PartialObjectMetadata) -> None:
        unblocked = [replace(reference, block_owner_deletion=False) for reference in obj.metadata.owner_references]
        await self._patch(obj, {"ownerReferences": unblocked})

    async def _remove_references(self, obj: PartialObjectMetadata, uids: set[str]) -> None:
        kept = [reference for reference in obj.metadata.owner_references if reference.uid not in uids]
        await self._patch(obj, {"ownerReferences": kept})

    async def _remove_finalizer(self, obj: PartialObjectMetadata, name: str) -> None:
        await self._patch(obj, {"finalizers": [other for other in obj.metadata.finalizers if other != name]})

    async def _patch(self, obj: PartialObjectMetadata, change: dict[str, object]) -> None:
        metadata = {"uid": obj.metadata.uid, "resourceVersion": obj.metadata.resource_version, **change}
        await self._client.merge_patch(type(obj), obj.key, {"metadata": metadata})


def _blocks(dependent: PartialObjectMetadata, owner: PartialObjectMetadata) -> bool:
    """Return whether an owner has to wait for this dependent."""
    references = dependent.metadata.owner_references
    return any(one.uid == owner.metadata.uid and one.block_owner_deletion for one in references)


def _blocks_any(dependent: PartialObjectMetadata) -> bool:
    return any(one.block_owner_deletion for one in dependent.metadata.owner_references)
