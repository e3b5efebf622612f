"""A finalizer whose cleanup reads an object that may be deleted by then: the shop is never deleted."""

import asyncio
from contextlib import suppress

import kcr
from kcr.api.core import ConfigMap
from kcr_devcluster.testing.explore import World
from tests.explore.api import Shop, ShopReconciler, attach, key_of, shop

FINALIZER = "example.dev/ledger"


class Faulty(ShopReconciler):
    """Removes the shop from the ledger that the shop's settings name."""

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        shop = self.shops.get(key)
        if shop is not None:
            await kcr.finalized(self.client, shop, FINALIZER, lambda: self.clean_up(shop))
        return kcr.Result()

    async def clean_up(self, shop: Shop) -> None:
        settings = await self.client.get(ConfigMap, kcr.Key(shop.metadata.namespace, shop.spec.settings))
        ledger = kcr.Key(shop.metadata.namespace, settings.data["ledger"])
        await self.client.merge_patch(ConfigMap, ledger, {"data": {shop.metadata.name: None}})


class Correct(Faulty):
    """Without settings there is no ledger to clean up."""

    async def clean_up(self, shop: Shop) -> None:
        with suppress(kcr.NotFoundError):
            await super().clean_up(shop)


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Faulty(manager))


def correct(manager: kcr.Manager) -> None:
    attach(manager, Correct(manager))


async def scenario(world: World) -> None:
    def config_map(name: str, **data: str) -> ConfigMap:
        return ConfigMap(metadata=kcr.ObjectMeta(name=name, namespace=world.namespace), data=data)

    await world.client.create(config_map("ledger"))
    await world.client.create(config_map("settings", ledger="ledger"))
    await world.client.create(shop(world, settings="settings"))
    await world.settled()
    await world.client.delete(Shop, key_of(world))
    await asyncio.sleep(1)
    await world.client.delete(ConfigMap, key_of(world, "settings"))
