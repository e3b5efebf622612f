"""Why a key is queued: for whoever debugs a controller, never for its decisions."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

# How many reasons of a key are kept.
MAX_REASONS = 8


class Reason(msgspec.Struct, frozen=True, gc=False):
    """One cause why a key is queued. It is advisory: reconciling is level-triggered, and may find something else.

    ```python
    queue.add(key, reason=kcr.Reason("webhook", "push", detail="refs/heads/main"))
    ```

    Attributes:
        source: The kind of the object that changed, or who else adds keys: `reconcile`, `channel`, a web hook.
        event: What happened: `initial list`, `add`, `update` or `delete` of an object; `error`, `requeue_after`.
        namespace: That of the object; empty for none.
        name: That of the object, which need not be the one of the key; empty for none.
        old_version: Its resourceVersion before an update, or before the first of several in a row.
        version: Its resourceVersion.
        detail: Anything else, such as an error.
    """

    source: str
    event: str = ""
    namespace: str = ""
    name: str = ""
    old_version: str = ""
    version: str = ""
    detail: str = ""

    def __str__(self) -> str:
        """Return the reason as a line: `Pod update default/pi-0 41→42`."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        versions = f"{self.old_version}→{self.version}" if self.old_version else self.version
        head = " ".join(filter(None, (self.source, self.event, name, versions)))
        return f"{head}: {self.detail}" if self.detail else head


# Most keys have one reason, and those of an initial list share it.
Reasons: TypeAlias = Reason | tuple[Reason, ...]


def joined(known: Reasons, reason: Reason) -> Reasons:
    """Return the reasons of a key with one more; the oldest is dropped when there are too many.

    Several updates of one object in a row are one reason: a standby keeps its keys for days.
    """
    last = known if isinstance(known, Reason) else known[-1]
    if last is reason:
        return known
    earlier = as_tuple(known)
    if reason.old_version and last.old_version and _of(last) == _of(reason):
        return (*earlier[:-1], replace(last, version=reason.version))
    return (*earlier[1 - MAX_REASONS :], reason)


def _of(reason: Reason) -> tuple[str, str, str, str]:
    return reason.source, reason.event, reason.namespace, reason.name


def as_tuple(reasons: Reasons | None) -> tuple[Reason, ...]:
    """Return the reasons of a key, the oldest first."""
    if reasons is None:
        return ()
    return (reasons,) if isinstance(reasons, Reason) else reasons


class KeyState(NamedTuple):
    """What a queue knows of one key, for logs and debugging.

    Attributes:
        queued: The priority at which it is queued; None when it is not. A key that was added while it is processed is
            queued when that ends.
        processing: The priority at which a worker took it, and processes it now; None when none does.
        delay: The seconds until it is added; None when it has no delay.
        retries: How often it failed in a row.
        reasons: Why it is queued, or why it is delayed, when it is not queued: the last eight, the oldest first.
        processing_reasons: Why it was queued when the worker took it.
        waited: For how many seconds it had been queued when the worker took it; None when none processes it, and of a
            queue without metrics.
    """

    queued: int | None
    processing: int | None
    delay: float | None
    retries: int
    reasons: tuple[Reason, ...]
    processing_reasons: tuple[Reason, ...]
    waited: float | None = None


class Dispatch:
    """The event that an informer dispatches to its handlers just now.

    A key that is added meanwhile has its priority and reason, unless the handler names others: so every handler, and
    every function that maps objects to keys, gives low priority to initial lists without a line of its own.

    Source: controller-runtime/pkg/handler/eventhandler.go, WithLowPriorityWhenUnchanged (CM-16).
    """

    __slots__ = ("priority", "reason")

    def __init__(self) -> None:
        # None when no handler is being called.
        self.reason: Reason | None = None
        self.priority = 0


# The one of the informer whose task is running. An object that changes, and not a value: a task that a handler starts
# inherits the context, but goes on when the handlers have been called.
dispatch: ContextVar[Dispatch | None] = ContextVar("dispatch", default=None)


def for_dispatched_event(call: Callable[[], object]) -> Callable[[], object]:
    """Return a call to be made later, whose keys have the priority and reason of the event that is dispatched now."""
    current = dispatch.get()
    if current is None or current.reason is None:
        return call
    event = Dispatch()
    event.reason, event.priority = current.reason, current.priority

    def later() -> None:
        token = dispatch.set(event)
        try:
            call()
        finally:
            dispatch.reset(token)

    return later
