"""The informers of a manager: one per kind, made on first use, ended after the last, and waited for together."""

import asyncio
import gc
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from kcr.api.meta import PartialObjectMetadata, Resource
from kcr.arguments import awaited, checked
from kcr.errors import NotSyncedError
from kcr.informer.handlers import Handler, Registration
from kcr.informer.informer import Informer
from kcr.informer.selection import Selection, disjoint, selections_in
from kcr.informer.store import Store
from kcr.log import get_logger
from kcr.runnables import Runnable

R = TypeVar("R", bound=Resource)

# Source: controller-runtime, Controller.CacheSyncTimeout.
SYNC_SECONDS = 120.0
# How often a log line names the caches that are not synced, and how often absent kinds are searched.
UNSYNCED_LINE_SECONDS = 20.0
_LOOK_SECONDS = 1.0
# With fewer objects a full collection is quick.
FREEZE_FROM = 1000

_log = get_logger()


class InformerHandle(Generic[R]):
    """One of the references to a shared informer: the informer runs until the last of them is closed.

    ```python
    async with manager.open_informer(Pod) as pods:
        names = [pod.metadata.name for pod in pods.store.list("default")]
    ```

    `async with` waits until the store is synced. Without it, `close` the handle by hand; until then, the informer runs.
    A closed handle cannot be opened again: open another one.

    Attributes:
        kind: The kind.
    """

    def __init__(self, kind: type[R], informer: Informer[R], release: "Callable[[InformerHandle[R]], None]") -> None:
        """Make a handle.

        Args:
            kind: The kind.
            informer: The informer of that kind.
            release: Called when it is closed, once.
        """
        self.kind = kind
        self._informer = informer
        self._release = release
        self._registrations: list[Registration[R]] = []
        # The timeouts that end the running calls of `wait_synced`.
        self._waiting: set[asyncio.Timeout] = set()
        self._is_closed = False

    @property
    def store(self) -> Store[R]:
        """The cached objects; they may be read until the handle is closed.

        Raises:
            NotSyncedError: The handle was closed.
        """
        self._check_open()
        return self._informer.store

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, or its informer was removed."""
        return self._is_closed or self._informer.store.is_closed

    @checked
    def add_handler(self, handler: Handler[R]) -> Registration[R]:
        """Add a handler until the handle is closed; see `Informer.add_handler`.

        Raises:
            NotSyncedError: The handle was closed.
            RuntimeError: The informer has ended.
        """
        self._check_open()
        registration = self._informer.add_handler(handler)
        self._registrations.append(registration)
        return registration

    def note_lost_event(self, why: str) -> None:
        """List again, because the watch has lost an event; see `Informer.note_lost_event`.

        Raises:
            NotSyncedError: The handle was closed.
        """
        self._check_open()
        self._informer.note_lost_event(why)

    async def wait_synced(self) -> None:
        """Return once the first list is stored and every handler was called with it. It may never be: use a timeout.

        Raises:
            NotSyncedError: The handle was closed, before or meanwhile.
        """
        self._check_open()
        closed = asyncio.timeout(None)
        try:
            async with closed:
                self._waiting.add(closed)
                await self._informer.wait_synced()
        except TimeoutError:
            self._check_open()
        finally:
            self._waiting.discard(closed)

    def close(self) -> None:
        """Give up the reference, at once: its handlers are called no more. Nothing happens the second time.

        If it was the last one, the watches end, the store is emptied, and reading it raises `NotSyncedError`. Keys that
        are queued are still reconciled; no handler is called for the objects that leave the store with it. The next
        handle begins with a new list.
        """
        if not self._is_closed:
            self._is_closed = True
            for registration in self._registrations:
                registration.remove()
            for waiting in self._waiting:
                waiting.reschedule(asyncio.get_running_loop().time())
            self._release(self)

    def _check_open(self) -> None:
        if self._is_closed:
            raise NotSyncedError(f"{self.kind.resource.display}: this handle of its informer was closed")

    async def __aenter__(self) -> Self:
        """Wait until the store is synced."""
        try:
            await self.wait_synced()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class InformerCache:
    """Informers by kind.

    An informer lives as long as it has users. A handle is a user until it is closed; a request for the informer itself
    is a permanent user.

    A kind that the server does not serve, for example before its CustomResourceDefinition is installed, delays only its
    own controllers: the informer retries every few seconds.

    Source: controller-runtime/pkg/cache/informer_cache.go. There RemoveInformer ends an informer despite its users.
    """

    def __init__(
        self,
        namespace: str,
        make: Callable[[tuple[Selection[Any], ...]], Informer[Any]],
        forget: Callable[[type[Resource]], None],
    ) -> None:
        """Make an empty cache.

        Args:
            namespace: The namespace to watch, or several, separated by commas; empty for all.
            make: Makes an informer of these selections, and runs it.
            forget: Called with a kind whose informer is about to be closed.
        """
        self._namespace = namespace
        self._make = make
        self._forget = forget
        self._informers: dict[type[Resource], Informer[Any]] = {}
        # The open handles of each informer. Invariant: each has some, or its kind is in `_pinned`.
        self._handles: dict[type[Resource], set[InformerHandle[Any]]] = {}
        # The kinds whose informers may be in use without a handle.
        self._pinned: set[type[Resource]] = set()
        # Selections of some kinds; of the others, everything in the namespaces.
        self._selected: dict[type[Resource], tuple[Selection[Any], ...]] = {}

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(tuple(self._informers.values()))

    def select(self, selections: tuple[Selection[Any], ...]) -> None:
        """Watch only these objects of a kind; see `Manager.select`."""
        chosen = disjoint(selections)
        kind = chosen[0].kind
        if kind in self._informers or kind in self._selected:
            remedy = "beside others that use it, such as job, run in a process of your own"
            raise ValueError(f"{kind.resource.display}: select before the kind is used, and once: {remedy}")
        self._selected[kind] = chosen

    def informer(self, kind: type[R]) -> Informer[R]:
        """Return the informer of a kind, to be used without a handle; it is made on first use, and stays."""
        informer = self._get(kind)
        self._pinned.add(kind)
        return informer

    def find(self, kind: type[R]) -> Informer[R] | None:
        """Return the informer of a kind; None when it has none."""
        return self._informers.get(kind)

    def all_of(self, kind: type[Resource]) -> Iterator[Informer[Any]]:
        """Yield the informers of a kind, in any form: in another version, or of the metadata only."""
        wanted = kind.resource
        for known, informer in self._informers.items():
            resource = known.resource
            if known is kind or (resource.plural == wanted.plural and resource.group == wanted.group):
                yield informer

    def open(self, kind: type[R]) -> InformerHandle[R]:
        """Open a handle of the informer of a kind; that is made on first use."""
        handle = InformerHandle(kind, self._get(kind), lambda closed: self._release(kind, closed))
        self._handles.setdefault(kind, set()).add(handle)
        return handle

    def remove(self, kind: type[Resource]) -> None:
        """Close the informer of a kind for all its users."""
        self._handles.pop(kind, None)
        self._pinned.discard(kind)
        informer = self._informers.pop(kind, None)
        if informer is not None:
            self._forget(kind)
            informer.close()

    def _get(self, kind: type[R]) -> Informer[R]:
        informer = self._informers.get(kind)
        if informer is None:
            informer = self._informers[kind] = self._make(self.selections_of(kind))
        return cast("Informer[R]", informer)

    def _release(self, kind: type[Resource], closed: InformerHandle[Any]) -> None:
        handles = self._handles.get(kind, set())
        # Not there: its informer was removed, and there may be a new one.
        if closed in handles:
            handles.discard(closed)
            if not handles:
                del self._handles[kind]
                if kind not in self._pinned:
                    self.remove(kind)

    @property
    def kinds(self) -> tuple[type[Resource], ...]:
        """The kinds that have an informer."""
        return tuple(self._informers)

    @property
    def selections(self) -> tuple[Selection[Any], ...]:
        """The watched kinds, each in all namespaces or in some."""
        return tuple(selection.normal() for kind in self._informers for selection in self.selections_of(kind))

    def selections_of(self, kind: type[R]) -> tuple[Selection[R], ...]:
        """Return the selections of a kind."""
        return self._selected.get(kind) or selections_in(kind, self._namespace)

    async def wait_synced(self, *, log: bool = False, needed: Collection[type[Resource]] | None = None) -> None:
        """Wait until all stores are synced, but those of kinds that the server does not have.

        Informers that are made meanwhile are waited for as well.

        Args:
            log: Whether a log line names the awaited kinds from time to time, with the cause.
            needed: Wait for these kinds, and for those whose informers are used without a handle; None for all.

        Raises:
            NotSyncedError: A store was not filled in two minutes; the message names the cause.
        """
        loop = asyncio.get_running_loop()
        say_at = loop.time() + UNSYNCED_LINE_SECONDS
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                while late := self._late(needed):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_SECONDS):
                            # It may be closed meanwhile, and is not late any more then.
                            with suppress(NotSyncedError):
                                await late[0].wait_synced()
                            continue
                    if log and loop.time() >= say_at:
                        say_at += UNSYNCED_LINE_SECONDS
                        kinds, causes = len(self._late(needed)), self._causes(needed)
                        _log.warning(
                            "waiting for caches to sync", kinds=kinds, error=causes, gives_up_after_seconds=SYNC_SECONDS
                        )
        except TimeoutError as error:
            raise NotSyncedError(f"not synced after {SYNC_SECONDS:.0f} s: {self._causes(needed)}") from error

    async def run_synced(self, component: Runnable, name: str, needs: Sequence[InformerHandle[Any]]) -> None:
        """Run a component once the stores are synced that it may read, however late it is added.

        Args:
            component: The component.
            name: Its name, for the log.
            needs: Handles of the informers whose kinds it waits for.
        """
        # Not for those of handles that others opened: a kind that cannot be listed must not end this process.
        await self.wait_synced(needed={handle.kind for handle in needs})
        await self._wait_served(name, needs)
        await awaited(component.run(), f"component {name}: run")

    async def _wait_served(self, controller: str, handles: Sequence[InformerHandle[Any]]) -> None:
        """Wait until some stores are synced, for as long as it takes: their kinds may not be installed yet.

        Args:
            controller: Who waits, for the log.
            handles: Handles of the informers; those that are closed are not waited for.
        """
        waiting = {
            handle.kind.resource.display for handle in handles if not handle.is_closed and not handle.store.synced
        }
        if waiting:
            remedy = "install their CustomResourceDefinitions; the controller begins then"
            _log.warning("controller waits for kinds", controller=controller, kinds=sorted(waiting), remedy=remedy)
        for handle in handles:
            with suppress(NotSyncedError):
                await handle.wait_synced()
        if waiting:
            _log.info("controller started: its kinds are served", controller=controller)

    def freeze(self) -> None:
        """Exclude cached objects from garbage collection, because full collections block the event loop."""
        if sum(len(informer.store) for informer in self) >= FREEZE_FROM:
            gc.collect()
            gc.freeze()

    def _late(self, needed: Collection[type[Resource]] | None) -> list[Informer[Any]]:
        return [
            informer
            for kind, informer in self._informers.items()
            if (needed is None or kind in needed or kind in self._pinned)
            and not informer.store.synced
            and not informer.store.is_closed
            and not informer.is_absent
        ]

    def _causes(self, needed: Collection[type[Resource]] | None) -> str:
        return "; ".join(informer.not_synced_reason for informer in self._late(needed))


def informer_name(kind: type[Resource]) -> str:
    """Return the name of a kind's informer in health checks and metrics.

    A kind may have two informers, one of them of the metadata only. Where two classes stand for it, the second has
    another name (`kcr.serving.observability`).
    """
    return kind.resource.display + ("-metadata" if issubclass(kind, PartialObjectMetadata) else "")
