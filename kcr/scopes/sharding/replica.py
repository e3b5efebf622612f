"""A replica under sharding: the campaign, the keeper and the gates of one manager, wired together."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from kcr.api.meta import Resource
from kcr.api.slots import check_shards
from kcr.arguments import checked
from kcr.client import Client
from kcr.clock import Clock
from kcr.controller import Controller
from kcr.informer import Informer
from kcr.informer.slots import SlotRules
from kcr.runnables import Runnable, first_failure
from kcr.scopes.leaderelection.config import LeaderElectionConfig
from kcr.scopes.leaderelection.elector import ElectionLoop
from kcr.scopes.sharding.campaign import ShardCampaign
from kcr.scopes.sharding.gate import ShardGate
from kcr.scopes.sharding.keeper import ShardKeeper
from kcr.scopes.sharding.leases import check_name
from kcr.scopes.sharding.shards import Move, Shards


@checked
@dataclass(frozen=True, kw_only=True)
class Sharding:
    """Lets every replica reconcile its share of the objects.

    ```python
    kcr.run(setup, sharding=kcr.Sharding(shards=8))
    ```

    Attributes:
        shards: How many shards the objects are divided into, the same in all replicas: a power of two up to 64.
    """

    shards: int = 8

    def __post_init__(self) -> None:
        """Check the number of shards.

        Raises:
            ValueError: The slots cannot be divided so.
        """
        check_shards(self.shards)


class ShardedReplica:
    """One of the replicas that share the objects; given to a `Manager` as `leader_election`.

    Attributes:
        shards: The shards of this replica.
        config: The base name of the Leases, the identity and the durations.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Client]],
        config: LeaderElectionConfig,
        shards: int,
        *,
        clock: Clock,
        random: Random,
        on_thread: bool = True,
    ) -> None:
        """Make one; it holds no shard before `run` runs.

        Args:
            connect: Opens the connections of the campaign, on its own loop.
            config: The base name of the Leases, the identity and the durations.
            shards: How many shards there are, the same in all replicas: a power of two up to 64.
            clock: For the times in the Leases, and for the fences.
            random: Spreads the renewals.
            on_thread: Whether the campaign has a thread and a loop of its own, so that a busy program loses no shard.

        Raises:
            ValueError: There is no such number of shards.
            ConfigError: The name is too long.
        """
        check_name(config.name)
        self.shards: Shards = Shards(config, check_shards(shards), clock)
        self.config: LeaderElectionConfig = config
        self._connect = connect
        self._random = random
        self._loop = ElectionLoop(config) if on_thread else None
        self._informers: list[Informer[Any]] = []
        # The kinds of which this replica keeps its share, once it runs.
        self._rules: dict[type[Resource], SlotRules] | None = None
        # Notes in the running campaign that a shard is drained; None before there is one.
        self._note_drained: Callable[[int, bool], object] | None = None
        self.keeper: ShardKeeper = ShardKeeper(self.shards, self._open_informers, self._drained)

    def make_gate(self, controller: Controller) -> ShardGate:
        """Return the gate of a controller, which admits the keys of held shards only."""
        gate = ShardGate(self.shards, controller, self.keeper.on_relabelled)
        self.keeper.gates.append(gate)
        return gate

    def begin(self, informers: Iterable[Informer[Any]], client: Client) -> None:
        """Let the manager's informers, which do not run yet, keep the objects of held shards."""
        self.keeper.repair_with(client)
        self._rules = slot_rules(self.keeper.gates)
        for informer in informers:
            self.add_informer(informer)

    def add_informer(self, informer: Informer[Any]) -> None:
        """Let an informer, which does not run yet, keep the objects of held shards, if its kind is shared."""
        rules = (self._rules or {}).get(informer.kind)
        if rules is None:
            return
        held = frozenset(self.shards.held)
        watches = informer.shard(rules, partial(self.keeper.on_left, informer))
        self._informers.append(informer)
        if held:
            watches.open(self.shards.slots_of(held))

    def _open_informers(self) -> list[Informer[Any]]:
        self._informers = [informer for informer in self._informers if not informer.store.is_closed]
        return self._informers

    async def run(self) -> None:
        """Hold shards until cancelled; all of them are released then.

        Raises:
            LeadershipLostError: A Lease could not be renewed in time, or another replica has it.
        """
        main = asyncio.get_running_loop()
        with first_failure():
            async with asyncio.TaskGroup() as group:
                keeping = group.create_task(self.keeper.run(), name="shard keeper")
                if (loop := self._loop) is None:
                    await self._campaign(main, lambda: False)
                else:
                    await loop.run(lambda: self._campaign(main, loop.is_blocked), self.shards.end)
                keeping.cancel()

    def _drained(self, shard: int, is_clean: bool) -> None:
        if self._note_drained is not None:
            self._note_drained(shard, is_clean)

    async def _campaign(self, main: asyncio.AbstractEventLoop, is_blocked: Callable[[], bool]) -> None:
        own = asyncio.get_running_loop()

        def post(move: Move, shards: tuple[int, ...]) -> None:
            main.call_soon_threadsafe(self.keeper.post, move, shards)

        async with self._connect() as client:
            campaign = ShardCampaign(
                self.shards,
                client,
                random=self._random,
                is_blocked=is_blocked,
                post=post,
                is_settled=self.keeper.is_settled,
            )  # fmt: skip
            self._note_drained = lambda shard, is_clean: own.call_soon_threadsafe(
                lambda: campaign.drained(shard, is_clean=is_clean)
            )
            await campaign.run()


class OnFirstShard:
    """A component that runs on the replica that holds the first shard; each hand-over begins it again."""

    def __init__(self, replica: ShardedReplica, component: Runnable) -> None:
        self._replica = replica
        self._component = component

    async def run(self) -> None:
        """Run the component while this replica holds the first shard."""
        await self._replica.keeper.run_on_first(self._component)


def slot_rules(gates: Iterable[ShardGate]) -> dict[type[Resource], SlotRules]:
    """Return the kinds of which a replica keeps its share only, with their roles for all controllers.

    A kind is shared only if no controller needs all of its objects.
    """
    joined: dict[type[Resource], SlotRules | None] = {}
    for gate in gates:
        for kind, rules in gate.controller.watched.slot_rules.items():
            known = joined.get(kind, SlotRules())
            shared = rules if gate.is_sharded else None
            joined[kind] = None if known is None or shared is None else known.joined(shared)
    return {kind: rules for kind, rules in joined.items() if rules is not None}
