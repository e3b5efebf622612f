"""Keeps as many ConfigMaps as an owner asks for, all of one color; with expectations, as controllers in Go do it.

An owner is a ConfigMap labelled `role: owner`, whose data has `count` and `color`. What was created and is not observed
yet is counted in `kcr.Expectations`: a handler counts what the watch shows. `examples/replicaset` does without:
`kcr.OwnWrites` compares with the store.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap
from kcr.api.meta import controller_of
from kcr.dependents import DependentControl, claim, finalized
from kcr.informer import Handler
from kcr.workqueue import ItemExponential

FINALIZER = "example.dev/replicas"
# On what is made: the name of the owner.
OF = "owner"
# On an owner.
OWNER = {"role": "owner"}


def owner(name: str, data: Mapping[str, str]) -> ConfigMap:
    """Return an owner."""
    return ConfigMap(metadata=kcr.ObjectMeta(name=name, namespace="default", labels=OWNER), data=data)


def is_owner(obj: ConfigMap) -> bool:
    """Return whether a ConfigMap is an owner."""
    return obj.metadata.labels == OWNER


def keys(obj: ConfigMap) -> Iterable[kcr.Key]:
    """Yield the owner that a change concerns."""
    if is_owner(obj):
        yield obj.key
    elif OF in obj.metadata.labels:
        yield kcr.Key(obj.metadata.namespace, obj.metadata.labels[OF])


class Observer(Handler[ConfigMap]):
    """Counts the creations and deletions that the watch shows."""

    def __init__(self, expectations: kcr.Expectations) -> None:
        self._expectations = expectations

    def on_add(self, obj: ConfigMap, initial: bool) -> None:
        """Observe a creation."""
        self._expectations.creation_observed(obj)

    def on_delete(self, obj: ConfigMap, final_state_unknown: bool) -> None:
        """Observe a deletion."""
        self._expectations.deletion_observed(obj)


class Replicas:
    """Reconciles owners."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._client = manager.client
        self._store = manager.store(ConfigMap)
        self._store.add_index("of", lambda obj: [f"{obj.metadata.namespace}/{obj.metadata.labels.get(OF, '')}"])
        # The controller is not given it: that would defer keys by version, and leave nothing to expect.
        self._own_writes = kcr.OwnWrites()
        self.expectations = kcr.Expectations(self._own_writes)
        self._control = DependentControl(
            manager.client, manager.recorder("replicas"), ConfigMap,
            store=self._store, own_writes=self._own_writes, random=manager.random,
        )  # fmt: skip

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        """Create and delete ConfigMaps until their number is right, and color them."""
        owner = self._store.get(key)
        there = self._store.by_index("of", str(key))
        if owner is None:
            self._own_writes.forget(key)
            return kcr.Result()
        if not await finalized(self._client, owner, FINALIZER, lambda: self._remove_all(owner, there)):
            return kcr.Result()
        claimed = await claim(self._client, owner, there, lambda obj: obj.metadata.labels.get(OF) == key.name)
        if claimed.errors:
            raise claimed.errors[0]
        left = self.expectations.time_left(owner)
        if left:
            return kcr.Result(requeue_after=left)
        mine = [obj for obj in claimed.mine if obj.metadata.deletion_timestamp is None]
        await self._scale(owner, mine)
        for obj in mine:
            await self._client.patch(obj, replace(obj, data={"color": owner.data["color"]}))
        return kcr.Result()

    async def _scale(self, owner: ConfigMap, mine: list[ConfigMap]) -> None:
        count = int(owner.data["count"])
        if len(mine) < count:
            missing = count - len(mine)
            self.expectations.expect_creations(owner, missing)
            attempts = await self._control.create(owner, self._template(owner), missing)
            self.expectations.lower(owner, creations=attempts.undone)
        else:
            surplus = [mine.pop() for _ in range(len(mine) - count)]
            self.expectations.expect_deletions(owner, len(surplus))
            attempts = await self._control.delete(owner, surplus)
            self.expectations.lower(owner, deletions=attempts.undone)
        if attempts.error is not None:
            raise attempts.error

    async def _remove_all(self, owner: ConfigMap, there: Sequence[ConfigMap]) -> None:
        ours = [obj for obj in there if (c := controller_of(obj.metadata)) and c.uid == owner.metadata.uid]
        attempts = await self._control.delete(owner, ours)
        if attempts.error is not None:
            raise attempts.error

    def _template(self, owner: ConfigMap) -> ConfigMap:
        return ConfigMap(metadata=kcr.ObjectMeta(labels={OF: owner.metadata.name}), data={"color": owner.data["color"]})


def setup(manager: kcr.Manager) -> None:
    """Attach the controller to a manager."""
    reconciler = Replicas(manager)
    manager.informer(ConfigMap).add_handler(Observer(reconciler.expectations))
    manager.add_controller(
        "replicas",
        reconciler,
        watches=[kcr.watch(ConfigMap, map_to=keys)],
        workers=3,
        limiter=ItemExponential(0.005, 60.0),
    )
