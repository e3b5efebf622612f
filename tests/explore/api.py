"""A kind for small operators, and what they have in common."""

from typing import Annotated

import kcr
from kcr.api.core import ConfigMap
from kcr.controller import any_of, finalizers_changed
from kcr_devcluster.testing.explore import World


class ShopSpec(kcr.Object):
    """What a shop is to be: a text, so many shelves, and notes that others add."""

    text: str = ""
    shelves: int = 0
    settings: str = ""
    notes: tuple[str, ...] = ()


class ShopStatus(kcr.Object):
    """What has become of it."""

    text: str = ""
    backup: str = ""
    charged: bool = False
    port: int = 0
    checked: str = ""
    conditions: Annotated[tuple[kcr.Condition, ...], kcr.ListType("map", keys=("type",))] = ()


class Shop(kcr.Resource, api_version="example.dev/v1", plural="shops"):
    """A shop."""

    spec: ShopSpec = ShopSpec()
    status: ShopStatus = ShopStatus()


class ShopReconciler:
    """Calls `sync` for each shop that is not being deleted."""

    def __init__(self, manager: kcr.Manager) -> None:
        self.client, self.clock = manager.client, manager.clock
        self.shops, self.config_maps = manager.store(Shop), manager.store(ConfigMap)

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        """Reconcile one shop."""
        shop = self.shops.get(key)
        if shop is None or shop.metadata.deletion_timestamp is not None:
            return kcr.Result()
        return await self.sync(shop) or kcr.Result()

    async def sync(self, shop: Shop) -> kcr.Result | None:
        """Bring a shop closer to its spec."""
        raise NotImplementedError


def attach(manager: kcr.Manager, reconciler: kcr.Reconciler, *, watches_children: bool = True) -> None:
    """Add the controller of shops."""
    own_changes = any_of(kcr.generation_changed, finalizers_changed)
    children = [kcr.owned(ConfigMap, by=Shop)] if watches_children else []
    manager.add_controller("shop", reconciler, watches=[kcr.watch(Shop, predicate=own_changes), *children])


def shop(world: World, name: str = "shop", **spec: object) -> Shop:
    """Return a shop to create."""
    return Shop(metadata=kcr.ObjectMeta(name=name, namespace=world.namespace), spec=ShopSpec(**spec))  # type: ignore[arg-type]


def child(owner: Shop, name: str, **data: str) -> ConfigMap:
    """Return a ConfigMap that belongs to a shop."""
    made = ConfigMap(metadata=kcr.ObjectMeta(name=name, namespace=owner.metadata.namespace), data=data)
    return kcr.set_controller(made, owner)


def key_of(world: World, name: str = "shop") -> kcr.Key:
    """Return the key of an object of the scenario."""
    return kcr.Key(world.namespace, name)


async def live_and_change(world: World) -> None:
    """Create a shop, change it, and delete it."""
    await world.client.create(shop(world, text="one", shelves=3))
    await world.settled()
    await world.client.merge_patch(Shop, key_of(world), {"spec": {"text": "two"}})
    await world.settled()
    await world.client.delete(Shop, key_of(world))
