"""The garbage collector: objects go when the owners they name are gone.

A client like any other. The census says which objects may have to go; each is read again before anything is
done to it, and what is written holds only for what was read.

Source: kubernetes/pkg/controller/garbagecollector/garbagecollector.go, attemptToDeleteItem,
processDeletingDependentsItem, attemptToOrphanWorker.
"""

import asyncio
import logging
from typing import Literal

from kcr.api import codec
from kcr.api.meta import Key, ObjectMeta, OwnerReference, Resource
from kcr.client import Client
from kcr.cluster.controllers.census import Census, Place
from kcr.cluster.controllers.pending import Pending
from kcr.errors import ApiError, ConflictError, NotFoundError, TransportError

_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
_PAUSE_SECONDS = 1.0

_log = logging.getLogger(__name__)

OwnerState = Literal["solid", "waiting", "dangling"]


class GarbageCollector:
    """Follows the owner references of all objects. `run` does the work until it is cancelled."""

    def __init__(self, client: Client, census: Census) -> None:
        self._client = client
        self._census = census
        # The dependents of every owner that is named, by the owner's uid; empty sets are removed.
        self._dependents: dict[str, dict[Place, None]] = {}
        # Every object that exists, by uid.
        self._places: dict[str, Place] = {}
        self._pending: Pending[Place] = Pending()
        census.listeners.append(self._on_change)

    async def run(self) -> None:
        """Collect until cancelled."""
        await self._census.wait_complete()
        while True:
            place = await self._pending.next()
            try:
                await self._attend(place)
            except NotFoundError:
                continue  # gone in the meantime, which will be told
            except ConflictError:
                self._pending.add(place)  # no longer what it was: judge it anew
            except (ApiError, TransportError) as error:
                _log.warning("%s: %s", place, error)
                self._pending.add(place)
                await asyncio.sleep(_PAUSE_SECONDS)

    def _on_change(self, place: Place, old: ObjectMeta | None, new: ObjectMeta | None) -> None:
        before, after = old.owner_references if old else (), new.owner_references if new else ()
        if before != after:
            self._reindex(place, before, after)
        if new is not None:
            self._places[new.uid] = place
            if (after and before != after) or new.deletion_timestamp is not None:
                self._pending.add(place)
        elif old is not None:
            self._places.pop(old.uid, None)
            self._pending.add(*self._dependents.get(old.uid, ()))
            # An owner that waits for this one may go now.
            self._pending.add(*self._owners(before))

    def _reindex(self, place: Place, before: tuple[OwnerReference, ...], after: tuple[OwnerReference, ...]) -> None:
        for reference in before:
            dependents = self._dependents.get(reference.uid, {})
            dependents.pop(place, None)
            if not dependents:
                self._dependents.pop(reference.uid, None)
        for reference in after:
            self._dependents.setdefault(reference.uid, {})[place] = None
        self._pending.add(*self._owners(before))

    def _owners(self, references: tuple[OwnerReference, ...]) -> list[Place]:
        return [self._places[reference.uid] for reference in references if reference.uid in self._places]

    async def _attend(self, place: Place) -> None:
        seen = self._census.get(place)
        if seen is not None and self._is_settled(seen):
            return
        metadata = await self._read(place)
        if metadata.deletion_timestamp is not None:
            await self._attend_terminating(place, metadata)
        elif metadata.owner_references:
            await self._attend_dependent(place, metadata)

    def _is_settled(self, seen: ObjectMeta) -> bool:
        """Return whether nothing is to be done, as far as the census knows; should that change, it tells.

        So it is with nearly all objects when they come, and none of those costs a request.
        """
        if seen.deletion_timestamp is not None:
            return _ORPHAN not in seen.finalizers and _FOREGROUND not in seen.finalizers
        for reference in seen.owner_references:
            place = self._places.get(reference.uid)
            owner = None if place is None else self._census.get(place)
            if place is None or owner is None or _is_waiting(owner) or not _names(reference, place, seen):
                return False
        return True

    async def _read(self, place: Place) -> ObjectMeta:
        return (await self._client.get(place.type, place.key)).metadata

    async def _attend_terminating(self, place: Place, owner: ObjectMeta) -> None:
        if _ORPHAN in owner.finalizers:
            for dependent, _ in self._dependents_of(place, owner):
                await self._drop_references(dependent, await self._read(dependent), {owner.uid})
            await self._drop_finalizer(place, owner, _ORPHAN)
        elif _FOREGROUND in owner.finalizers:
            dependents = self._dependents_of(place, owner)
            self._pending.add(*(one for one, metadata in dependents if metadata.deletion_timestamp is None))
            if not any(self._blocks(one, metadata, owner) for one, metadata in dependents):
                await self._drop_finalizer(place, owner, _FOREGROUND)

    async def _attend_dependent(self, place: Place, metadata: ObjectMeta) -> None:
        """Delete an object all of whose owners are gone; strip the references to some of them."""
        states = {one.uid: await self._state_of(metadata, one) for one in metadata.owner_references}
        lost = {uid for uid, state in states.items() if state != "solid"}
        if len(lost) < len(states):
            if lost:
                await self._drop_references(place, metadata, lost)
            return
        policy = "Background"
        if "waiting" in states.values() and self._dependents.get(metadata.uid):
            policy = "Foreground"
        elif _ORPHAN in metadata.finalizers:
            policy = "Orphan"
        elif _FOREGROUND in metadata.finalizers:
            policy = "Foreground"
        await self._delete(place, metadata, policy)

    async def _state_of(self, dependent: ObjectMeta, reference: OwnerReference) -> OwnerState:
        kind = self._census.types.get((reference.api_version, reference.kind))
        if kind is None:
            return "solid"  # of a kind nobody serves: nothing is known, so nothing is done
        if kind.resource.namespaced and not dependent.namespace:
            return "solid"  # a reference that makes no sense is left alone
        owner = await self._owner(kind, dependent.namespace, reference)
        if owner is None or owner.uid != reference.uid:
            return "dangling"
        return "waiting" if _is_waiting(owner) else "solid"

    async def _owner(self, kind: type[Resource], namespace: str, reference: OwnerReference) -> ObjectMeta | None:
        """Return an owner: from the census when it is there, else from the server, which alone knows who is not."""
        key = Key(namespace if kind.resource.namespaced else "", reference.name)
        known = self._census.get(Place(kind, key))
        if known is not None and known.uid == reference.uid:
            return known
        try:
            return await self._read(Place(kind, key))
        except NotFoundError:
            return None

    def _dependents_of(self, place: Place, owner: ObjectMeta) -> list[tuple[Place, ObjectMeta]]:
        found = [(one, self._census.get(one)) for one in self._dependents.get(owner.uid, ()) if one != place]
        # References do not reach into other namespaces.
        namespaces = ("", place.key.namespace) if place.key.namespace else None
        return [
            (one, metadata)
            for one, metadata in found
            if metadata is not None and (namespaces is None or metadata.namespace in namespaces)
        ]

    def _blocks(self, place: Place, dependent: ObjectMeta, owner: ObjectMeta) -> bool:
        """Return whether an owner has to wait for this dependent; two that own each other do not wait."""
        if _FOREGROUND in dependent.finalizers and place in self._owners(owner.owner_references):
            return False
        return any(one.uid == owner.uid and one.block_owner_deletion for one in dependent.owner_references)

    async def _drop_references(self, place: Place, seen: ObjectMeta, uids: set[str]) -> None:
        kept = [reference for reference in seen.owner_references if reference.uid not in uids]
        await self._patch(place, seen, {"ownerReferences": kept})

    async def _drop_finalizer(self, place: Place, seen: ObjectMeta, name: str) -> None:
        await self._patch(place, seen, {"finalizers": [one for one in seen.finalizers if one != name]})

    async def _patch(self, place: Place, seen: ObjectMeta, change: dict[str, object]) -> None:
        metadata = {"uid": seen.uid, "resourceVersion": seen.resource_version, **change}
        await self._client.merge_patch(place.type, place.key, {"metadata": metadata})

    async def _delete(self, place: Place, seen: ObjectMeta, policy: str) -> None:
        preconditions = {"uid": seen.uid, "resourceVersion": seen.resource_version}
        options = {"propagationPolicy": policy, "preconditions": preconditions}
        path = place.type.resource.path(place.key.namespace, place.key.name)
        await self._client.request("DELETE", path, codec.encode(options))


def _is_waiting(owner: ObjectMeta) -> bool:
    """Return whether an owner goes as soon as its dependents have gone."""
    return owner.deletion_timestamp is not None and _FOREGROUND in owner.finalizers


def _names(reference: OwnerReference, place: Place, dependent: ObjectMeta) -> bool:
    """Return whether all of a reference fits a place, not its uid alone."""
    kind = place.type.resource
    named = (reference.api_version, reference.kind, reference.name)
    return named == (kind.api_version, kind.kind, place.key.name) and place.key.namespace in ("", dependent.namespace)
