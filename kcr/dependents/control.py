"""Creating and deleting the objects of an owner: idempotent creates, slow start, summarised events.

A create without an answer is unconfirmed in `OwnWrites`, and the next `create` for the same owner sends it first, under
its name.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Generic, TypeVar

from msgspec.structs import replace

from kcr.annotations import shown
from kcr.api.meta import Resource, is_controlled_by
from kcr.arguments import checked, checked_on_failure, refuse
from kcr.client import Client
from kcr.controller.generated_names import generated_name
from kcr.controller.own_writes import OwnWrites
from kcr.dependents.create import (
    AlteredObjectError,
    CreateBackoffs,
    QuotaExceededError,
    QuotaLimits,
    Selects,
    UnconfirmedCreateError,
    alterations,
    create_until_answered,
    find_own,
)
from kcr.dependents.emitter import EventEmitter
from kcr.dependents.ownership import set_controller
from kcr.dependents.slow_start import Attempts, Failure, call_in_batches
from kcr.errors import AlreadyExistsError, ApiError, ConflictError, KcrError, NotFoundError
from kcr.events import EventRecorder
from kcr.informer import Store

R = TypeVar("R", bound=Resource)

# How many names are drawn before a taken one is an error: two of thousands may be the same.
NAME_DRAWS = 3
# How often finalizers are removed from an object that others write to.
_CONFLICT_TRIES = 3


class DependentControl(Generic[R]):
    """Creates and deletes the objects of one kind that belong to owners.

    Failures are values, not exceptions: of ten creates seven may have succeeded. Every write is recorded in
    `own_writes`: a controller with the same `own_writes` reconciles an owner only when the store shows the confirmed
    writes, and does not count the objects in `own_writes.of(owner).deleted`.

    ```python
    own_writes = kcr.OwnWrites()
    control = kcr.DependentControl(
        manager.client, manager.recorder("website"), Pod,
        store=manager.store(Pod), own_writes=own_writes, random=manager.random,
    )
    ...
    attempts = await control.create(website, template, missing)
    ```

    Attributes:
        store: Where the objects show up.

    Source: kubernetes/pkg/controller/controller_utils.go, RealPodControl; there a create whose reply was lost may
    make a second pod.
    """

    @checked
    def __init__(  # noqa: PLR0913  # where objects come from and go to, by name
        self,
        client: Client,
        recorder: EventRecorder,
        kind: type[R],
        *,
        store: Store[R],
        own_writes: OwnWrites,
        random: Random,
        selects: Selects | None = None,
    ) -> None:
        """Make a control.

        Args:
            client: Talks to the server.
            recorder: Writes the events.
            kind: The type of the objects.
            store: Where the objects show up.
            own_writes: The controller's, in which every write is noted.
            random: Draws the names.
            selects: Whether the selector of an owner picks an object, for owners that find theirs by labels. None for
                those that go by the owner reference alone.
        """
        self._client = client
        self._kind = kind
        self.store = store
        self._own_writes = own_writes
        self._random = random
        self._selects = selects
        self._backoffs = CreateBackoffs()
        self._quotas = QuotaLimits()
        self._emitter = EventEmitter(recorder, kind.resource.kind.lower())

    @checked_on_failure
    async def create(
        self, owner: Resource, template: Resource | Callable[[int], Resource], count: int = 1
    ) -> Attempts[R]:
        """Create a number of objects from a template, in batches of 1, 2, 4, …; a batch with a failure is the last.

        A template with a name makes the object of this name, such as `shop-0`; one that exists and is the owner's is
        found, so that the call may be repeated at any time. One of another owner, or one that is being deleted, is an
        AlreadyExistsError. Without a name, the name is drawn.

        Creates of the same owner that are unconfirmed count among them: they are sent first, under their names.

        An object that was created otherwise than asked for, by a mutating webhook or policy, and that does not belong
        to its owner so (a label of its selector, the owner reference or a finalizer is missing) is deleted again, and
        counts as refused. The next create of this owner fails for a second, then for two, for a minute at most. An
        object whose reply was lost is kept, because it may have been changed since: `claim` releases it.

        While a quota refuses creates, the owners of its namespace together retry twice a second at most; others
        fail with a `QuotaExceededError` and are not sent.

        Args:
            owner: Becomes their controller.
            template: Its name, labels, annotations and finalizers are kept, with everything outside the metadata. Names
                that are drawn begin with its `generateName`, by default the owner's name and a dash. Or a function that
                returns the template of the n-th object, from 0.
            count: How many.

        Returns:
            The objects that exist. A failure with an `UnconfirmedCreateError` may exist; that of an altered object is
            an `AlteredObjectError`.

        Raises:
            ValueError: The template has no labels, so that its objects could not be found again; or it has a name, and
                there are to be several.
        """
        self.confirm(owner)
        unconfirmed = list(self._own_writes.of(owner).creates.values())
        if count > 0 and (early := self._too_early(owner, has_unconfirmed=bool(unconfirmed))):
            return Attempts((), (Failure(0, early),), count - 1)
        prepared = self._prepare(owner, template) if isinstance(template, Resource) else None
        if prepared is not None and prepared.metadata.name and count > 1:
            raise ValueError(f"{prepared.key}: {count} objects of one name: let a function return each one's template")
        # Names of objects that existed before: their creation was reported then.
        found: set[str] = set()

        async def create(number: int) -> R:
            obj = prepared if isinstance(template, Resource) else self._prepare(owner, template(number))
            assert obj is not None
            again = next((sent for sent in unconfirmed if _is_alike(sent, obj)), None)
            if again is not None:
                unconfirmed.remove(again)
                return await self._create_one(owner, _with_name(obj, again.metadata.name), unconfirmed=True)
            if not obj.metadata.name:
                return await self._create_one(owner, self._with_new_name(obj))
            try:
                return await self._create_one(owner, obj)
            except AlreadyExistsError:
                found.add(obj.metadata.name)
                return await self._find_named(owner, obj)

        attempts = await call_in_batches(count, create, 1)
        if attempts.done and not any(isinstance(failure.error, AlteredObjectError) for failure in attempts.failures):
            self._backoffs.forget(owner)
        self._note_quota(owner, attempts)
        self._emitter.created(owner, [made.metadata.name for made in attempts.done if made.metadata.name not in found])
        errors = [failure.error for failure in attempts.failures]
        self._emitter.not_created(owner, [error for error in errors if not isinstance(error, UnconfirmedCreateError)])
        return attempts

    def _too_early(self, owner: Resource, *, has_unconfirmed: bool) -> AlteredObjectError | QuotaExceededError | None:
        now = asyncio.get_running_loop().time()
        # A create without an answer may have used up the quota itself: it is sent again.
        full = None if has_unconfirmed else self._quotas.refusal(owner, now)
        return self._backoffs.refusal(owner, now) or full

    def _note_quota(self, owner: Resource, attempts: Attempts[R]) -> None:
        if attempts.done:
            self._quotas.forget(owner)
        for failure in attempts.failures:
            self._quotas.note(owner, failure.error, asyncio.get_running_loop().time())

    @checked_on_failure
    def confirm(self, owner: Resource) -> tuple[R, ...]:
        """Confirm the creates without an answer whose object the store shows, and return these objects."""
        creates = self._own_writes.of(owner).creates
        if not creates:
            return ()
        shown = tuple(obj for key in creates if (obj := self.store.get(key)) and is_controlled_by(obj, owner))
        for obj in shown:
            del creates[obj.key]
        self._emitter.created(owner, [obj.metadata.name for obj in shown])
        return shown

    @checked_on_failure
    async def resolve(self, owner: Resource, *, wanted: bool) -> Attempts[R]:
        """Query the results of an owner's unconfirmed creates; `create` calls it.

        Args:
            owner: The owner.
            wanted: Whether to send them again; else the objects are only searched.

        Returns:
            The objects that exist, and the creates that were refused.

        Raises:
            UnconfirmedCreateError: There is still no answer; the reconcile is to be retried.
        """
        shown = self.confirm(owner)
        done: list[R] = []
        failures: list[Failure] = []
        creates = self._own_writes.of(owner).creates
        for number, (key, sent) in enumerate(tuple(creates.items())):
            try:
                if wanted:
                    done.append(await self._create_one(owner, sent, unconfirmed=True))
                elif (found := await find_own(self._client, self._kind, sent)) is not None:
                    done.append(await self._answered(owner, sent, found, is_new=False))
                else:
                    del creates[key]
            except UnconfirmedCreateError:
                raise
            except (ApiError, AlteredObjectError) as error:
                failures.append(Failure(number, error))
        self._emitter.created(owner, [made.metadata.name for made in done])
        return Attempts((*shown, *done), tuple(failures), 0)

    @checked_on_failure
    async def delete(
        self,
        owner: Resource,
        objects: Sequence[R],
        *,
        before: Callable[[R], Awaitable[bool]] | None = None,
        propagation: str = "",
    ) -> Attempts[R]:
        """Delete objects, all at the same time.

        Args:
            owner: Gets the events.
            objects: The objects; those that were deleted before, and that the store does not show so yet, are ignored.
            before: Awaited before each deletion; an object for which it returns False is left alone. None for none.
            propagation: As for `Client.delete`: with `Foreground` an object exists until its dependents are deleted.

        Returns:
            The deleted objects; one that did not exist any more is a failure with a NotFoundError, without an event.
        """
        deleted_before = self._own_writes.of(owner).deleted

        async def delete(number: int) -> R | None:
            obj = objects[number]
            is_ignored = obj.metadata.uid in deleted_before or (before and not await before(obj))
            return None if is_ignored else await self._delete_one(owner, obj, propagation)

        attempts = await call_in_batches(len(objects), delete, len(objects))
        deleted = tuple(obj for obj in attempts.done if obj is not None)
        self._emitter.deleted(owner, [obj.metadata.name for obj in deleted])
        errors = [failure.error for failure in attempts.failures]
        self._emitter.not_deleted(owner, [error for error in errors if not isinstance(error, NotFoundError)])
        return Attempts(deleted, attempts.failures, len(attempts.done) - len(deleted))

    def _prepare(self, owner: Resource, template: Resource) -> Resource:
        if getattr(template, "resource", None) != self._kind.resource:
            remedy = f"give it a {self._kind.resource.kind}"
            refuse(f"DependentControl.create: template is {shown(template)}: {remedy}")
        asked = template.metadata
        if not asked.labels:
            raise ValueError(
                f"{owner.resource.display} {owner.key}: unable to create {self._kind.resource.plural}, no labels"
            )
        metadata = type(asked)(
            name=asked.name,
            # Only where a name is to be drawn.
            generate_name="" if asked.name else asked.generate_name or f"{owner.metadata.name}-",
            namespace=owner.metadata.namespace or asked.namespace,
            labels=asked.labels,
            annotations=asked.annotations,
            finalizers=asked.finalizers,
        )
        return set_controller(replace(template, metadata=metadata), owner)

    async def _create_one(self, owner: Resource, obj: Resource, *, unconfirmed: bool = False) -> R:
        """Create one object. It is noted before it is sent, and stays unconfirmed when this is cancelled.

        Args:
            owner: Its owner.
            obj: The object, with its name.
            unconfirmed: Whether it was sent before, and may exist.

        Raises:
            ApiError: The server refuses it, or fails every time and does not have it.
            UnconfirmedCreateError: There was no answer.
        """
        creates = self._own_writes.of(owner).creates
        for left in reversed(range(NAME_DRAWS)):
            creates[obj.key] = obj
            try:
                made, is_new = await create_until_answered(self._client, self._kind, obj, unconfirmed=unconfirmed)
                return await self._answered(owner, obj, made, is_new=is_new)
            except UnconfirmedCreateError:
                raise
            except ApiError as error:
                creates.pop(obj.key, None)
                if not isinstance(error, AlreadyExistsError) or not left or not obj.metadata.generate_name:
                    raise
            # Another object has the name, perhaps of this very owner; the next draw will be free.
            obj, unconfirmed = self._with_new_name(obj), False
        raise AssertionError("the last draw returns or raises")

    async def _find_named(self, owner: Resource, obj: Resource) -> R:
        """Return the object with the template's name, if it exists and the owner controls it.

        Raises:
            AlreadyExistsError: It is another owner's, or is being deleted.
            UnconfirmedCreateError: The server does not say.
        """
        found = await find_own(self._client, self._kind, obj)
        if found is None:
            why = (
                f"exists, and is not controlled by {owner.resource.display} {owner.key}: delete it, or use another name"
            )
            raise self._name_taken(obj, why)
        return self._accept_named(owner, found)

    def _accept_named(self, owner: Resource, found: R) -> R:
        if found.metadata.deletion_timestamp is not None:
            raise self._name_taken(found, "is being deleted: its name is free once it is gone")
        self._own_writes.wrote(owner.key, self.store, found)
        return found

    def _name_taken(self, obj: Resource, why: str) -> AlreadyExistsError:
        return AlreadyExistsError(409, "AlreadyExists", f"{self._kind.resource.kind.lower()} {obj.key} {why}")

    async def _answered(self, owner: Resource, sent: Resource, made: R, *, is_new: bool) -> R:
        """Note the answer to a create, and return the object.

        One that was found may have been changed since its creation, and one with a stated name may be older than the
        create. So it is not judged: if its owner has lost it meanwhile, `claim` releases it.

        Raises:
            AlreadyExistsError: It has the stated name, and is being deleted.
            AlteredObjectError: It is otherwise than asked for, and does not belong to its owner.
        """
        self._own_writes.of(owner).creates.pop(sent.key, None)
        if not is_new and not sent.metadata.generate_name:
            return self._accept_named(owner, made)
        self._own_writes.wrote(owner.key, self.store, made)
        if not is_new or not (changes := alterations(owner, sent, made, self._selects)):
            return made
        undone = ", and is deleted again" if await self._undo(owner, sent, made) else ""
        what = f"{self._kind.resource.kind.lower()} {made.key} was changed when it was created{undone}"
        error = AlteredObjectError(f"{what}: {changes}: a mutating webhook or policy does not let its owner keep it")
        self._backoffs.note(owner, error, asyncio.get_running_loop().time())
        raise error

    async def _undo(self, owner: Resource, sent: Resource, made: R) -> bool:
        """Delete an object that its owner would lose, and return whether that succeeded.

        The finalizers that it was sent with are removed first, for no reconcile would do it. An object that a
        crash in between leaves is released by `claim`, as one that the selector does not match.
        """
        with suppress(KcrError):
            await self._untrack(owner, sent, made)
        try:
            await self._delete_one(owner, made)
        except NotFoundError:
            return True
        except KcrError:
            return False
        return True

    async def _untrack(self, owner: Resource, sent: Resource, made: R) -> None:
        """Remove the finalizers that an object was sent with; others may write to it at the same time."""
        for _ in range(_CONFLICT_TRIES):
            metadata = made.metadata
            kept = [name for name in metadata.finalizers if name not in sent.metadata.finalizers]
            if len(kept) == len(metadata.finalizers):
                return
            change = {"uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": kept}
            try:
                freed = await self._client.merge_patch(self._kind, made.key, {"metadata": change})
            except ConflictError:
                made = await self._client.get(self._kind, made.key)
            else:
                self._own_writes.wrote(owner.key, self.store, freed)
                return

    async def _delete_one(self, owner: Resource, obj: R, propagation: str = "") -> R:
        own = self._own_writes.of(owner)
        try:
            await self._client.delete(self._kind, obj.key, uid=obj.metadata.uid, propagation=propagation)
        except NotFoundError:
            own.expect_deletion(self.store, obj)
            raise
        own.expect_deletion(self.store, obj)
        return obj

    def _with_new_name(self, obj: Resource) -> Resource:
        return _with_name(obj, generated_name(obj.metadata.generate_name, self._random))


def _is_alike(sent: Resource, obj: Resource) -> bool:
    """Return whether a create that was sent will do for another object: of the same name, or drawn alike."""
    if obj.metadata.name:
        return sent.metadata.name == obj.metadata.name
    return sent.metadata.generate_name == obj.metadata.generate_name


def _with_name(obj: Resource, name: str) -> Resource:
    return replace(obj, metadata=replace(obj.metadata, name=name))
