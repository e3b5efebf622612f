"""A condition that is False while the operator looks, and True again after it: whoever waits for it sees each look."""

from msgspec.structs import replace

import kcr
from tests.explore.api import Shop, ShopReconciler, attach, child, live_and_change


class Faulty(ShopReconciler):
    """Is not ready while it syncs."""

    async def sync(self, shop: Shop) -> None:
        shop = await self.begin(shop)
        page = child(shop, f"{shop.metadata.name}-page", text=shop.spec.text)
        if (present := self.config_maps.get(page.key)) is None or present.data != page.data:
            await self.client.apply(page, force=True)
        await self.set_ready(shop, "True", "Published")

    async def begin(self, shop: Shop) -> Shop:
        return await self.set_ready(shop, "False", "Syncing")

    async def set_ready(self, shop: Shop, status: str, reason: str) -> Shop:
        generation = shop.metadata.generation
        ready = kcr.Condition(type="Ready", status=status, reason=reason, observed_generation=generation)
        conditions = kcr.set_condition(shop.status.conditions, ready, self.clock.now())
        return await self.client.patch_status(shop, replace(shop, status=replace(shop.status, conditions=conditions)))


class Correct(Faulty):
    """Stays ready."""

    async def begin(self, shop: Shop) -> Shop:
        return shop


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Faulty(manager))


def correct(manager: kcr.Manager) -> None:
    attach(manager, Correct(manager))


scenario = live_and_change
