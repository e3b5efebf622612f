"""The watches of one informer that come and go: with the shards that a replica holds, and with changing namespaces."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from kcr.api.meta import Key, Resource
from kcr.informer.reflector import Reflector
from kcr.informer.selection import Selection
from kcr.informer.slots import SlotRules, SlotSelection
from kcr.informer.writer import DispatchingWriter, StorePart

R = TypeVar("R", bound=Resource)

# After so many removed objects the event loop may run other tasks.
_SLICE = 200


class _PartWatch(Generic[R]):
    """A reflector with its part of the store, and its task once it runs."""

    def __init__(self, reflector: Reflector[R], part: StorePart[R]) -> None:
        self.reflector = reflector
        self.part = part
        self.task: asyncio.Task[None] | None = None

    @property
    def namespace(self) -> str:
        return self.reflector.selection.namespace

    def end(self) -> None:
        if self.task is not None:
            self.task.cancel()
        self.part.close()


class _SlotWatch(Generic[R]):
    """The watches of the slots that were taken over at once; without sharding of all objects, and slots are None."""

    def __init__(self, slots: frozenset[int] | None) -> None:
        self.slots = slots
        self.watches: list[_PartWatch[R]] = []


class PartedWatches(Generic[R]):
    """Fills a store with the objects of the slots and namespaces that this replica works on.

    Slots: a growing set opens watches for the new slots only. A shrinking one resumes its watches where they are, with
    the smaller selection; the objects of the other slots leave the store without a call of the handlers, because
    nothing has happened to them.

    Namespaces: each has watches of its own, for all slots that are held. The objects of a namespace that is closed
    leave the store as if they had disappeared (`final_state_unknown`), so that nothing counts them any longer; who
    closes it sees to it that no key of the namespace is reconciled.

    Attributes:
        rules: The roles of the kind, under sharding.
        has_namespaces: Whether namespaces come and go.
    """

    def __init__(
        self,
        selections: tuple[Selection[R], ...],
        writer: DispatchingWriter[R],
        make: Callable[[Selection[R], StorePart[R]], Reflector[R]],
        parts: list[StorePart[R]],
    ) -> None:
        """Hold no slots and no namespaces yet.

        Args:
            selections: The selected objects, of all slots.
            writer: The informer's.
            make: Makes the reflector of a selection.
            parts: The parts of the store.
        """
        self.rules: SlotRules = SlotRules()
        self.has_namespaces: bool = False
        self._selections = selections
        self._writer = writer
        self._make = make
        self._slot_watches: list[_SlotWatch[R]] = []
        self._parts = parts
        # The namespaces whose first lists may be under way, with events that are set at their ends: no shard waits for
        # them.
        self._opening: dict[str, asyncio.Event] = {}
        # Runs a reflector; None before the informer runs.
        self._spawn: Callable[[Reflector[R]], asyncio.Task[None]] | None = None
        # Called with an object that exists and has left the watched slots.
        self._on_left: Callable[[R], object] | None = None

    def shard(self, rules: SlotRules, on_left: Callable[[R], object] | None) -> None:
        """Watch only slots that are opened; before anything is listed.

        Args:
            rules: The roles of the kind.
            on_left: Called with an object that exists and has left the watched slots; None to remove it.
        """
        self.rules, self._on_left = rules, on_left
        self._slot_watches.clear()
        self._parts.clear()

    def follow_namespaces(self) -> None:
        """Watch only namespaces that are opened, each as the one selection that there is; before anything is listed."""
        self.has_namespaces = True
        (self._template,) = self._selections
        self._selections = ()
        self._slot_watches = [_SlotWatch(None)]

    @property
    def reflectors(self) -> tuple[Reflector[R], ...]:
        """All reflectors."""
        return tuple(watch.reflector for watch in self._watches())

    @property
    def slots(self) -> frozenset[int]:
        """The slots that are watched."""
        return frozenset[int]().union(*(one.slots or () for one in self._slot_watches))

    def start(self, spawn: Callable[[Reflector[R]], asyncio.Task[None]]) -> None:
        """Run the reflectors; without slots or namespaces the store is synced, and empty."""
        self._spawn = spawn
        self._writer.declare_synced()
        for watch in self._watches():
            watch.task = spawn(watch.reflector)

    def open(self, slots: frozenset[int]) -> None:
        """List and watch some more slots."""
        opened = _SlotWatch[R](slots)
        self._slot_watches.append(opened)
        for selection in self._selections:
            self._watch(opened, selection)

    async def wait_filled(self, slots: frozenset[int]) -> None:
        """Return once the objects of some slots are stored, and the handlers were called with them.

        Namespaces that are being opened are not waited for: one may be forbidden.
        """
        for one in tuple(self._slot_watches):
            for watch in tuple(one.watches) if one.slots is not None and one.slots & slots else ():
                if watch.namespace not in self._opening:
                    await watch.part.filled.wait()

    async def close(self, slots: frozenset[int]) -> tuple[Key, ...]:
        """Watch some slots no more, remove their objects from the store, and return the keys of these."""
        for one in tuple(self._slot_watches):
            if one.slots is not None and one.slots & slots:
                self._narrow(one, one.slots - slots)
        removed: list[Key] = []
        for number, obj in enumerate(self._writer.store.snapshot(), 1):
            if not any(part.covers(obj.metadata) for part in self._parts):
                self._writer.store.remove(obj.key)
                removed.append(obj.key)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return tuple(removed)

    def open_namespace(self, namespace: str) -> None:
        """List and watch one more namespace."""
        self._opening[namespace] = asyncio.Event()
        selection = self._template._replace(namespace=namespace)
        self._selections = (*self._selections, selection)
        for one in self._slot_watches:
            self._watch(one, selection)

    def unfilled(self, namespace: str) -> asyncio.Event | None:
        """Return the event that is set once the next part of a namespace is stored; None when all of them are."""
        events = (watch.part.filled for watch in self._watches(namespace))
        return next((filled for filled in events if not filled.is_set()), None)

    def opening(self, namespace: str) -> asyncio.Event | None:
        """Return the event that is set once a namespace is open, or closed; None when it is."""
        return self._opening.get(namespace)

    def opened(self, namespace: str) -> None:
        """Note that a namespace is open: all its parts are stored."""
        if (opened := self._opening.pop(namespace, None)) is not None:
            opened.set()

    async def close_namespace(self, namespace: str) -> tuple[Key, ...]:
        """Watch a namespace no more, remove its objects, and return their keys; the handlers see them disappear."""
        self.opened(namespace)
        self._selections = tuple(one for one in self._selections if one.namespace != namespace)
        for watch in self._watches(namespace):
            watch.end()
        for one in self._slot_watches:
            one.watches = [watch for watch in one.watches if watch.namespace != namespace]
        store = self._writer.store
        gone = [obj for obj in store.snapshot() if obj.metadata.namespace == namespace]
        for key in [key for key in store.undecodable if key.namespace == namespace]:
            del store.undecodable[key]
        for number, obj in enumerate(gone, 1):
            self._writer.remove(obj, final_state_unknown=True)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return tuple(obj.key for obj in gone)

    def last_error(self, namespace: str) -> str:
        """Return why the objects of a namespace cannot be listed or watched; empty if they can."""
        errors = (watch.reflector.last_error for watch in self._watches(namespace))
        return next(filter(None, errors), "")

    def _watches(self, namespace: str | None = None) -> tuple[_PartWatch[R], ...]:
        return tuple(
            watch for one in self._slot_watches for watch in one.watches if namespace in (None, watch.namespace)
        )

    def _watch(self, opened: _SlotWatch[R], selection: Selection[R]) -> None:
        for mine in self._in_slots(selection, opened.slots):
            part = StorePart(self._writer, mine.covers, self._parts, self._on_left)
            watch = _PartWatch(self._make(mine, part), part)
            opened.watches.append(watch)
            if self._spawn is not None:
                watch.task = self._spawn(watch.reflector)

    def _in_slots(self, selection: Selection[R], slots: frozenset[int] | None) -> Iterator[Selection[R]]:
        if slots is None:
            yield selection
        else:
            for is_labelled in (True, False):
                yield selection._replace(slots=SlotSelection(slots, is_labelled, self.rules))

    def _narrow(self, one: _SlotWatch[R], slots: frozenset[int]) -> None:
        if not slots:
            for watch in one.watches:
                watch.end()
            self._slot_watches.remove(one)
            return
        one.slots = slots
        for watch in one.watches:
            before = watch.reflector.selection.slots
            assert before is not None
            selection = watch.reflector.selection._replace(slots=before._replace(slots=slots))
            watch.part.narrow(selection.covers)
            watch.reflector.narrow(selection)
