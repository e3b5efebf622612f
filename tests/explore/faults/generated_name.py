"""A child under a generated name, which is found again by the status alone: a crash in between makes a second one."""

from contextlib import suppress

from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap
from kcr_devcluster.testing.explore import World
from tests.explore.api import Shop, ShopReconciler, attach, child, key_of, shop


class Faulty(ShopReconciler):
    """Creates the backup, and writes its name into the status."""

    async def sync(self, shop: Shop) -> None:
        if shop.status.backup:
            return
        made = await self.client.create(self.backup(shop))
        await self.client.patch_status(shop, replace(shop, status=replace(shop.status, backup=made.metadata.name)))

    def backup(self, shop: Shop) -> ConfigMap:
        made = child(shop, "")
        return replace(made, metadata=replace(made.metadata, generate_name=f"{shop.metadata.name}-"))


class Correct(Faulty):
    """Its name follows from the shop's."""

    async def sync(self, shop: Shop) -> None:
        if shop.status.backup:
            return
        made = child(shop, f"{shop.metadata.name}-backup")
        with suppress(kcr.AlreadyExistsError):
            await self.client.create(made)
        await self.client.patch_status(shop, replace(shop, status=replace(shop.status, backup=made.metadata.name)))


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Faulty(manager))


def correct(manager: kcr.Manager) -> None:
    attach(manager, Correct(manager))


async def scenario(world: World) -> None:
    await world.client.create(shop(world))
    await world.settled()
    await world.client.delete(Shop, key_of(world))
