"""Waits: keys whose reconcilers wait for an object, which some other controller is to create, change or delete.

A reconciler raises `WaitFor`. Its key is parked: it holds no worker, and no request is sent. It is enqueued

- when a watch event shows that the wait is over, at priority 0 at least,
- when its time is over, at the priority that it had,
- by every other change that enqueues it, as at any time: reconciling stays level-triggered.

A wait that is raised again for the same objects counts its time from the first one.

A wait is no error. It resets the backoff of its key, as a success does, and counts as `requeue_after`. One that is over
already when it is raised, because the object has changed during the reconcile, brings the key back with the
controller's backoff: so a predicate that says yes too early makes no hot loop.

All of it is in memory and may be lost at any moment, because a new process reconciles all keys.
"""

import asyncio
import contextvars
import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any, Self

from kcr.api.durations import human_duration
from kcr.api.meta import Key, Resource
from kcr.arguments import checked, ran, seconds_of
from kcr.errors import KcrError
from kcr.informer import Handler, Informer, Store
from kcr.informer.handlers import Registration
from kcr.workqueue import Reason, WorkQueue

Kind = type[Resource]

# No store reaches this version: a store that is closed calls back all the same.
_NEVER = sys.maxsize


class WaitFor(KcrError):  # noqa: N818  # read aloud where it is raised: `raise kcr.WaitFor(...)`
    """Raised by a reconciler to wait for an object: the key is reconciled again when the store shows it as wanted.

    ```python
    if certificate is None or not is_issued(certificate):
        raise kcr.WaitFor(Certificate, key, is_issued, timeout=300, message="is issued")
    ```

    No worker is held and nothing is polled. It is no error: the backoff is reset, and `kcr explain` and the debug page
    show the wait. Other changes enqueue the key meanwhile, as always. When the time is over, the key is reconciled
    again; if that reconcile raises the wait once more, it has failed, and is retried with backoff.

    Attributes:
        kind: The kind of the object.
        key: Its namespace and name.
        timeout_seconds: How long to wait; None for no limit.
    """

    @checked
    def __init__(
        self,
        kind: Kind,
        key: Key,
        predicate: Callable[[Any], bool] | None = None,
        *,
        timeout: timedelta | float | None = None,
        message: str = "",
    ) -> None:
        """Wait until an object exists, and a predicate holds for it.

        Args:
            kind: The kind. The manager must have an informer of it, by a watch or by `manager.store(kind)`.
            key: Namespace and name of the object.
            predicate: Takes the object as the store shows it; None for one that need only exist. It is called on the
                event loop for each change of the object, so it must be quick.
            timeout: A `timedelta`, or a number of seconds; None for no limit. It counts from the first of several waits
                in a row for this object.
            message: The awaited state, for people: `is issued`.

        Raises:
            TypeError: The timeout is no time.
        """
        self.kind: Kind = kind
        self.key: Key = key
        self.timeout_seconds: float | None = seconds_of(timeout, "timeout")
        self._is_over: Callable[[Any], bool] = (
            _exists if predicate is None else lambda obj: obj is not None and predicate(obj)
        )
        super().__init__(f"{kind.resource.display} {key}: {message or _name_of(predicate)}")

    @classmethod
    @checked
    def absence(
        cls, kind: Kind, key: Key, *, uid: str = "", timeout: timedelta | float | None = None, message: str = ""
    ) -> Self:
        """Wait until an object does not exist: `raise kcr.WaitFor.absence(Pod, key, uid=pod.metadata.uid)`.

        Args:
            kind: As for `WaitFor`.
            key: As for `WaitFor`.
            uid: The uid of the object: another one of its name does not count. Empty for any.
            timeout: As for `WaitFor`.
            message: The awaited state, for people.

        Raises:
            TypeError: The timeout is no time.
        """
        wait = cls(kind, key, _exists, timeout=timeout, message=message or "is deleted")
        wait._is_over = lambda obj: obj is None or bool(uid and obj.metadata.uid != uid)
        return wait

    def is_over(self, obj: Resource | None) -> bool:
        """Return whether the wait is over, given the object as its store shows it; None for no such object."""
        return bool(ran(self._is_over(obj), "the predicate"))


def _exists(obj: Resource | None) -> bool:
    return obj is not None


def _name_of(predicate: Callable[[Any], bool] | None) -> str:
    name = "exists" if predicate is None else getattr(predicate, "__name__", "")
    return name if name.isidentifier() else "is as wanted"


class WaitTimeoutError(KcrError):
    """A reconciler still waits for an object after the time that it has given itself."""


class ParkedKey:
    """A key that waits until one of its waits is over: the waits, their beginning and their deadline."""

    __slots__ = ("deadline", "has_timed_out", "priority", "since", "timer", "waits")

    def __init__(self, waits: tuple[WaitFor, ...], priority: int, now: float) -> None:
        self.waits: tuple[WaitFor, ...] = waits
        self.priority: int = priority
        self.since: float = now
        limits = [wait.timeout_seconds for wait in waits if wait.timeout_seconds is not None]
        self.deadline: float | None = now + min(limits) if limits else None
        self.has_timed_out: bool = False
        self.timer: asyncio.Handle | None = None

    def is_for(self, waits: Iterable[WaitFor]) -> bool:
        """Return whether some waits are for the same objects."""
        return {(one.kind, one.key) for one in self.waits} == {(one.kind, one.key) for one in waits}


class Waits:
    """The keys of one controller that wait for objects; the module's docstring has the contract.

    Attributes:
        parked: The keys that wait.
    """

    def __init__(self, queue: WorkQueue[Key], find_informer: Callable[[Kind], Informer[Any] | None]) -> None:
        """Know of no wait.

        Args:
            queue: Gets the keys when their waits are over.
            find_informer: Returns the informer of a kind; None when the manager has none.
        """
        self._find_informer = find_informer
        self._queue = queue
        self.parked: dict[Key, ParkedKey] = {}
        # The waiting keys by the object that they wait for.
        self._waiting: dict[Kind, dict[Key, set[Key]]] = {}
        # Of the kinds that were waited for, as long as their informers run: a registration calls with all objects.
        self._registrations: dict[Kind, Registration[Any]] = {}

    def park(self, key: Key, waits: tuple[WaitFor, ...], now: float) -> bool:
        """Let a key that is being processed wait until the first of some waits is over.

        Args:
            key: The key.
            waits: The waits that its reconciler has raised.
            now: The loop's time.

        Returns:
            False when one of them is over already.

        Raises:
            WaitTimeoutError: The time was over before this reconcile. The key waits all the same.
            KcrError: The manager has no store of a kind, or the store is not synced.
            Exception: A predicate has raised it.
        """
        earlier = self.parked.get(key)
        self.end(key)
        is_over = False
        for wait in waits:
            is_over |= wait.is_over(self._informer(wait).store.get(wait.key))
        if is_over:
            return False
        parked = ParkedKey(waits, self._queue.priority(key), now)
        if earlier is not None and earlier.is_for(waits):
            parked.since, parked.deadline, parked.has_timed_out = earlier.since, earlier.deadline, earlier.has_timed_out
        self.parked[key] = parked
        for wait in waits:
            self._waiting.setdefault(wait.kind, {}).setdefault(wait.key, set()).add(key)
        if parked.has_timed_out:
            waited = human_duration(timedelta(seconds=now - parked.since))
            raise WaitTimeoutError(f"waited {waited} for {' and '.join(map(str, waits))}")
        if parked.deadline is not None:
            # An empty context: it must not log in the name of a reconcile.
            parked.timer = asyncio.get_running_loop().call_at(
                parked.deadline, self._expire, key, parked, context=contextvars.Context()
            )
        return True

    def end(self, key: Key) -> None:
        """End the wait of a key, if any: its reconciler waits no more, or the wait is over."""
        parked = self.parked.pop(key, None)
        if parked is None:
            return
        if parked.timer is not None:
            parked.timer.cancel()
        for wait in parked.waits:
            keys = self._waiting.get(wait.kind, {}).get(wait.key)
            if keys is not None:
                keys.discard(key)
                if not keys:
                    del self._waiting[wait.kind][wait.key]

    def has_timed_out(self, key: Key) -> bool:
        """Return whether a key waits, and its time is over."""
        parked = self.parked.get(key)
        return parked is not None and parked.has_timed_out

    def texts(self, now: float) -> dict[Key, tuple[str, ...]]:
        """Return the waiting keys and their waits as texts; it may be called in any thread."""
        return {key: tuple(_texts(parked, now)) for key, parked in self.parked.copy().items()}

    def _informer(self, wait: WaitFor) -> Informer[Any]:
        kind, informer = wait.kind, self._find_informer(wait.kind)
        if wait.key.cluster:
            remedy = "return kcr.Result(requeue_after=…), or watch the kind there"
            raise KcrError(f"cannot wait for {wait.key}: waits are for objects of the program's cluster: {remedy}")
        if informer is None:
            name = kind.resource.display
            remedy = f"call manager.store({kind.__name__}) when the program starts, or watch it"
            raise KcrError(f"cannot wait for {name} {wait.key}: the manager has no store of {name}: {remedy}")
        if kind not in self._registrations:
            # Not undone when the last key waits no more: each registration is called with all objects of the store.
            handler = _Awaited(self._waiting.setdefault(kind, {}), partial(self._observe, informer.store, kind))
            self._registrations[kind] = informer.add_handler(handler)
            informer.store.notify_at_version(_NEVER, partial(self._close, kind))
        return informer

    def _observe(self, store: Store[Any], kind: Kind, awaited: Key) -> None:
        # As it is now: one that was deleted may have a successor of its name.
        obj = store.stored(awaited)
        for key in tuple(self._waiting[kind][awaited]):
            waits = [wait for wait in self.parked[key].waits if (wait.kind, wait.key) == (kind, awaited)]
            if any(_is_over(wait, obj) for wait in waits):
                version = "" if obj is None else obj.metadata.resource_version
                reason = Reason(kind.resource.kind, "awaited", awaited.namespace, awaited.name, version=version)
                priority = max(self.parked[key].priority, 0)
                self.end(key)
                self._queue.add(key, priority, reason)

    def _expire(self, key: Key, parked: ParkedKey) -> None:
        parked.has_timed_out, parked.timer = True, None
        self._queue.add(key, parked.priority, Reason("reconcile", "timeout", detail=f"waited for {parked.waits[0]}"))

    def _close(self, kind: Kind) -> None:
        """Enqueue the keys that wait for objects of a kind: its informer was closed, and shows no changes any more."""
        self._registrations.pop(kind, None)
        for key in {key for keys in self._waiting.pop(kind, {}).values() for key in keys}:
            self._queue.add(key, self.parked[key].priority, Reason(kind.resource.kind, "closed"))
            self.end(key)


class _Awaited(Handler[Any]):
    """Handles the changes of one kind, of which some objects are awaited."""

    def __init__(self, waiting: dict[Key, set[Key]], observe: Callable[[Key], None]) -> None:
        self._waiting = waiting
        self._observe = observe

    def on_add(self, obj: Resource, initial: bool) -> None:
        """See whether a wait is over."""
        if self._waiting and obj.key in self._waiting:
            self._observe(obj.key)

    def on_update(self, old: Resource, new: Resource) -> None:
        """See whether a wait is over."""
        self.on_add(new, False)

    def on_delete(self, obj: Resource, final_state_unknown: bool) -> None:
        """See whether a wait is over."""
        self.on_add(obj, False)


def _is_over(wait: WaitFor, obj: Resource | None) -> bool:
    try:
        return wait.is_over(obj)
    except Exception:  # the reconcile that follows raises the wait again, and fails with it
        return True


def _texts(parked: ParkedKey, now: float) -> Iterable[str]:
    for wait in parked.waits:
        yield str(wait)
    if parked.has_timed_out:
        yield f"longer than the {human_duration(timedelta(seconds=(parked.deadline or now) - parked.since))} allowed"
    elif parked.deadline is not None:
        yield f"{human_duration(timedelta(seconds=max(0.0, parked.deadline - now)))} more at most"
