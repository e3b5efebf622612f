"""A call to another system before the write that remembers it: after a crash the customer pays twice."""

from msgspec.structs import replace

import kcr
from kcr_devcluster.testing.explore import World
from tests.explore.api import Shop, ShopReconciler, attach, shop


class Bank:
    """The other system. It ignores a payment under a key that it knows."""

    def __init__(self) -> None:
        self.payments: list[str] = []

    def pay(self, who: str, idempotency_key: str = "") -> None:
        if not idempotency_key or idempotency_key not in self.payments:
            self.payments.append(idempotency_key or who)


BANK = Bank()


class Faulty(ShopReconciler):
    """Lets the shop pay, and remembers it in the status."""

    async def sync(self, shop: Shop) -> None:
        if not shop.status.charged:
            self.pay(shop)
            await self.client.patch_status(shop, replace(shop, status=replace(shop.status, charged=True)))

    def pay(self, shop: Shop) -> None:
        BANK.pay(shop.metadata.name)


class Correct(Faulty):
    """Pays under a key that is the same after a crash."""

    def pay(self, shop: Shop) -> None:
        BANK.pay(shop.metadata.name, idempotency_key=shop.metadata.uid)


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Faulty(manager))


def correct(manager: kcr.Manager) -> None:
    attach(manager, Correct(manager))


async def scenario(world: World) -> int:
    BANK.payments.clear()
    await world.client.create(shop(world))
    await world.settled()
    return len(BANK.payments)
