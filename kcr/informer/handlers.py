"""Who hears of changes."""

from collections.abc import Callable
from typing import Generic, TypeVar

from kcr.api.meta import Resource

R = TypeVar("R", bound=Resource)


class Handler(Generic[R]):
    """Hears of changes; override what is of interest.

    The calls are synchronous and come after the store changed: a handler that reads the store sees this
    state or a newer one. Of several changes to one object in quick succession, some may be left out, and
    between different objects there is no order. What must await belongs into an `AsyncHandler`.
    """

    def on_add(self, obj: R, initial: bool) -> None:
        """Hear of a new object; `initial` when it was there before the informer or the handler was."""

    def on_update(self, old: R, new: R) -> None:
        """Hear that an object has changed. Both have the same uid; a resync tells the same object twice."""

    def on_delete(self, obj: R) -> None:
        """Hear that an object is gone; this is its last state."""

    def on_vanish(self, obj: R) -> None:
        """Hear that an object is gone whose end nobody saw: this is its last known state, which may be old.

        A list did not have it, or another object has its name. Unless overridden this is `on_delete`: most
        handlers read nothing of a deleted object but its names.
        """
        self.on_delete(obj)


class AsyncHandler(Generic[R]):
    """Hears of changes and may await; otherwise as `Handler`.

    It has a task and a buffer of its own, and never two calls at a time. By the time it hears of a change the
    store may have moved on.
    """

    async def on_add(self, obj: R, initial: bool) -> None:
        """Hear of a new object; `initial` when it was there before the informer or the handler was."""

    async def on_update(self, old: R, new: R) -> None:
        """Hear that an object has changed."""

    async def on_delete(self, obj: R) -> None:
        """Hear that an object is gone; this is its last state."""

    async def on_vanish(self, obj: R) -> None:
        """Hear that an object is gone whose end nobody saw; unless overridden this is `on_delete`."""
        await self.on_delete(obj)


class Filtered(Handler[R]):
    """Shows a handler only the objects that pass a test, as if there were no others.

    An object that begins to pass is an addition, one that ceases to is a deletion.

    Source: client-go/tools/cache/controller.go, FilteringResourceEventHandler (IN-11).
    """

    def __init__(self, handler: Handler[R], passes: Callable[[R], bool]) -> None:
        self._handler = handler
        self._passes = passes

    def on_add(self, obj: R, initial: bool) -> None:
        """Pass on an object that passes."""
        if self._passes(obj):
            self._handler.on_add(obj, initial)

    def on_update(self, old: R, new: R) -> None:
        """Pass on what the change is to one who sees only what passes."""
        match self._passes(old), self._passes(new):
            case True, True:
                self._handler.on_update(old, new)
            case False, True:
                self._handler.on_add(new, False)
            case True, False:
                self._handler.on_delete(old)

    def on_delete(self, obj: R) -> None:
        """Pass on an object that passed."""
        if self._passes(obj):
            self._handler.on_delete(obj)

    def on_vanish(self, obj: R) -> None:
        """Pass on an object that passed."""
        if self._passes(obj):
            self._handler.on_vanish(obj)
