"""Making, deleting and patching the objects of an owner, with the events that belong to it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec.structs import replace

from kcr.api.meta import Key, Resource
from kcr.client import Client
from kcr.dependents.emitter import EventEmitter
from kcr.dependents.ownership import set_controller
from kcr.dependents.slow_start import Attempts, slow_start
from kcr.errors import NotFoundError
from kcr.events import EventRecorder

R = TypeVar("R", bound=Resource)


def _ignore(_: Resource) -> None:
    """Do nothing with an object."""


class DependentControl(Generic[R]):
    """Writes the objects of one kind that belong to owners.

    Failures are values, not exceptions: of ten creations seven may have gone well, and whoever keeps
    expectations lowers them by `Attempts.undone`.

    Source: kubernetes/pkg/controller/controller_utils.go, RealPodControl.
    """

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        kind: type[R],
        *,
        on_write: Callable[[R], object] = _ignore,
    ) -> None:
        """Make a control.

        Args:
            client: Talks to the server.
            recorder: Writes the events.
            kind: The type of the objects.
            on_write: Called with each object that was written, as the server returned it: its version says how
                far the store must have come to show it.
        """
        self._client = client
        self._kind = kind
        self._on_write = on_write
        self._announcer = EventEmitter(recorder, kind.resource.kind.lower())

    async def create(self, owner: Resource, template: R, count: int = 1) -> Attempts[R]:
        """Create so many objects after a template, in batches of 1, 2, 4, …; a batch with a failure is the last.

        Args:
            owner: Becomes their controller.
            template: Its labels, annotations and finalizers are kept, with everything outside the metadata. The
                names begin with its `generateName`, by default the owner's name and a dash.
            count: How many.

        Raises:
            ValueError: The template has no labels, so that its objects could not be found again.
        """
        prototype = self._prototype(owner, template)
        attempts = await slow_start(count, lambda _: self._create_one(prototype))
        self._announcer.created(owner, [made.metadata.name for made in attempts.done])
        self._announcer.not_created(owner, [failure.error for failure in attempts.failures])
        return attempts

    async def delete(self, owner: Resource, objects: Sequence[R]) -> Attempts[R]:
        """Delete objects, all at the same time.

        Returns:
            The deleted objects; one that was gone already is a failure with a NotFoundError, told to nobody.
        """
        attempts = await slow_start(
            len(objects), lambda number: self._delete_one(objects[number]), initial=len(objects)
        )
        self._announcer.deleted(owner, [gone.metadata.name for gone in attempts.done])
        errors = [failure.error for failure in attempts.failures]
        self._announcer.not_deleted(owner, [error for error in errors if not isinstance(error, NotFoundError)])
        return attempts

    async def patch(self, key: Key, patch: Mapping[str, object]) -> R:
        """Apply a strategic merge patch to one object."""
        written = await self._client.strategic_patch(self._kind, key, patch)
        self._on_write(written)
        return written

    def _prototype(self, owner: Resource, template: R) -> R:
        asked = template.metadata
        if not asked.labels:
            raise ValueError(
                f"{owner.resource.display} {owner.key}: unable to create {self._kind.resource.plural}, no labels"
            )
        metadata = type(asked)(
            generate_name=asked.generate_name or f"{owner.metadata.name}-",
            namespace=owner.metadata.namespace or asked.namespace,
            labels=asked.labels,
            annotations=asked.annotations,
            finalizers=asked.finalizers,
        )
        return set_controller(replace(template, metadata=metadata), owner)

    async def _create_one(self, obj: R) -> R:
        made = await self._client.create(obj)
        self._on_write(made)
        return made

    async def _delete_one(self, obj: R) -> R:
        await self._client.delete(self._kind, obj.key, uid=obj.metadata.uid)
        return obj
