"""A number that is free as far as the cache shows: what another shop has just taken is not there yet."""

from msgspec.structs import replace

import kcr
from kcr_devcluster.testing.explore import State, World
from tests.explore.api import Shop, ShopReconciler, attach, child, shop


class Faulty(ShopReconciler):
    """Gives each shop a port of its own."""

    async def sync(self, shop: Shop) -> None:
        if not shop.status.port:
            status = replace(shop.status, port=await self.free_port(shop))
            await self.client.patch_status(shop, replace(shop, status=status))

    async def free_port(self, shop: Shop) -> int:
        return 1 + max(other.status.port for other in self.shops.list())


class Correct(Faulty):
    """An object with the port in its name is created by one shop alone: the API server decides."""

    async def free_port(self, shop: Shop) -> int:
        port = 1
        while not await self.takes(shop, child(shop, f"port-{port}")):
            port += 1
        return port

    async def takes(self, shop: Shop, claim: kcr.Resource) -> bool:
        try:
            await self.client.create(claim)
        except kcr.AlreadyExistsError:
            return kcr.dependents.has_owner(await self.client.get(type(claim), claim.key), shop)
        return True


def faulty(manager: kcr.Manager) -> None:
    attach(manager, Faulty(manager))


def correct(manager: kcr.Manager) -> None:
    attach(manager, Correct(manager))


def ports_differ(state: State) -> None:
    ports = [one.status.port for one in state.list(Shop) if one.status.port]
    assert len(ports) == len(set(ports)), f"ports {ports}"


# Which shop gets which port is of no importance.
OPTIONS = {"without": ["end-state"], "invariants": [ports_differ]}


async def scenario(world: World) -> None:
    await world.client.create(shop(world, "bakery"))
    await world.client.create(shop(world, "florist"))
    await world.settled()
