"""Shared informer: lists and watches one kind into a store and dispatches events to handlers."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Generic, TypeVar

from kcr.annotations import check_of_methods
from kcr.api.meta import Resource
from kcr.arguments import checked, error_of
from kcr.client import Client
from kcr.errors import NotSyncedError
from kcr.informer.handlers import Handler, Registration
from kcr.informer.reflector import Reflector
from kcr.informer.selection import Selection, as_selections, disjoint
from kcr.informer.slots import SlotRules
from kcr.informer.store import MemberStore, Store, allow_unsynced_reads
from kcr.informer.verification import Verified, verify
from kcr.informer.watches import PartedWatches
from kcr.informer.writer import DispatchingWriter, StorePart, StoreWriter

R = TypeVar("R", bound=Resource)

# How long a watch may fail after the first sync: a restart of the server takes less.
_FAILING_SECONDS = 60.0


class Informer(Generic[R]):
    """Shared informer of one kind: a store, filled by reflectors, and the handlers of its changes.

    The package's docstring has the guarantees. Every failure is retried: only cancellation or `close` ends it.

    Attributes:
        kind: The watched kind.
        store: The local copy, readable at any time once it is synced.
        writer: Changes the store and calls the handlers; the reflectors write to it.
    """

    @checked
    def __init__(
        self,
        client: Client,
        selection: Selection[R] | type[R] | Sequence[Selection[R]],
        *,
        random: Random | None = None,
        is_member: bool = False,
    ) -> None:
        """Make an informer; it does nothing before it runs.

        Args:
            client: Lists and watches.
            selection: Which objects; a kind alone means all of them, and several selections a namespace each, or in
                one of them all other namespaces.
            random: Spreads watches and retries.
            is_member: Whether keys with a cluster read its store: it is of a member cluster.

        Raises:
            ValueError: The selections overlap, or are of different kinds.
        """
        selections = disjoint(as_selections(selection))
        # The parts of the store, as far as they are made; none where one watch fills it.
        parts: list[StorePart[R]] = []
        self._parts = parts
        self.store: Store[R] = (MemberStore if is_member else Store)(lambda: self.not_synced_reason, parts)
        self.kind = selections[0].kind
        self._client = client
        self._random = random or Random()
        self._counts: Counter[str] = Counter()
        writer: DispatchingWriter[R] = DispatchingWriter(self.kind, self.store)
        self.writer: DispatchingWriter[R] = writer
        self._selections = selections
        # The watches that come and go, under sharding or with changing namespaces.
        self.parted: PartedWatches[R] | None = None
        self._fixed = self._watch_all() if len(selections) > 1 else (self._reflect(selections[0], writer),)
        # Those of the reflectors, while it runs.
        self._tasks: set[asyncio.Task[None]] = set()

    def _watch_all(self) -> tuple[Reflector[R], ...]:
        return tuple(
            self._reflect(selection, StorePart(self.writer, selection.covers, self._parts))
            for selection in self._selections
        )

    def _reflect(self, selection: Selection[R], writer: StoreWriter[R]) -> Reflector[R]:
        return Reflector(self._client, selection, writer, self._random, self._counts)

    def shard(self, rules: SlotRules, on_left: Callable[[R], object] | None = None) -> PartedWatches[R]:
        """Keep only objects of the slots that are opened in the returned watches; before the informer runs.

        Args:
            rules: The roles of the kind for the controllers.
            on_left: Called with an object that exists and has left the watched slots, and stays in the store; None to
                remove it.
        """
        watches = self._part()
        watches.shard(rules, on_left)
        return watches

    def follow_namespaces(self) -> PartedWatches[R] | None:
        """Keep only objects of the namespaces that are opened in the returned watches; before the informer runs.

        Returns:
            None for a kind without namespaces, and for one whose namespaces are selected: all of that is watched.
        """
        one = self._selections[0]
        if len(self._selections) > 1 or one.namespace or not self.kind.resource.namespaced:
            return None
        watches = self._part()
        watches.follow_namespaces()
        return watches

    def _part(self) -> PartedWatches[R]:
        self._fixed = ()
        if self.parted is None:
            self.parted = PartedWatches(self._selections, self.writer, self._reflect, self._parts)
        return self.parted

    @property
    def _reflectors(self) -> tuple[Reflector[R], ...]:
        return self._fixed if self.parted is None else self.parted.reflectors

    async def run(self) -> None:
        """List and watch until cancelled or closed."""
        # Handlers run in this task, and may read the stores of other kinds that are not synced yet.
        allow_unsynced_reads.set(True)
        self.store.own(asyncio.get_running_loop())
        try:
            async with asyncio.TaskGroup() as group:
                if self.store.is_closed:
                    return

                def spawn(reflector: Reflector[R]) -> asyncio.Task[None]:
                    task = group.create_task(reflector.run(), name=f"reflector of {reflector.selection}")
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                    return task

                for reflector in self._fixed:
                    spawn(reflector)
                if self.parted is not None:
                    self.parted.start(spawn)
                    # Parts come and go: the informer ends when it is cancelled or closed.
                    self._tasks.add(group.create_task(_for_ever(), name=f"parted informer of {self.kind.__name__}"))
        finally:
            self._tasks = set()
            self.writer.end()

    def close(self) -> None:
        """Stop permanently: close the watches, remove the handlers and drop the objects.

        It takes effect at once, also in the middle of a list and when a handler calls it: no handler is called any
        more, and waiting for the store or reading it raises `NotSyncedError`.
        """
        self.store.close()
        for registration in self.writer.registrations:
            registration.remove()
        # Directly, and not by way of the group, so that no reflector takes another step.
        for task in tuple(self._tasks):
            task.cancel()
        self.writer.end()
        self.writer.synced.set()

    async def wait_synced(self) -> None:
        """Return once the first list is stored and every handler was called with it. It may never be: use a timeout.

        Raises:
            NotSyncedError: The informer was closed.
        """
        await self.writer.synced.wait()
        if self.store.is_closed:
            raise NotSyncedError(self.not_synced_reason)

    @property
    def not_synced_reason(self) -> str:
        """The reason why the store is not synced, such as a missing permission; empty once it is."""
        if self.store.synced:
            return ""
        if self.store.is_closed:
            return f"{self.kind.resource.display}: its informer was removed"
        silent = "the server has not answered yet" if self._tasks else "its informer does not run"
        return "; ".join(
            f"{reflector.selection}: {reflector.last_error or reflector.list_progress or silent}"
            for reflector in self._reflectors
            if not reflector.is_filled
        )

    @property
    def is_absent(self) -> bool:
        """Whether the server does not have the kind: its CustomResourceDefinition may not be installed yet."""
        return any(reflector.is_absent for reflector in self._reflectors)

    @property
    def unready_reason(self) -> str:
        """The reason for failing readiness: not synced, or a watch has failed for a minute; else empty.

        A kind that the server has never had keeps nothing but its own controllers waiting, and of changing namespaces
        one that fails leaves the others ready.
        """
        if not self.store.synced:
            return "" if self.is_absent else self.not_synced_reason
        failing = [one.failing_seconds > _FAILING_SECONDS for one in self._reflectors]
        counts = all if self.parted is not None and self.parted.has_namespaces else any
        return self.last_error if failing and counts(failing) else ""

    @property
    def last_error(self) -> str:
        """Why the last attempt to list or watch failed, and for how long they have been failing; empty once one works.

        The stored objects stay readable, and become stale.
        """
        return "; ".join(
            f"{reflector.selection}: {reflector.last_error} (failing for {reflector.failing_seconds:.0f} s)"
            for reflector in self._reflectors
            if reflector.last_error
        )

    @property
    def silence(self) -> str:
        """Which watches have been silent for longer than is usual, and for how long; empty for none.

        This is the first sign of a frozen server: the connection is open, and the next probe fails only later.
        """
        return "; ".join(f"{one.selection}: {one.silence}" for one in self._reflectors if one.silence)

    def shows(self, obj: Resource) -> bool:
        """Return whether the store will show this version of an object, or its deletion; False when unknown.

        Args:
            obj: The object, as the server returned it.
        """
        several = self.parted is not None or len(self._selections) > 1
        if several and not any(part.covers(obj.metadata) for part in self._parts):
            return False
        # An object that a change removes from the selection leaves the store with an event of that version.
        return self.store.stored(obj.key) is not None or any(
            not one.labels and not one.fields and one.covers(obj.metadata) for one in self._selections
        )

    @property
    def counts(self) -> Mapping[str, int]:
        """How often lists, watches, relists and errors happened, by name: see `Reflector`; and `handler_errors`."""
        return self._counts

    @property
    def list_duration_seconds(self) -> float:
        """How long the last list took; 0 before the first."""
        return max((reflector.list_duration_seconds for reflector in self._reflectors), default=0.0)

    @property
    def last_event_time(self) -> float:
        """The loop's time of the last watch event; of several watches the oldest, `-inf` when one has had none."""
        return min((reflector.last_event_time for reflector in self._reflectors), default=float("-inf"))

    async def verify(self) -> tuple[Verified, ...]:
        """Compare the store with the server; see `kcr.informer.verification`."""
        return tuple([await verify(self._client, self.store, one.selection) for one in self._reflectors])

    def note_lost_event(self, why: str) -> None:
        """Relist, because the watch has lost an event: the store is older than its resourceVersion.

        Nothing happens while a list is under way. Relists that follow each other back off.

        Args:
            why: The evidence, for the log.
        """
        for reflector in self._reflectors:
            reflector.relist(why)

    @checked
    def add_handler(self, handler: Handler[R]) -> Registration[R]:
        """Add a handler, at any time; it is called at once with the stored objects, as initial.

        Raises:
            RuntimeError: The informer has ended.
        """
        if fault := check_of_methods(Handler).fault(handler):
            raise error_of("Informer.add_handler", "handler", fault)
        if self.writer.has_ended:
            raise RuntimeError(f"{self.kind.resource.display}: the informer has ended, no handler would be called")
        registration = Registration(handler, self._count_failure, self.writer.deregister)
        token = allow_unsynced_reads.set(True)
        # No await in between: the handler misses no change and is called for none twice.
        for obj in self.store.snapshot():
            registration.added(obj, True)
        allow_unsynced_reads.reset(token)
        if self.store.synced:
            registration.declare_synced()
        self.writer.register(registration)
        return registration

    def _count_failure(self) -> None:
        self._counts["handler_errors"] += 1


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
