"""A number for the next child that is kept in memory: after a crash it begins again."""

from contextlib import suppress

from msgspec.structs import replace

import kcr
from kcr_devcluster.testing.explore import World
from tests.explore.api import Shop, ShopReconciler, attach, child, key_of, shop


class Faulty(ShopReconciler):
    """Keeps each text that the shop has had."""

    def __init__(self, manager: kcr.Manager) -> None:
        super().__init__(manager)
        self.count = 0

    async def sync(self, shop: Shop) -> None:
        if shop.status.text == shop.spec.text:
            return
        with suppress(kcr.AlreadyExistsError):
            await self.client.create(child(shop, f"{shop.metadata.name}-{self.number(shop)}", text=shop.spec.text))
        await self.client.patch_status(shop, replace(shop, status=replace(shop.status, text=shop.spec.text)))

    def number(self, shop: Shop) -> int:
        self.count += 1
        return self.count


class Correct(Faulty):
    """The generation of the shop is the number."""

    def number(self, shop: Shop) -> int:
        return shop.metadata.generation or 0


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Faulty(manager))


def correct(manager: kcr.Manager) -> None:
    attach(manager, Correct(manager))


async def scenario(world: World) -> None:
    await world.client.create(shop(world, text="one"))
    await world.settled()
    await world.client.merge_patch(Shop, key_of(world), {"spec": {"text": "two"}})
    await world.settled()
