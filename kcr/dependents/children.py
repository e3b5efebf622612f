"""The children of an owner as a whole: applied in order, left alone while unchanged, deleted when no longer wanted.

`Children.ensure` gets all children that an owner is to have. It

- **applies** each of them by server-side apply, in the given order, and stops at the first refusal: the next one may
  need it. With several sequences, one is applied once the children before it are ready. Repeating an apply changes
  nothing, so one whose reply was lost is sent again by the next reconcile;
- **sends nothing** for a child that was applied with the same content and that the store shows unchanged since: with
  the same `metadata.generation` (the same resourceVersion, for kinds without generations), with the wanted labels,
  annotations and finalizers, and under the control of its owner. So a field that another client has changed is applied
  again. The content is remembered as a hash, in memory: a process that starts applies each child once;
- **prunes** once all are applied: the store's index by owner has the children of these kinds; those that are not
  wanted are deleted, by uid. That is in the reverse order of the kinds, and of one kind the newest first. A refused
  deletion ends it, because an earlier child may be needed by that one; the reconcile fails, and the next one tries
  again.

Every write is recorded in `OwnWrites`: the key of the owner is deferred until the stores show it, and a child that was
deleted and is still shown is not deleted again.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from kcr.api import codec
from kcr.api.meta import Resource, is_controlled_by
from kcr.api.readiness import is_ready, readiness
from kcr.arguments import checked, checked_on_failure
from kcr.client import Client
from kcr.client.context import reconciled_key
from kcr.controller.own_writes import OwnWrites
from kcr.controller.pending_objects import AppliedObject
from kcr.controller.waits import WaitFor
from kcr.dependents.emitter import EventEmitter
from kcr.dependents.ownership import set_controller
from kcr.errors import ApiError, ConflictError, KcrError, NotFoundError, ServerError, is_namespace_ending
from kcr.events import EventRecorder
from kcr.informer import Informer, InformerHandle


class EnsuredChildren(NamedTuple):
    """The writes of one `Children.ensure`.

    Attributes:
        applied: The children that were applied, as the server returned them; unchanged ones are not among them.
        deleted: Those that were no longer wanted.
    """

    applied: tuple[Resource, ...]
    deleted: tuple[Resource, ...]


class Children:
    """Ensures that the owners of one controller have the wanted children of some kinds, and no others.

    ```python
    self._children = kcr.Children(
        manager.client, manager.recorder("site"), [manager.informer(ConfigMap), manager.informer(Service)],
        own_writes=own_writes,
    )
    ...
    await self._children.ensure(site, [config_map_of(site), service_of(site)])
    ```

    All objects of these kinds that an owner controls are its children, however they were created. The controller
    watches each kind with `kcr.owned`, and has the same `own_writes`; the reconciler calls `own_writes.forget(key)` for
    an owner that does not exist.
    """

    @checked
    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        informers: Sequence[Informer[Any] | InformerHandle[Any]],
        *,
        own_writes: OwnWrites,
    ) -> None:
        """Make one for the owners of a controller.

        Args:
            client: Talks to the server; its field manager owns the applied fields.
            recorder: Writes the events: children that were created and deleted, and refusals.
            informers: The kinds of the children, in the order in which an owner's children are created. Those of
                metadata alone (`kcr.metadata_only`) are enough.
            own_writes: The controller's.
        """
        self._client = client
        self._recorder = recorder
        self._informers = {(one.kind.resource.group, one.kind.resource.plural): one for one in informers}
        self._own_writes = own_writes

    @checked_on_failure
    async def ensure(self, owner: Resource, *wanted: Sequence[Resource]) -> EnsuredChildren:
        """Apply the wanted children of an owner, and delete its others.

        Children of an owner that is being deleted are left to the garbage collector, and so are those of an owner whose
        namespace is terminating. A child that is being deleted is applied after that: its deletion enqueues the owner.

        Args:
            owner: The stored owner; becomes the controller of each child.
            wanted: The children with names, built again from the owner's spec each time: all fields that the
                controller owns, in the order of creation. An object that exists under control of none is taken over.
                Of several sequences, each is applied once all children of those before are ready (`kcr.is_ready`):
                `ensure(site, [database, migration], [web])`.

        Raises:
            ApiError: The server refuses a child, which another owner may control, or a deletion.
            TransportError: There was no answer.
            ValueError: A child has no name or the name of another one, or is of a kind without an informer.
            WaitFor: Children of a later sequence wait for this one; everything else is done.
            TypeError: They wait for a child whose informer is of a type without a status.
        """
        prepared = self._prepared(owner, [child for stage in wanted for child in stage])
        if owner.metadata.deletion_timestamp is not None:
            return EnsuredChildren((), ())
        known = self._own_writes.of(owner).applied
        applied: list[Resource] = []
        wait: WaitFor | None = None
        stages, waiting = [number for number, stage in enumerate(wanted) for _ in stage], 0
        for stage, (ident, child) in zip(stages, prepared.items(), strict=True):
            if wait is not None and stage > waiting:
                break
            try:
                made = await self._apply(owner, child, known.get(ident))
            except BaseException as error:
                if self._is_ending(owner, child, error, prepared):
                    return EnsuredChildren(tuple(applied), ())
                raise
            if made is not None:
                known[ident] = made[1]
                applied.append(made[0])
            if wait is None and stage < len(wanted) - 1:
                wait, waiting = self._wait_for(child, None if made is None else made[0]), stage
        self._own_writes.unanswered.pop(reconciled_key(owner.key), None)
        for ident in known.keys() - prepared.keys():
            del known[ident]
        deleted = await self._prune(owner, prepared)
        if wait is not None:
            raise wait
        return EnsuredChildren(tuple(applied), deleted)

    def _wait_for(self, child: Resource, made: Resource | None) -> WaitFor | None:
        """Return the wait for a child that is not ready, as it was applied just now or else as the store shows it."""
        informer = self._informers[_ident(child)[:2]]
        found = readiness(made or informer.store.get(child.key))
        return (
            None
            if found.is_ready
            else WaitFor(informer.kind, child.key, is_ready, message=f"is ready ({found.message})")
        )

    def _is_ending(
        self, owner: Resource, child: Resource, error: BaseException, prepared: Collection[tuple[str, str, str, str]]
    ) -> bool:
        """Note the failed apply of a child, and return whether it needs no other: its namespace ends."""
        if not isinstance(error, ApiError) or isinstance(error, ServerError):
            unanswered = self._own_writes.unanswered
            unanswered.setdefault(reconciled_key(owner.key), {})[type(child), child.key] = None
        if isinstance(error, ApiError):
            # The end of a namespace deletes its owners, or enqueues the owner of which it is a child.
            space = ("", "namespaces", "", child.metadata.namespace)
            if (owner.metadata.namespace or space in prepared) and is_namespace_ending(error):
                return True
            self._record(owner, "FailedApply", "applying", child, error)
        return False

    def _prepared(self, owner: Resource, wanted: Sequence[Resource]) -> dict[tuple[str, str, str, str], Resource]:
        """Return the children under the owner's control, by kind and key."""
        prepared: dict[tuple[str, str, str, str], Resource] = {}
        for child in wanted:
            ident, name = _ident(child), f"{child.resource.display} {child.key}"
            if not child.metadata.name:
                raise ValueError(f"{name}: a child needs a name that follows from its owner")
            if ident[:2] not in self._informers:
                raise ValueError(f"{name}: its kind is not among the informers of Children: add manager.informer(…)")
            if ident in prepared:
                raise ValueError(f"{name}: wanted twice")
            prepared[ident] = set_controller(child, owner)
        return prepared

    async def _apply(
        self, owner: Resource, child: Resource, known: AppliedObject | None
    ) -> tuple[Resource, AppliedObject] | None:
        """Apply a child and return it; None when the store shows it as it was applied, or being deleted."""
        store = self._informers[_ident(child)[:2]].store
        shown = store.get(child.key)
        digest = hashlib.blake2b(codec.encode(child), digest_size=16).digest()
        if shown is not None:
            if shown.metadata.deletion_timestamp is not None:
                return None
            if known is not None and known.digest == digest and _is_unchanged(shown, child, owner, known):
                return None
        made = await self._client.apply(child, force=True)
        self._own_writes.wrote(owner.key, store, made)
        metadata = made.metadata
        if shown is None and known is None:
            EventEmitter(self._recorder, made.resource.kind.lower()).created(owner, [metadata.name])
        return made, AppliedObject(digest, metadata.uid, metadata.generation, metadata.resource_version)

    async def _prune(self, owner: Resource, wanted: dict[tuple[str, str, str, str], Resource]) -> tuple[Resource, ...]:
        own = self._own_writes.of(owner)
        deleted: list[Resource] = []
        for informer, child in self._unwanted(owner, wanted, own.deleted):
            try:
                await self._client.delete(informer.kind, child.key, uid=child.metadata.uid)
            except (NotFoundError, ConflictError):
                # It is deleted already; another object may have its name, and has events of its own.
                own.expect_deletion(informer.store, child)
                continue
            except ApiError as error:
                self._record(owner, "FailedDelete", "deleting", child, error)
                raise
            own.expect_deletion(informer.store, child)
            EventEmitter(self._recorder, child.resource.kind.lower()).deleted(owner, [child.metadata.name])
            deleted.append(child)
        return tuple(deleted)

    def _unwanted(
        self, owner: Resource, wanted: dict[tuple[str, str, str, str], Resource], deleted: frozenset[str]
    ) -> Iterator[tuple[Informer[Any] | InformerHandle[Any], Resource]]:
        """Yield the children to delete, the last created first."""
        for informer in reversed(self._informers.values()):
            children = informer.store.by_index("owner", owner.metadata.uid)
            for child in sorted(children, key=_age, reverse=True):
                metadata = child.metadata
                if _ident(child) not in wanted and not metadata.deletion_timestamp and metadata.uid not in deleted:
                    yield informer, child

    def _record(self, owner: Resource, reason: str, verb: str, child: Resource, error: KcrError) -> None:
        noun = f"{child.resource.kind.lower()} {child.metadata.name}"
        self._recorder.event(owner, "Warning", reason, f"Error {verb} {noun}: {error}")


def _ident(child: Resource) -> tuple[str, str, str, str]:
    place = child.resource
    return place.group, place.plural, child.metadata.namespace, child.metadata.name


def _age(child: Resource) -> tuple[str, str]:
    return str(child.metadata.creation_timestamp), child.metadata.name


def _is_unchanged(shown: Resource, child: Resource, owner: Resource, known: AppliedObject) -> bool:
    now, wanted = shown.metadata, child.metadata
    same_version = (
        now.generation == known.generation if known.generation else now.resource_version == known.resource_version
    )
    return (
        same_version
        and now.uid == known.uid
        and wanted.labels.items() <= now.labels.items()
        and wanted.annotations.items() <= now.annotations.items()
        and set(wanted.finalizers) <= set(now.finalizers)
        and is_controlled_by(shown, owner)
    )
