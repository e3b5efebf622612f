"""The namespaces of a program, by name or by their labels; given to a `Manager`."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from kcr.api.meta import PartialObjectMetadata
from kcr.arguments import checked
from kcr.controller import Controller
from kcr.informer import Handler, Informer, Selection
from kcr.informer.cache import InformerCache
from kcr.scopes.namespaces.gate import NamespaceGate
from kcr.scopes.namespaces.keeper import NamespaceKeeper
from kcr.scopes.phase import ScopePhase


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
    def __init__(self, *names: str, labels: str = "") -> None:
        """Name the namespaces, or select them.

        Args:
            names: Their names; they need not exist.
            labels: A label selector, such as `team=blue`; the program watches the namespaces that match it. Empty for
                names alone.

        Raises:
            ValueError: There are both, or a name is empty.
        """
        if labels and names:
            raise ValueError("namespaces have names or a label selector: leave one of them away")
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
    def change(self, names: Iterable[str]) -> None:
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
