"""Namespaces that may change: watches come and go with them, without a restart.

`kcr.Namespaces` is the set that a program works in: names that `change` replaces, or the namespaces whose labels a
selector matches. Guarantees:

- *A namespace that comes* is listed and watched for each kind; its keys are reconciled once the caches of their
  controller are filled with it.
- *A namespace that leaves*: first, none of its keys is reconciled any more; running reconciles end, and unanswered
  creates are settled; then its watches are closed, its objects leave the stores, and the memory of its keys is dropped,
  except of creates that are unanswered after five seconds.
  So no reconcile of its keys sees a part of its objects.
- *One namespace never delays another*: where the rights are missing, that namespace is not ready, and a log line names
  the remedy; the others are reconciled.

Nothing is stored: after a restart, the present set is opened.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from kcr.annotations import NamespaceName, Selector
from kcr.api.meta import Key, PartialObjectMetadata
from kcr.arguments import checked
from kcr.controller import Controller
from kcr.informer import Handler, Informer, Selection
from kcr.informer.cache import SYNC_SECONDS, InformerCache
from kcr.informer.watches import PartedWatches
from kcr.log import get_logger
from kcr.scopes.gate import ScopeGate, ScopeKeeper, ScopePhase
from kcr.workqueue import Reason


class NamespaceGate(ScopeGate[str]):
    """Admits the keys of open namespaces, of no namespace, and of member clusters, where all namespaces are watched.

    A namespace is open for a controller once the caches are filled that this controller reads, others or not.
    """

    opened_reason: ClassVar[Reason] = Reason("namespaces", "namespace opened")
    settled_reason: ClassVar[Reason] = Reason("namespaces", "namespace leaves", detail="a create is not answered yet")

    def __init__(self, phases: Mapping[str, ScopePhase], controller: Controller) -> None:
        """Make the gate of a controller.

        Args:
            phases: The phases of the namespaces, as they change.
            controller: The controller.
        """
        super().__init__(controller)
        self._phases = phases
        # The namespaces with which all caches of this controller are filled.
        self._open: set[str] = set()

    def scope_of(self, key: Key) -> str | None:
        """Return the namespace of a key; None without one, and for those of member clusters."""
        return key.namespace if key.namespace and not key.cluster else None

    def phase(self, scope: str) -> ScopePhase | None:
        """Return the phase of a namespace for this controller."""
        if scope in self._open:
            return ScopePhase.ACTIVE
        phase = self._phases.get(scope)
        return ScopePhase.OPENING if phase is ScopePhase.ACTIVE else phase

    def refuse(self, key: Key, scope: str) -> None:
        """Drop the memory of a key: its object may have been deleted before, and then no list names the key."""
        self.release((key,))

    def release(self, keys: Iterable[Key]) -> None:
        """Drop the memory of keys, but of those with unanswered writes: they may be executed when it is back."""
        keys = frozenset(keys)
        super().release(keys.difference(self._pending()))
        self._settling -= keys

    def is_open(self, namespace: str) -> bool:
        """Return whether the keys of a namespace are admitted."""
        return namespace in self._open

    def opened(self, scope: str) -> None:
        """Admit the keys of a namespace, and enqueue those that have waited for it."""
        self._open.add(scope)
        super().opened(scope)

    def closed(self, scope: str) -> None:
        """Begin no key of a namespace any more."""
        self._open.discard(scope)
        super().closed(scope)


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


class SelectedNamespace(
    PartialObjectMetadata, api_version="v1", kind="Namespace", plural="namespaces", namespaced=False
):
    """A namespace that the selector matches; a type of its own, because controllers may watch all namespaces."""


class Namespaces(Handler[SelectedNamespace]):
    """The namespaces that a program works in, which may change while it runs.

    ```python
    kcr.run(setup, namespaces=kcr.Namespaces(labels="team=blue"))
    kcr.run(setup, namespaces=kcr.Namespaces("a", "b"))  # until manager.namespaces.change({"b", "c"})
    ```

    Kinds without namespaces, and those for which `Manager.select` names namespaces, are watched as without this. The
    keys of other namespaces are dropped. A reconcile may miss objects of another namespace than that of its key.
    """

    @checked
    def __init__(self, *names: NamespaceName, labels: Selector = "") -> None:
        """Name the namespaces, or select them.

        Args:
            names: Their names; they need not exist.
            labels: A label selector, such as `team=blue`; the program watches the namespaces that match it. Empty for
                names alone.

        Raises:
            ValueError: There are both, or a name is empty.
        """
        if labels and names:
            raise ValueError("namespaces have names or a label selector: omit one of them")
        self.labels: str = labels
        self._keeper = NamespaceKeeper()
        self._add_all(names)

    @property
    def names(self) -> frozenset[str]:
        """The namespaces to work in; some may not be open yet."""
        return self._keeper.wanted

    @property
    def active(self) -> frozenset[str]:
        """The namespaces whose keys are reconciled by all controllers."""
        return frozenset(name for name, phase in self._keeper.phases.items() if phase is ScopePhase.ACTIVE)

    @checked
    def change(self, names: Iterable[NamespaceName]) -> None:
        """Work in these namespaces from now on; on the event loop of the manager, or before it runs.

        Args:
            names: All of them. Those that come are listed first; of those that leave, no further key is reconciled.

        Raises:
            ValueError: The namespaces are selected by labels, or a name is empty.
        """
        if self.labels:
            raise ValueError(f"namespaces are selected by {self.labels}: change their labels")
        names = frozenset(names)
        self._add_all(names)
        for name in self.names - names:
            self._keeper.discard(name)

    def _add_all(self, names: Iterable[str]) -> None:
        if "" in names:
            raise ValueError("a namespace has no name: name it, or leave `namespaces` away for all")
        for name in sorted(names):
            self._keeper.add(name)

    # The methods below are the manager's and its informer's.

    def connect(
        self,
        cache: InformerCache,
        add_ready: Callable[..., object],
        add: Callable[[Callable[[], Awaitable[None]], str], object],
    ) -> None:  # fmt: skip
        """Follow the namespaces while a manager runs.

        Args:
            cache: The manager's informers.
            add_ready: Adds a check of readiness, which names the namespaces that fail, and does not depend on them.
            add: Runs a component beside the informers.
        """
        add_ready("namespaces", str, remark=self._keeper.remark)
        add(self._keeper.run, "namespaces")
        if self.labels:
            cache.select((Selection(SelectedNamespace, labels=self.labels),))
            cache.informer(SelectedNamespace).add_handler(self)

    def on_add(self, obj: SelectedNamespace, initial: bool) -> None:
        """Work in a namespace that matches from now on."""
        self._keeper.add(obj.metadata.name)

    def on_delete(self, obj: SelectedNamespace, final_state_unknown: bool) -> None:
        """Work no more in a namespace that matches no more, or is deleted."""
        self._keeper.discard(obj.metadata.name)

    def add_informer(self, informer: Informer[Any]) -> None:
        """Let an informer watch these namespaces only."""
        self._keeper.add_informer(informer)

    def make_gate(self, controller: Controller) -> NamespaceGate:
        """Return the gate of a controller, which admits the keys of open namespaces only."""
        gate = NamespaceGate(self._keeper.phases, controller)
        self._keeper.add_gate(gate)
        return gate

    async def wait_opened(self) -> None:
        """Return once each of the present namespaces is active, or cannot be."""
        await self._keeper.wait_opened()

    def follows(self, selection: Selection[Any]) -> bool:
        """Return whether a selection is made in each of these namespaces, instead of everywhere."""
        return selection.kind.resource.namespaced and not selection.namespace
