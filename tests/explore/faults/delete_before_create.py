"""A child that is replaced: deleted first, and then made of what the old one had. A crash in between loses that."""

import kcr
from kcr.api.core import ConfigMap
from kcr_devcluster.testing.explore import World
from tests.explore.api import Shop, ShopReconciler, attach, child, key_of, shop


class Faulty(ShopReconciler):
    """Makes a new page for a new text, and takes the visits over."""

    async def sync(self, shop: Shop) -> None:
        name = f"{shop.metadata.name}-{shop.spec.text}"
        old = [one for one in self.pages(shop) if one.metadata.name != name]
        visits = next((one.data["visits"] for one in self.pages(shop)), "0")
        await self.replace(old, child(shop, name, visits=visits))

    async def replace(self, old: list[ConfigMap], new: ConfigMap) -> None:
        for page in old:
            await self.client.delete(ConfigMap, page.key)
        if self.config_maps.get(new.key) is None:
            await self.client.create(new)

    def pages(self, shop: Shop) -> list[ConfigMap]:
        return [one for one in self.config_maps.list(shop.metadata.namespace) if kcr.dependents.has_owner(one, shop)]


class Correct(Faulty):
    """Makes the new page first."""

    async def replace(self, old: list[ConfigMap], new: ConfigMap) -> None:
        if self.config_maps.get(new.key) is None:
            await self.client.create(new)
        for page in old:
            await self.client.delete(ConfigMap, page.key)


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Faulty(manager))


def correct(manager: kcr.Manager) -> None:
    attach(manager, Correct(manager))


async def scenario(world: World) -> None:
    await world.client.create(shop(world, text="one"))
    await world.settled()
    await world.client.merge_patch(ConfigMap, key_of(world, "shop-one"), {"data": {"visits": "17"}})
    await world.settled()
    await world.client.merge_patch(Shop, key_of(world), {"spec": {"text": "two"}})
    await world.settled()
