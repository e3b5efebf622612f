"""The keeper: opens the watches of namespaces that come, and closes those of namespaces that leave."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

from kcr.informer import Informer
from kcr.informer.cache import SYNC_SECONDS
from kcr.informer.watches import PartedWatches
from kcr.log import get_logger
from kcr.scopes.keeper import ScopeKeeper
from kcr.scopes.namespaces.gate import NamespaceGate
from kcr.scopes.phase import ScopePhase

_POLL_SECONDS = 0.01
# How often absent kinds are searched, and how often a namespace that is not ready is noticed.
_LOOK_SECONDS = 1.0
_REPORT_SECONDS = 5.0
_REMEDY = (
    "grant the rights there: bind the role of `kcr rbac generate --namespace-selector` in that namespace; "
    "the other namespaces are reconciled"
)

_log = get_logger()


class NamespaceKeeper(ScopeKeeper[str, NamespaceGate]):
    """Follows a set of namespaces: each is opened, left and closed in this order, by a task of its own.

    Attributes:
        phases: The phases of the namespaces that are watched.
    """

    def __init__(self) -> None:
        """Watch no namespace yet."""
        super().__init__()
        self.phases: dict[str, ScopePhase] = {}
        self._wanted: set[str] = set()
        # Of each namespace that has a task: set once it leaves.
        self._left: dict[str, asyncio.Event] = {}
        # The tasks that fill and open a namespace, until it leaves.
        self._opening: dict[str, set[asyncio.Task[None]]] = {}
        self._informers: dict[Informer[Any], PartedWatches[Any]] = {}
        # The namespaces whose failure was logged.
        self._told: set[str] = set()
        self._group: asyncio.TaskGroup | None = None

    @property
    def wanted(self) -> frozenset[str]:
        """The namespaces to work in."""
        return frozenset(self._wanted)

    def add(self, name: str) -> None:
        """Work in a namespace; nothing happens if this does already."""
        self._wanted.add(name)
        if self._group is not None and name not in self._left:
            self._left[name] = asyncio.Event()
            self._group.create_task(self._follow(name), name=f"namespace {name}")

    def discard(self, name: str) -> None:
        """Work in a namespace no more: from now on, none of its keys is begun."""
        self._wanted.discard(name)
        if name in self._left and not self._left[name].is_set():
            self.phases[name] = ScopePhase.DRAINING
            for gate in self.gates:
                gate.closed(name)
            self._left[name].set()

    def add_gate(self, gate: NamespaceGate) -> None:
        """Let a gate open with each namespace."""
        self.gates.append(gate)
        for name in self._followed():
            self._spawn(name, self._admit(gate, name))

    def add_informer(self, informer: Informer[Any]) -> None:
        """Let an informer, which does not run yet, watch these namespaces, unless its own are selected."""
        watches = informer.follow_namespaces()
        if watches is not None:
            self._informers[informer] = watches
            for name in self._followed():
                watches.open_namespace(name)
                self._spawn(name, self._fill(watches, name))

    def last_error(self, name: str) -> str:
        """Return why a namespace cannot be watched; empty if it can, and for kinds that the server does not have."""
        errors = (watches.last_error(name) for informer, watches in self._open_informers() if not informer.is_absent)
        return next(filter(None, errors), "")

    def remark(self) -> str:
        """Return which namespaces are active, and why others are not, for the readiness probe."""
        active = sum(phase is ScopePhase.ACTIVE for phase in self.phases.values())
        failing = [f"{name}: {error}" for name in sorted(self.phases) if (error := self.last_error(name))]
        return "; ".join((f"{active} of {len(self.wanted)} active", *failing))

    async def wait_opened(self) -> None:
        """Return once each namespace is active or fails, at the latest after two minutes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SYNC_SECONDS):
                while True:
                    if not any(self._is_late(name) for name in self._wanted):
                        return
                    await asyncio.sleep(_POLL_SECONDS)

    async def run(self) -> None:
        """Follow the namespaces until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for name in sorted(self._wanted):
                self.add(name)
            while True:
                await asyncio.sleep(_REPORT_SECONDS)
                self._report()

    async def _follow(self, name: str) -> None:
        while name in self._wanted:
            left = self._left[name] = asyncio.Event()
            self.phases[name] = ScopePhase.OPENING
            for _, watches in self._open_informers():
                watches.open_namespace(name)
                self._spawn(name, self._fill(watches, name))
            for gate in self.gates:
                self._spawn(name, self._admit(gate, name))
            self._note_active(name)
            await left.wait()
            await self._close(name)
        del self._left[name]

    async def _fill(self, watches: PartedWatches[Any], name: str) -> None:
        while (filled := watches.unfilled(name)) is not None:
            await filled.wait()
        watches.opened(name)
        self._note_active(name)

    async def _admit(self, gate: NamespaceGate, name: str) -> None:
        """Open a gate once the caches are filled that its controller may read: all but absent ones of others."""
        kinds = gate.controller.kinds
        while True:
            late = (
                watches.opening(name)
                for informer, watches in self._open_informers()
                if not informer.is_absent or informer.kind.resource in kinds
            )
            opened = next(filter(None, late), None)
            if opened is None:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await opened.wait()
        gate.opened(name)
        self._note_active(name)

    def _note_active(self, name: str) -> None:
        is_filled = not any(watches.opening(name) for _, watches in self._open_informers())
        is_open = is_filled and all(gate.is_open(name) for gate in self.gates)
        if is_open and self.phases.get(name) is ScopePhase.OPENING:
            self.phases[name] = ScopePhase.ACTIVE
            _log.info("namespace is active", watched=name)

    async def _close(self, name: str) -> None:
        for task in self._opening.pop(name, ()):
            task.cancel()
        await self.drain(name, waits_for_reconciles=True)
        del self.phases[name]
        for informer, watches in self._open_informers():
            self.release(informer, await watches.close_namespace(name))
        self._told.discard(name)
        _log.info("namespace is closed", watched=name)

    def _report(self) -> None:
        """Log once that a namespace is not ready, and that it is so again."""
        for name in self._followed():
            error = self.last_error(name)
            if error and name not in self._told:
                self._told.add(name)
                _log.warning("namespace is not ready", watched=name, error=error, remedy=_REMEDY)
            elif not error and name in self._told:
                self._told.discard(name)
                _log.info("namespace is ready again", watched=name)

    def _is_late(self, name: str) -> bool:
        if self.phases.get(name) is ScopePhase.ACTIVE or self.last_error(name):
            return False
        # Kinds that the server does not have are waited for by their own controllers only.
        return name not in self.phases or any(
            watches.opening(name) and not informer.is_absent for informer, watches in self._open_informers()
        )

    def _followed(self) -> list[str]:
        return [name for name, phase in self.phases.items() if phase is not ScopePhase.DRAINING]

    def _open_informers(self) -> Iterator[tuple[Informer[Any], PartedWatches[Any]]]:
        for informer, watches in tuple(self._informers.items()):
            if informer.store.is_closed:
                del self._informers[informer]
            else:
                yield informer, watches

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        assert self._group is not None
        task = self._group.create_task(work, name=f"namespace {name} opens")
        tasks = self._opening.setdefault(name, set())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
