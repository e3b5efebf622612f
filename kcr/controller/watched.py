"""The kinds that a controller watches: that of its keys, those of its dependents, and their roles under sharding."""

from collections.abc import Sequence
from typing import Any

from kcr.api.meta import Key, Resource
from kcr.api.resources import ResourceType
from kcr.controller.gates import HandlingGate
from kcr.controller.observers.conflicts import Conflicts
from kcr.controller.observers.hot_loop import HotLoops
from kcr.controller.sources import Source, own_key, owner_keys
from kcr.informer import Informer, InformerHandle, Store
from kcr.informer.slots import SlotRules

AnyInformer = Informer[Any] | InformerHandle[Any]


class WatchedKinds:
    """The kinds that one controller watches.

    Attributes:
        own_kind: The kind of the objects that the keys name; None when they name none that it knows of.
        own_store: The store of these objects.
        slot_rules: The roles of the kinds under sharding; None for a kind of which all objects are needed.
        keys_are_dependents: Whether the objects of the keys are themselves dependents, as orphaned pods are.
        has_other_source: Whether something beside watches enqueues keys, such as a channel.
    """

    def __init__(self, hot_loops: HotLoops, conflicts: Conflicts | None, *, has_other_source: bool) -> None:
        """Watch no kind.

        Args:
            hot_loops: Sees the changes of all kinds.
            conflicts: Sees the changes of the keys' objects; None without a client.
            has_other_source: Whether something beside watches enqueues keys.
        """
        self.own_kind: ResourceType | None = None
        self.own_store: Store[Any] | None = None
        self.slot_rules: dict[type[Resource], SlotRules | None] = {}
        self.keys_are_dependents: bool = False
        self.has_other_source: bool = has_other_source
        self._hot_loops, self._conflicts = hot_loops, conflicts
        self._kinds: dict[ResourceType, None] = {}
        # The gates that handle the events of the keys' objects, and their informer.
        self._handling: list[HandlingGate] = []
        self._own_informer: AnyInformer | None = None

    @property
    def kinds(self) -> tuple[ResourceType, ...]:
        """The kinds, each once; that of the keys is the first."""
        own = () if self.own_kind is None else (self.own_kind,)
        return tuple(dict.fromkeys((*own, *self._kinds)))

    def own_object(self, key: Key) -> Resource | None:
        """Return the object of a key; None without one, and of a store that shows none: its readers report that."""
        store = self.own_store
        return store.get(key) if store is not None and store.synced and not store.progress.is_closed else None

    def add(self, source: Source, informer: AnyInformer) -> None:
        """Note a source; the first that enqueues the objects' own keys determines the kind of the keys."""
        self._kinds[source.kind.resource] = None
        self._add_role(source.kind, source.slot_rules)
        if source.enqueues_itself and self.own_kind is None:
            self.own_kind = source.kind.resource
        if source.enqueues_itself and (self.own_store is None or self.own_store.is_closed):
            self._watch_own(informer)
        self._hot_loops.watch(informer, source.map_to)

    def declare(
        self, informer: Informer[Any], kind: type[Resource], dependents: Sequence[Informer[Any]], *,
        keys_are_dependents: bool,
    ) -> None:  # fmt: skip
        """Note the kind of the keys, and those of their dependents, which handlers of the controller's own watch."""
        self.keys_are_dependents = keys_are_dependents
        self._add_role(kind, SlotRules(is_owned=True) if keys_are_dependents else SlotRules(is_root=True))
        for dependent in dependents:
            self._add_role(dependent.kind, SlotRules(is_owned=True, is_adoptable=True))
        self.own_kind = kind.resource
        self._kinds |= dict.fromkeys(one.kind.resource for one in (informer, *dependents))
        self._watch_own(informer)
        self._hot_loops.watch(informer, own_key)
        for dependent in dependents:
            self._hot_loops.watch(dependent, owner_keys(kind))

    def note_source(self) -> None:
        """Note that something beside watches enqueues keys."""
        self.has_other_source = True

    def handle_with(self, gate: HandlingGate) -> None:
        """Let a gate handle the events of the objects that the keys name."""
        self._handling.append(gate)
        if self._own_informer is not None:
            self._own_informer.add_handler(gate)

    def _add_role(self, kind: type[Resource], rules: SlotRules | None) -> None:
        known = self.slot_rules.get(kind, SlotRules())
        self.slot_rules[kind] = None if rules is None or known is None else known.joined(rules)

    def _watch_own(self, informer: AnyInformer) -> None:
        self.own_store, self._own_informer = informer.store, informer
        if self._conflicts is not None:
            self._conflicts.watch(informer)
        for gate in self._handling:
            informer.add_handler(gate)
