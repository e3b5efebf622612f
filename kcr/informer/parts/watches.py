"""The watches of one informer under sharding: a pair for each set of slots that the replica has taken over at once."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from kcr.api.meta import Key, ObjectMeta, Resource
from kcr.informer.parts.progress import StoreProgress
from kcr.informer.parts.slots import SlotRules, SlotSelection
from kcr.informer.reflector import Reflector
from kcr.informer.selection import Selection
from kcr.informer.writer import DispatchingWriter, StorePart

R = TypeVar("R", bound=Resource)

# After so many removed objects the event loop may run other tasks.
_SLICE = 200


class _SlotWatch(Generic[R]):
    """The reflectors of the slots that were taken over at once, each with its part of the store."""

    def __init__(self, reflectors: tuple[tuple[Reflector[R], StorePart[R]], ...], slots: frozenset[int]) -> None:
        self.reflectors = reflectors
        self.slots = slots
        self.tasks: tuple[asyncio.Task[None], ...] = ()


class ShardedWatches(Generic[R]):
    """Fills a store with the objects of the slots that this replica holds.

    A growing set opens watches for the new slots only. A shrinking one resumes its watches where they are, with the
    smaller selection; the objects of the other slots leave the store without a call of the handlers, because nothing
    has happened to them.

    Attributes:
        rules: The roles of the kind.
    """

    def __init__(
        self,
        selections: tuple[Selection[R], ...],
        writer: DispatchingWriter[R],
        rules: SlotRules,
        make: Callable[[Selection[R], StorePart[R]], Reflector[R]],
    ) -> None:
        """Hold no slots yet.

        Args:
            selections: The selected objects, of all slots.
            writer: The informer's.
            rules: The roles of the kind.
            make: Makes the reflector of a selection.
        """
        self.rules = rules
        self._selections = selections
        self._writer = writer
        self._make = make
        self._watches: list[_SlotWatch[R]] = []
        self._parts: list[StorePart[R]] = []
        # Runs a reflector; None before the informer runs.
        self._spawn: Callable[[Reflector[R]], asyncio.Task[None]] | None = None
        # Called with an object that exists and has left the watched slots; the store keeps it.
        self.on_left: Callable[[R], object] = writer.remove
        writer.store.parts = self._showing

    @property
    def reflectors(self) -> tuple[Reflector[R], ...]:
        """All reflectors."""
        return tuple(reflector for watch in self._watches for reflector, _ in watch.reflectors)

    @property
    def slots(self) -> frozenset[int]:
        """The slots that are watched."""
        return frozenset[int]().union(*(watch.slots for watch in self._watches))

    def start(self, spawn: Callable[[Reflector[R]], asyncio.Task[None]]) -> None:
        """Run the reflectors; without slots the store is synced, and empty."""
        self._spawn = spawn
        self._writer.declare_synced()
        for watch in self._watches:
            self._run(watch)

    def open(self, slots: frozenset[int]) -> None:
        """List and watch some more slots."""
        reflectors = []
        for selection in self._selections:
            for is_labelled in (True, False):
                mine = selection._replace(slots=SlotSelection(slots, is_labelled, self.rules))
                part = StorePart(self._writer, mine.covers, self._parts, self.on_left)
                reflectors.append((self._make(mine, part), part))
        watch = _SlotWatch(tuple(reflectors), slots)
        self._watches.append(watch)
        if self._spawn is not None:
            self._run(watch)

    async def wait_filled(self, slots: frozenset[int]) -> None:
        """Return once the objects of some slots are stored, and the handlers were called with them."""
        for watch in tuple(self._watches):
            if watch.slots & slots:
                for _, part in watch.reflectors:
                    await part.filled.wait()

    async def close(self, slots: frozenset[int]) -> tuple[Key, ...]:
        """Watch some slots no more, remove their objects from the store, and return the keys of these."""
        for watch in tuple(self._watches):
            if watch.slots & slots:
                self._narrow(watch, watch.slots - slots)
        removed: list[Key] = []
        for number, obj in enumerate(self._writer.store.snapshot(), 1):
            if not any(part.covers(obj.metadata) for part in self._parts):
                self._writer.store.remove(obj.key)
                removed.append(obj.key)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return tuple(removed)

    def _run(self, watch: _SlotWatch[R]) -> None:
        assert self._spawn is not None
        watch.tasks = tuple(self._spawn(reflector) for reflector, _ in watch.reflectors)

    def _narrow(self, watch: _SlotWatch[R], slots: frozenset[int]) -> None:
        if not slots:
            for task in watch.tasks:
                task.cancel()
            for _, part in watch.reflectors:
                part.close()
            self._watches.remove(watch)
            return
        watch.slots = slots
        for reflector, part in watch.reflectors:
            before = reflector.selection.slots
            assert before is not None
            selection = reflector.selection._replace(slots=before._replace(slots=slots))
            part.covers = selection.covers
            reflector.narrow(selection)

    def _showing(self, metadata: ObjectMeta) -> Iterator[StoreProgress]:
        return (part.progress for part in self._parts if part.covers(metadata))
