"""A status with the time of the last look: every look is a write, and the next look follows."""

from msgspec.structs import replace

import kcr
from kcr_devcluster.testing.explore import World
from tests.explore.api import Shop, ShopReconciler, attach, shop


class Faulty(ShopReconciler):
    """Looks every thirty seconds, and says when."""

    async def sync(self, shop: Shop) -> kcr.Result:
        status = replace(shop.status, checked=self.checked(shop))
        await self.client.patch_status(shop, replace(shop, status=status))
        return kcr.Result(requeue_after=30)

    def checked(self, shop: Shop) -> str:
        return self.clock.now().isoformat()


class Correct(Faulty):
    """Says when it looked first."""

    def checked(self, shop: Shop) -> str:
        return shop.status.checked or super().checked(shop)


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Faulty(manager))


def correct(manager: kcr.Manager) -> None:
    attach(manager, Correct(manager))


async def scenario(world: World) -> None:
    await world.client.create(shop(world))
    await world.settled()
