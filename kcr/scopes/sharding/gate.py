"""The gate of a sharded controller: keys of active shards are reconciled, those of other replicas dropped."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from kcr.api.meta import Key, OwnerReference, Resource
from kcr.api.slots import SLOT_LABEL, hashed_slot, labelled_slot, slot_of
from kcr.controller import Controller
from kcr.controller.gates import GateDecision
from kcr.informer import Store
from kcr.informer.slots import controller_uid
from kcr.scopes.gate import ScopeGate, ScopePhase
from kcr.scopes.sharding.shards import UNSHARDED, Shards
from kcr.workqueue import Reason
from kcr.workqueue.priorities import LOW_PRIORITY

T = TypeVar("T")

_GATHERED = Reason("sharding", "relabelled", detail="its label was changed, and its dependents were gathered")
# So many deleted objects and reconciles of this process are remembered.
_KEPT = 4096


class ShardGate(ScopeGate[int]):
    """Admits the keys whose shard is active; the shard of a key is that of its object's slot.

    The key of an object that a user has moved here waits until its dependents are gathered. A controller that is not
    sharded belongs to the first shard.
    """

    opened_reason: ClassVar[Reason] = Reason("sharding", "shard opened")
    settled_reason: ClassVar[Reason] = Reason("sharding", "shard handed over", detail="a create is not answered yet")

    def __init__(
        self, shards: Shards, controller: Controller, gather: "Callable[[ShardGate, Resource], object]",
    ) -> None:  # fmt: skip
        """Make the gate of a controller.

        Args:
            shards: The shards of this replica.
            controller: The controller.
            gather: Called with an object that a user has moved here; `gathered` answers it.
        """
        super().__init__(controller)
        self.is_sharded: bool = controller.is_sharded
        self._shards = shards
        # The shard of each object that was deleted, and of each key that was admitted, the oldest first.
        self._deleted: dict[Key, int] = {}
        self._admitted: dict[Key, int] = {}
        # The objects that wait to be gathered, and by uid and label those that were.
        self._gather = gather
        self._gathering: dict[Key, Resource] = {}
        self._gathered: dict[Key, tuple[str, str]] = {}

    @property
    def _store(self) -> Store[Any] | None:
        return self.controller.own_store

    def phase(self, scope: int) -> ScopePhase | None:
        """Return the phase of a shard."""
        return self._shards.phase(scope)

    def check_outside(self, key: Key) -> GateDecision:
        """Drop a key whose object is not in the store, and has not been."""
        return GateDecision.DROP

    def check_inside(self, key: Key, scope: int) -> GateDecision:
        """Admit a key, unless its dependents are gathered first."""
        if self._is_gathering(key):
            return GateDecision.DEFER
        _remember(self._admitted, key, scope)
        return GateDecision.ADMIT

    def refuse(self, key: Key, scope: int) -> None:
        """Keep the key of a controller that is not sharded for the time when this replica holds the first shard."""
        if not self.is_sharded:
            # Its stores show everything: no change is lost while another replica holds the shard.
            self.wait(key, UNSHARDED)

    def wait(self, key: Key, scope: int) -> None:
        """Enqueue a key as a new one when its shard is opened: its object may have waited long elsewhere."""
        self._waiting.setdefault(scope, {})[key] = 0

    def shard_of(self, key: Key) -> int | None:
        """Return the shard in which a key was admitted, and in whose name its reconcile writes."""
        return self._admitted.get(key)

    scope_of_running = shard_of

    def opened(self, scope: int) -> None:
        """Enqueue the keys that have waited for a shard which is active now."""
        super().opened(scope)
        store = self._store
        if scope == UNSHARDED and not self.is_sharded and store is not None:
            # The last holder may have waited before a retry, which it has forgotten now.
            for obj in store.snapshot():
                self.controller.queue.add(obj.key, LOW_PRIORITY, self.opened_reason)

    def closed(self, scope: int) -> None:
        """Drop the memory of a shard that is no longer held, before it may be taken again."""
        super().closed(scope)
        self.release(tuple(key for key, admitted in self._admitted.items() if admitted == scope))

    def release(self, keys: Iterable[Key]) -> None:
        """Drop the memory of keys that another replica reconciles from now on."""
        keys = tuple(keys)
        for key in keys:
            self._admitted.pop(key, None)
            self._gathered.pop(key, None)
        super().release(keys)

    def _is_gathering(self, key: Key) -> bool:
        """Return whether a key waits because a user has moved its object here: its dependents are gathered first."""
        obj = None if self._store is None or not self.is_sharded else self._store.stored(key)
        if obj is None or self.controller.watched.keys_are_dependents or not is_relabelled(obj):
            return False
        identity = _identity(obj)
        if self._gathered.get(key) == identity:
            return False
        if key not in self._gathering or _identity(self._gathering[key]) != identity:
            self._gathering[key] = obj
            self._gather(self, obj)
        return True

    def gathered(self, owner: Resource, *, is_complete: bool = True) -> None:
        """Reconcile the key of an object that a user has moved here; an incomplete gathering begins again."""
        identity = _identity(owner)
        # It may have left meanwhile, or have another label: the gathering that has begun since enqueues the key.
        if self._gathering.get(owner.key) is owner:
            del self._gathering[owner.key]
            if is_complete:
                _remember(self._gathered, owner.key, identity)
            self.controller.queue.add(owner.key, reason=_GATHERED)

    def is_current(self, owner: Resource) -> bool:
        """Return whether the store has an object still in the slot that it had."""
        found = None if self._store is None else self._store.stored(owner.key)
        return found is not None and _identity(found) == _identity(owner)

    def own_object(self, reference: OwnerReference, namespace: str) -> Resource | None:
        """Return the object of the controller's own kind that a reference means, if the store has it."""
        store = self._store
        if store is None:
            return None
        found = store.stored(Key(namespace, reference.name)) or store.stored(Key("", reference.name))
        return found if found is not None and found.metadata.uid == reference.uid else None

    def on_delete(self, obj: Resource, final_state_unknown: bool) -> None:
        """Remember the shard of a deleted object: its key is reconciled once more, and the store has it no longer."""
        _remember(self._deleted, obj.key, self._shards.shard_of(self._slot_of(obj)))
        # It may have left, and may come again by the same label.
        self._forget_gathering(obj.key)

    def on_update(self, old: Resource, new: Resource) -> None:
        """Note a change of the label: the object is gathered again, even if it had the label before."""
        if _identity(old) != _identity(new):
            self._forget_gathering(new.key)

    def _forget_gathering(self, key: Key) -> None:
        self._gathered.pop(key, None)
        self._gathering.pop(key, None)

    def _slot_of(self, obj: Resource) -> int:
        slot = slot_of(obj.metadata)
        if not self.controller.watched.keys_are_dependents or labelled_slot(obj.metadata.labels) is not None:
            return slot
        # A dependent that is itself the key is kept where its controller is.
        return hashed_slot(controller_uid(obj.metadata) or obj.metadata.uid)

    def scope_of(self, key: Key) -> int | None:
        """Return the shard of a key; None when its object is not in the store, and has not been."""
        if not self.is_sharded:
            return UNSHARDED
        store = self._store
        if store is None:
            # Keys of no watched kind, such as those of a channel.
            return self._shards.shard_of(hashed_slot(str(key)))
        obj = store.stored(key)
        return self._deleted.get(key) if obj is None else self._shards.shard_of(self._slot_of(obj))


def is_relabelled(obj: Resource) -> bool:
    """Return whether an object's label states another slot than it was created in, or none: a user has written it.

    A user who removes such a label is not noticed: its dependents stay where they are.
    """
    metadata = obj.metadata
    if SLOT_LABEL not in metadata.labels:
        return False
    return labelled_slot(metadata.labels) != hashed_slot(controller_uid(metadata) or metadata.uid)


def _identity(obj: Resource) -> tuple[str, str]:
    return obj.metadata.uid, obj.metadata.labels.get(SLOT_LABEL, "")


def _remember(known: dict[Key, T], key: Key, value: T) -> None:
    known.pop(key, None)
    known[key] = value
    if len(known) > _KEPT:
        del known[next(iter(known))]
