"""A child that gets its owner reference with a second write: a crash in between forgets it."""

from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap
from tests.explore.api import Shop, ShopReconciler, attach, child, live_and_change


class Faulty(ShopReconciler):
    """Creates the page, then makes the shop its owner."""

    async def sync(self, shop: Shop) -> None:
        page = child(shop, f"{shop.metadata.name}-page")
        if self.config_maps.get(page.key) is None:
            await self.create(page)

    async def create(self, page: ConfigMap) -> None:
        made = await self.client.create(replace(page, metadata=replace(page.metadata, owner_references=())))
        owned = replace(made, metadata=replace(made.metadata, owner_references=page.metadata.owner_references))
        await self.client.patch(made, owned)


class Correct(Faulty):
    """Creates it with its owner."""

    async def create(self, page: ConfigMap) -> None:
        await self.client.create(page)


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Faulty(manager))


def correct(manager: kcr.Manager) -> None:
    attach(manager, Correct(manager))


scenario = live_and_change
