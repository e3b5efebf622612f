"""A defaulter that adds a note at each call: it is called for every write, and again when one is repeated."""

from msgspec.structs import replace

import kcr
from kcr_devcluster.testing.explore import World
from tests.explore.api import Shop, ShopReconciler, attach, key_of, shop

FINALIZER = "example.dev/shop"


class Reconciler(ShopReconciler):
    """Adds a finalizer, and nothing else."""

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        if (shop := self.shops.get(key)) is not None:
            await kcr.finalized(self.client, shop, FINALIZER, self.clean_up)
        return kcr.Result()

    async def clean_up(self) -> None:
        """There is nothing to clean up."""


class FaultyWebhook:
    """Notes that the shop was checked."""

    def default(self, obj: Shop, request: kcr.WebhookRequest) -> Shop | None:
        return replace(obj, spec=replace(obj.spec, notes=(*obj.spec.notes, "checked")))


class CorrectWebhook(FaultyWebhook):
    """Notes it once."""

    def default(self, obj: Shop, request: kcr.WebhookRequest) -> Shop | None:
        return None if "checked" in obj.spec.notes else super().default(obj, request)


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Reconciler(manager))
    manager.add_webhook(Shop, FaultyWebhook())


def correct(manager: kcr.Manager) -> None:
    attach(manager, Reconciler(manager))
    manager.add_webhook(Shop, CorrectWebhook())


async def scenario(world: World) -> None:
    await world.client.create(shop(world))
    await world.settled()
    await world.client.merge_patch(Shop, key_of(world), {"spec": {"text": "two"}})
    await world.settled()
