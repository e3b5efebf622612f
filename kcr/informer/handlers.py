"""Event handlers of an informer, and their registrations."""

import asyncio
from collections.abc import Callable
from functools import cache
from typing import Generic, NamedTuple, Self, TypeVar

from kcr.api.meta import Resource
from kcr.errors import NotSyncedError
from kcr.log import get_logger
from kcr.stacks import trace_of
from kcr.tracing import traceparent_of
from kcr.workqueue.priorities import LOW_PRIORITY
from kcr.workqueue.reasons import Reason

R = TypeVar("R", bound=Resource)

_log = get_logger("kcr.informer")


class Trigger(NamedTuple):
    """The event for which a handler enqueues a key: its priority and reason, the last arguments of a queue's methods.

    ```python
    def on_add(self, obj: Pod, initial: bool) -> None:
        self.queue.add(obj.key, *Trigger.added(obj, initial))
    ```

    Attributes:
        priority: 0; `LOW_PRIORITY` for an object of the list that the handler starts with, because nothing has changed.
        reason: The kind of event, the object and its versions.

    Source: controller-runtime/pkg/handler/eventhandler.go, WithLowPriorityWhenUnchanged (CM-16).
    """

    priority: int = 0
    reason: Reason | None = None

    @classmethod
    def added(cls, obj: Resource, initial: bool = False) -> Self:
        """Return the trigger of `Handler.on_add`, from its arguments."""
        if initial:
            return cls(LOW_PRIORITY, _initial_list(obj.resource.kind))
        return cls(0, _reason("add", obj))

    @classmethod
    def updated(cls, old: Resource, new: Resource) -> Self:
        """Return the trigger of `Handler.on_update`, from its arguments."""
        return cls(0, _reason("update", new, old.metadata.resource_version))

    @classmethod
    def deleted(cls, obj: Resource) -> Self:
        """Return the trigger of `Handler.on_delete`."""
        return cls(0, _reason("delete", obj))


def _reason(event: str, obj: Resource, old_version: str = "") -> Reason:
    metadata = obj.metadata
    return Reason(
        obj.resource.kind, event, metadata.namespace, metadata.name, old_version, metadata.resource_version, "",
        traceparent_of(metadata),
    )  # fmt: skip


@cache
def _initial_list(kind: str) -> Reason:
    """Return the reason that all keys of a kind's initial list share: there are many."""
    return Reason(kind, "initial list")


class Handler(Generic[R]):
    """Resource event handler of an informer; override the methods of interest.

    Contract: calls are synchronous, on the event loop, and follow the change of the store, so a handler that reads the
    store sees the state of the call or a newer one. Changes of one object are delivered in order; several in quick
    succession may be coalesced into one; between different objects there is no order. An exception is logged and
    counted (`handler_errors`), and the change is not delivered again. Awaiting code belongs into a reconciler: enqueue
    a key.
    """

    def on_add(self, obj: R, initial: bool) -> None:
        """Handle a new object; `initial` when it is part of the list that the handler starts with."""

    def on_update(self, old: R, new: R) -> None:
        """Handle a change of an object. Both have the same uid."""

    def on_delete(self, obj: R, final_state_unknown: bool) -> None:
        """Handle a deletion.

        Args:
            obj: The object's last state.
            final_state_unknown: Whether no watch event showed the deletion (client-go's tombstone,
                DeletedFinalStateUnknown): a relist did not have the object, or another one has its name. Then `obj` is
                the last state known, which may be old.
        """


class ChangeHandler(Handler[R]):
    """Calls back with each object that is new or has changed, and with each that was deleted."""

    def __init__(self, changed: Callable[[R], object], deleted: Callable[[R], object]) -> None:
        self._changed = changed
        self._deleted = deleted

    def on_add(self, obj: R, initial: bool) -> None:
        """Call back with a new object."""
        self._changed(obj)

    def on_update(self, old: R, new: R) -> None:
        """Call back with a changed object."""
        self._changed(new)

    def on_delete(self, obj: R, final_state_unknown: bool) -> None:
        """Call back with a deleted object."""
        self._deleted(obj)


class Registration(Generic[R]):
    """A handler's registration with an informer, until it is removed.

    Attributes:
        handler: The handler that the informer calls.
        is_removed: Whether the informer calls it no more.
    """

    def __init__(
        self,
        handler: Handler[R],
        failed: Callable[[], None],
        removed: "Callable[[Registration[R]], None]",
    ) -> None:
        """Make a registration.

        Args:
            handler: The handler.
            failed: Called when the handler raised.
            removed: Called when it is removed.
        """
        self.handler = handler
        self.is_removed: bool = False
        self._failed = failed
        self._removed = removed
        self._synced = asyncio.Event()

    @property
    def synced(self) -> bool:
        """Whether the handler has been called with every object of the initial list."""
        return self._synced.is_set() and not self.is_removed

    async def wait_synced(self) -> None:
        """Wait until the handler has been called with every object of the initial list.

        Raises:
            NotSyncedError: It was removed, perhaps with its informer.
        """
        await self._synced.wait()
        if self.is_removed:
            raise NotSyncedError(f"{type(self.handler).__name__}: the handler has been removed")

    def remove(self) -> None:
        """Call the handler no more, from this moment on, even if this is called by a handler."""
        self.is_removed = True
        # Who waits for it waits in vain.
        self._synced.set()
        self._removed(self)

    # The methods below are the informer's.

    def added(self, obj: R, initial: bool) -> None:
        """Call the handler with a new object."""
        self._call(self.handler.on_add, obj, initial)

    def updated(self, old: R, new: R) -> None:
        """Call the handler with a changed object."""
        self._call(self.handler.on_update, old, new)

    def deleted(self, obj: R, final_state_unknown: bool) -> None:
        """Call the handler with a deleted object."""
        self._call(self.handler.on_delete, obj, final_state_unknown)

    def _call(self, call: Callable[..., None], *arguments: object) -> None:
        """Call the handler, unless it is removed; log and count its exceptions, so other handlers miss no change."""
        if self.is_removed:
            return
        try:
            call(*arguments)
        except (Exception, SystemExit) as error:
            self._failed()
            name = getattr(call, "__qualname__", str(call))
            _log.error("handler failed", handler=name, error=str(error), exc_info=trace_of(error))

    def declare_synced(self) -> None:
        """Note that the handler has been called with every object of the initial list."""
        self._synced.set()
