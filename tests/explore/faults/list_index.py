"""Children by their place in a list, counted by how many there are: after one failed create the first is forgotten."""

from contextlib import suppress

import kcr
from kcr.api.core import ConfigMap
from tests.explore.api import Shop, ShopReconciler, attach, child, live_and_change


class Faulty(ShopReconciler):
    """Creates the shelves that are missing, behind those that there are; one failure does not stop the others."""

    async def sync(self, shop: Shop) -> None:
        failures = []
        for index in self.missing(shop):
            try:
                with suppress(kcr.AlreadyExistsError):
                    await self.client.create(child(shop, f"{shop.metadata.name}-{index}"))
            except kcr.ApiError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def missing(self, shop: Shop) -> list[int]:
        return list(range(len(self.present(shop)), shop.spec.shelves))

    def present(self, shop: Shop) -> list[ConfigMap]:
        found = self.config_maps.list(shop.metadata.namespace)
        return [one for one in found if kcr.dependents.has_owner(one, shop)]


class Correct(Faulty):
    """Looks which ones there are."""

    def missing(self, shop: Shop) -> list[int]:
        names = {one.metadata.name for one in self.present(shop)}
        return [index for index in range(shop.spec.shelves) if f"{shop.metadata.name}-{index}" not in names]


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Faulty(manager))


def correct(manager: kcr.Manager) -> None:
    attach(manager, Correct(manager))


scenario = live_and_change
