"""The garbage collector: objects go when the owners they name are gone.

It follows the storage itself, so there is nothing to poll and nothing it could miss; its deletes are those
of any client, and come a moment after the change that called for them.

Source: kubernetes/pkg/controller/garbagecollector/garbagecollector.go, attemptToDeleteItem,
processDeletingDependentsItem, attemptToOrphanWorker.
"""

import asyncio
import logging
from collections.abc import Iterable

from kcr.api.meta import OwnerReference
from kcr.embedded.answers import RefusedError
from kcr.embedded.deletion import DeleteOptions, delete
from kcr.embedded.kinds import KINDS, Kind
from kcr.embedded.registry import Registry
from kcr.embedded.storage import Change, Record
from kcr.embedded.strategy import Manifest

_FOREGROUND, _ORPHAN = "foregroundDeletion", "orphan"
# Thousands of dependents do not hold up everybody else.
_AT_ONCE = 50

_log = logging.getLogger(__name__)


class GarbageCollector:
    """Follows the owner references of all objects. `run` does the work until it is cancelled."""

    def __init__(self, registry: Registry, kinds: Iterable[Kind] = KINDS) -> None:
        self._registry = registry
        self._kinds = {(kind.type.api_version, kind.type.kind): kind for kind in kinds}
        # The dependents of every owner that is named, by the owner's uid; empty sets are removed.
        self._dependents: dict[str, dict[tuple[Kind, str], None]] = {}
        # Every object that exists, by uid.
        self._objects: dict[str, tuple[Kind, str]] = {}
        # Objects to look at, each at most once; a dict for its order.
        self._work: dict[tuple[Kind, str], None] = {}
        self._waker: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Collect until cancelled."""
        tables = [self._registry.storage.table(kind) for kind in self._kinds.values()]
        for table in tables:
            for record in table.select():
                self._on_change(Change(record.revision, None, record))
            table.subscribers[self._on_change] = None
        try:
            while True:
                await self._wait()
                # What this round calls for comes in the next one: a chain of owners goes link by link.
                work, self._work = tuple(self._work), {}
                for place, (kind, key) in enumerate(work):
                    if place % _AT_ONCE == _AT_ONCE - 1:
                        await asyncio.sleep(0)
                    self._attend(kind, key)
        finally:
            for table in tables:
                table.subscribers.pop(self._on_change, None)

    async def _wait(self) -> None:
        # Also with work at hand: others get their turn between two rounds.
        await asyncio.sleep(0)
        while not self._work:
            self._waker = asyncio.get_running_loop().create_future()
            await self._waker

    def _on_change(self, change: Change) -> None:
        record, old, new = change.record, change.old, change.new
        place = (record.kind, record.key)
        before = old.metadata.owner_references if old is not None else ()
        after = new.metadata.owner_references if new is not None else ()
        if before != after:
            self._reindex(place, before, after)
        if new is None:
            self._objects.pop(record.metadata.uid, None)
            self._look_at(self._dependents.get(record.metadata.uid, ()))
            # An owner that waits for this one may go now.
            self._look_at(self._places(before))
        else:
            self._objects[record.metadata.uid] = place
            if (after and before != after) or new.metadata.deletion_timestamp is not None:
                self._look_at((place,))

    def _reindex(
        self, place: tuple[Kind, str], before: tuple[OwnerReference, ...], after: tuple[OwnerReference, ...]
    ) -> None:
        for reference in before:
            dependents = self._dependents.get(reference.uid, {})
            dependents.pop(place, None)
            if not dependents:
                self._dependents.pop(reference.uid, None)
        for reference in after:
            self._dependents.setdefault(reference.uid, {})[place] = None
        self._look_at(self._places(before))

    def _places(self, references: tuple[OwnerReference, ...]) -> list[tuple[Kind, str]]:
        return [self._objects[reference.uid] for reference in references if reference.uid in self._objects]

    def _look_at(self, places: Iterable[tuple[Kind, str]]) -> None:
        self._work.update(dict.fromkeys(places))
        if self._work and self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    def _attend(self, kind: Kind, key: str) -> None:
        record = self._registry.storage.table(kind).records.get(key)
        if record is None:
            return
        try:
            if record.metadata.deletion_timestamp is not None:
                self._attend_terminating(record)
            elif record.metadata.owner_references:
                self._attend_dependent(record)
        except RefusedError as refused:
            _log.warning("%s %s: %s", kind.type.display, key, refused.message)

    def _attend_terminating(self, record: Record) -> None:
        finalizers = record.metadata.finalizers
        if _ORPHAN in finalizers:
            for dependent in self._dependents_of(record):
                self._drop_references(dependent, {record.metadata.uid})
            self._drop_finalizer(record, _ORPHAN)
        elif _FOREGROUND in finalizers:
            dependents = self._dependents_of(record)
            for dependent in dependents:
                if dependent.metadata.deletion_timestamp is None:
                    self._look_at(((dependent.kind, dependent.key),))
            if not any(self._blocks(dependent, record) for dependent in dependents):
                self._drop_finalizer(record, _FOREGROUND)

    def _attend_dependent(self, record: Record) -> None:
        """Delete an object all of whose owners are gone; strip the references to some of them."""
        solid, waiting, dangling = 0, set[str](), set[str]()
        for reference in record.metadata.owner_references:
            match self._state_of(record, reference):
                case "dangling":
                    dangling.add(reference.uid)
                case "waiting":
                    waiting.add(reference.uid)
                case _:
                    solid += 1
        if solid:
            if dangling or waiting:
                self._drop_references(record, dangling | waiting)
            return
        policy = "Background"
        if waiting and self._dependents.get(record.metadata.uid):
            policy = "Foreground"
        elif _ORPHAN in record.metadata.finalizers:
            policy = "Orphan"
        elif _FOREGROUND in record.metadata.finalizers:
            policy = "Foreground"
        delete(self._registry, record, DeleteOptions(policy=policy, uid=record.metadata.uid))

    def _state_of(self, record: Record, reference: OwnerReference) -> str:
        kind = self._kinds.get((reference.api_version, reference.kind))
        if kind is None:
            return "solid"  # of a kind nobody serves: nothing is known, so nothing is done
        if kind.type.namespaced and not record.metadata.namespace:
            return "solid"  # a reference that makes no sense is left alone
        namespace = record.metadata.namespace if kind.type.namespaced else ""
        owner = self._registry.storage.get(kind, namespace, reference.name)
        if owner is None or owner.metadata.uid != reference.uid:
            return "dangling"
        terminating = owner.metadata.deletion_timestamp is not None and _FOREGROUND in owner.metadata.finalizers
        return "waiting" if terminating else "solid"

    def _dependents_of(self, record: Record) -> list[Record]:
        storage = self._registry.storage
        places = self._dependents.get(record.metadata.uid, ())
        found = (
            storage.table(kind).records.get(key) for kind, key in places if (kind, key) != (record.kind, record.key)
        )
        namespaces = ("", record.metadata.namespace) if record.metadata.namespace else None
        return [one for one in found if one and (namespaces is None or one.metadata.namespace in namespaces)]

    def _blocks(self, dependent: Record, owner: Record) -> bool:
        """Return whether an owner has to wait for this dependent; two that own each other do not wait."""
        place, metadata = (dependent.kind, dependent.key), dependent.metadata
        if _FOREGROUND in metadata.finalizers and place in self._places(owner.metadata.owner_references):
            return False
        return any(one.uid == owner.metadata.uid and one.block_owner_deletion for one in metadata.owner_references)

    def _drop_references(self, record: Record, uids: set[str]) -> None:
        before, new = record.manifest(), record.manifest()
        kept = [one for one in before["metadata"].get("ownerReferences", ()) if one["uid"] not in uids]
        self._store(record, before, new, "ownerReferences", kept)

    def _drop_finalizer(self, record: Record, name: str) -> None:
        before, new = record.manifest(), record.manifest()
        kept = [one for one in before["metadata"].get("finalizers", ()) if one != name]
        self._store(record, before, new, "finalizers", kept)

    def _store(self, record: Record, before: Manifest, new: Manifest, member: str, kept: list[object]) -> None:
        if kept:
            new["metadata"][member] = kept
        else:
            new["metadata"].pop(member, None)
        self._registry.store(record, new, before)
