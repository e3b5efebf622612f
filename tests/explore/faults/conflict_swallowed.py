"""An update whose conflict counts as done: the change is lost, and nothing brings it back."""

from contextlib import suppress

from msgspec.structs import replace

import kcr
from tests.explore.api import Shop, ShopReconciler, attach, child, live_and_change


class Faulty(ShopReconciler):
    """Writes the page, unless another client was faster."""

    ignored: tuple[type[Exception], ...] = (kcr.ConflictError,)

    async def sync(self, shop: Shop) -> None:
        page = child(shop, f"{shop.metadata.name}-page", text=shop.spec.text)
        present = self.config_maps.get(page.key)
        if present is None:
            await self.client.create(page)
        elif present.data != page.data:
            with suppress(*self.ignored):
                await self.client.update(replace(present, data=page.data))


class Correct(Faulty):
    """Fails, and so tries again."""

    ignored = ()


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Faulty(manager), watches_children=False)


def correct(manager: kcr.Manager) -> None:
    attach(manager, Correct(manager), watches_children=False)


scenario = live_and_change
