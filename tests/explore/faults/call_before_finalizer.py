"""A call to another system before the finalizer is there: what it made stays if the shop is deleted meanwhile."""

import kcr
from kcr_devcluster.testing.explore import World
from tests.explore.api import Shop, ShopReconciler, attach, key_of, shop

FINALIZER = "example.dev/bucket"
# The other system: the buckets that there are.
BUCKETS: set[str] = set()


class Faulty(ShopReconciler):
    """Gives each shop a bucket, and removes it with the shop."""

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        shop = self.shops.get(key)
        if shop is not None:
            await self.ensure(shop)
        return kcr.Result()

    async def ensure(self, shop: Shop) -> None:
        if shop.metadata.deletion_timestamp is None:
            BUCKETS.add(shop.metadata.name)
        await self.finalized(shop)

    async def finalized(self, shop: Shop) -> bool:
        return await kcr.finalized(self.client, shop, FINALIZER, lambda: BUCKETS.discard(shop.metadata.name))


class Correct(Faulty):
    """Makes the bucket once the finalizer is there."""

    async def ensure(self, shop: Shop) -> None:
        if await self.finalized(shop):
            BUCKETS.add(shop.metadata.name)


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Faulty(manager))


def correct(manager: kcr.Manager) -> None:
    attach(manager, Correct(manager))


async def scenario(world: World) -> list[str]:
    BUCKETS.clear()
    await world.client.create(shop(world))
    await world.settled()
    await world.client.delete(Shop, key_of(world))
    await world.settled()
    return sorted(BUCKETS)
