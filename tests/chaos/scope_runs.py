"""Scopes that come and go while creates arrive late or lose their answers, drawn from a seed: no child is made twice.

A controller in one of the forms of the guide makes two Secrets for each ConfigMap. Their creates arrive up to four
seconds late; the connections of their senders may be cut, and answers may be lost. Meanwhile replicas are stopped and
started, shards move, namespaces leave and return, or member clusters do. No owner ever has more children than it wants,
all of them are there at the end, and no Lease is released while a create of its holder is on the way (CM-66, CL-21).

`python -m tests.chaos.scope_runs SCOPE FIRST LAST` runs the seeds from FIRST to below LAST until a law is broken; SCOPE
is `leader`, `shards`, `namespaces` or `clusters`.
"""

import asyncio
import logging
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import chain
from random import Random

import structlog

import kcr
from kcr.api import codec
from kcr.api.coordination import Lease
from kcr.api.core import ConfigMap, Namespace, Secret
from kcr.api.meta import ObjectMeta
from kcr.api.slots import labelled_slot, shard_of
from kcr.client import Client, ClusterConfig, Transport
from kcr.errors import LeadershipLostError
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.scopes.sharding import ShardedReplica
from kcr.scopes.sharding.leases import shard_number
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.storage.records import Change
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualLoop
from tests.chaos.tally import checked, met
from tests.kit.child_forms import FORMS, OWNER_PREFIX, WANTED, add_form, add_member_form
from tests.kit.fleets import config_of
from tests.kit.late_creates import late_creates
from tests.kit.replicas import same_loop

SCOPES = ("leader", "shards", "namespaces", "clusters")
LATEST_SECONDS = 4.0
DISTURBED_SECONDS, PATIENCE = 30.0, 50.0
OWNERS = 3
PLACES = ("a", "b")
_KIND_OF = {kind.type.kind: kind for kind in KINDS if kind.type.kind in ("Secret", "Lease")}


class Story:
    """The cluster of the program, the members, and the replicas of one seed."""

    def __init__(self, seed: int, scope: str) -> None:
        self.wrongs: list[str] = []
        self._seed, self._scope = seed, scope
        self._random, self._clock = Random(f"{scope} {seed}"), VirtualClock()
        random = self._random
        self._form = random.choice(FORMS)
        self._seconds = random.choice((0.3, 1.0, LATEST_SECONDS, LATEST_SECONDS))
        self._is_even = random.random() < 0.4
        self._cut_after = random.choice((None, 0.1, 0.3, 1.0))
        self._is_answered = random.random() < 0.8
        # How many of the creates are late.
        self._share = random.choice((0.5, 1.0, 1.0))
        self._shards = random.choice((1, 2, 4))
        self._started = 0
        self._is_healed = False
        self._holders: dict[str, str] = {}
        # The children that each owner has ever had, by uid.
        self._made = Counter[str]()
        self._lines: dict[str, list[FaultyTransport]] = {}
        self._known: set[tuple[str, str]] = set()

    async def live(self) -> None:
        async with AsyncExitStack() as stack:
            self._home = await stack.enter_async_context(self._cluster(self._seed))
            # Creates that are under way arrive after all replicas have ended.
            self._group = await stack.enter_async_context(asyncio.TaskGroup())
            members = PLACES if self._scope == "clusters" else ()
            self._members = {
                name: await stack.enter_async_context(self._cluster(number)) for number, name in enumerate(members)
            }
            await self._make_owners()
            self._home.storage.cache(_KIND_OF["Lease"]).subscribers[self._follow_lease] = None
            tasks = [self._group.create_task(self._keep_running()) for _ in range(self._replicas())]
            await asyncio.sleep(DISTURBED_SECONDS)
            self._is_healed = True
            for line in chain(*self._lines.values()):
                line.heal()
            await asyncio.sleep(PATIENCE)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            await asyncio.sleep(LATEST_SECONDS + 1)
        self._judge_end()

    def _replicas(self) -> int:
        return self._random.choice((1, 2, 3)) if self._scope in ("leader", "shards") else 1

    @asynccontextmanager
    async def _cluster(self, seed: int) -> AsyncIterator[EmbeddedCluster]:
        async with EmbeddedCluster(runtime=None, clock=self._clock, random=Random(seed)) as cluster:
            cluster.storage.cache(_KIND_OF["Secret"]).subscribers[self._follow_child] = None
            yield cluster

    async def _make_owners(self) -> None:
        for client in [one.client for one in self._members.values()] or [self._home.client]:
            for name in PLACES:
                await client.create(Namespace(metadata=ObjectMeta(name=name)))
                for number in range(OWNERS):
                    metadata = ObjectMeta(name=f"{OWNER_PREFIX}{number}", namespace=name)
                    self._made[(await client.create(ConfigMap(metadata=metadata))).metadata.uid] = 0

    # Replicas.

    async def _keep_running(self) -> None:
        """Run a replica, and another one whenever it has ended; until cancelled."""
        task = asyncio.current_task()
        while task is not None and not task.cancelling():
            await asyncio.sleep(self._random.random() * self._random.choice((0, 1, 5)))
            seconds = self._random.choice((0.1, 1, 5, 10, 20)) * self._random.random()
            stays = self._is_healed or self._scope not in ("leader", "shards")
            with suppress(LeadershipLostError):
                await self._live_once(None if stays else seconds)

    async def _live_once(self, seconds: float | None) -> None:
        self._started += 1
        name = f"replica-{self._started}"
        random = Random(f"{self._seed} {name}")
        config = LeaderElectionConfig(name="web", identity=name)
        election = (
            ShardedReplica(
                same_loop(self._home.client), config, self._shards, clock=self._clock, random=random, on_thread=False
            )
            if self._scope == "shards"
            else LeaderElector(self._home.client, config, clock=self._clock, random=random)
        )
        namespaces = kcr.Namespaces(*PLACES) if self._scope == "namespaces" else ""
        manager = kcr.Manager(
            Client(self._line(name, self._home.transport)), clock=self._clock, random=random,
            leader_election=election, namespace=namespaces,
        )  # fmt: skip
        comings = None
        if self._scope == "clusters":
            connect = partial(self._connect, name)
            clusters = kcr.Clusters(manager, {one: config_of(one) for one in PLACES}, connect=connect)
            add_member_form(manager, clusters, self._form, workers=2 * OWNERS)
            comings = partial(self._change_members, clusters)
        else:
            add_form(manager, self._form, workers=2 * OWNERS)
        if isinstance(namespaces, kcr.Namespaces):
            comings = partial(self._change_namespaces, namespaces)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(manager.run())
            if comings is not None:
                changing = group.create_task(comings())
                running.add_done_callback(lambda _: changing.cancel())
            if seconds is not None:
                await asyncio.sleep(seconds)
                met("replica: stop")
                running.cancel()

    def _line(self, name: str, inner: Transport) -> FaultyTransport:
        line = late_creates(inner, self._lateness, self._cut_after, answered=self._is_answered)
        if self._is_healed:
            line.heal()
        self._lines.setdefault(name, []).append(line)
        return line

    def _lateness(self) -> float:
        if self._random.random() >= self._share:
            return 0.0
        return self._seconds if self._is_even else self._random.uniform(0.05, self._seconds)

    @asynccontextmanager
    async def _connect(self, name: str, config: ClusterConfig) -> AsyncIterator[Transport]:
        yield self._line(name, self._members[config.server.removeprefix("https://")].transport)

    # Scopes that come and go.

    async def _change_namespaces(self, namespaces: kcr.Namespaces) -> None:
        while await self._wait():
            met("namespace: leaves")
            left = self._random.choice((*PLACES, ""))
            namespaces.change(set(PLACES) - {left} if left else ())
            await asyncio.sleep(self._away())
            namespaces.change(PLACES)

    async def _change_members(self, clusters: kcr.Clusters) -> None:
        while await self._wait():
            met("member: leaves")
            name = self._random.choice(PLACES)
            clusters.close(name)
            await asyncio.sleep(self._away())
            clusters.open(name, config_of(name))

    async def _wait(self) -> bool:
        await asyncio.sleep(self._random.choice((0.05, 0.5, 5, 10)) * self._random.random())
        return not self._is_healed

    def _away(self) -> float:
        return self._random.choice((0.0, 1.0, 10.0)) * self._random.random()

    # Laws.

    def _follow_child(self, change: Change) -> None:
        child = codec.decode(Secret, change.record.data)
        if not child.metadata.owner_references or _identity(child) in self._known:
            return
        checked("children_are_made_once")
        self._known.add(_identity(child))
        (reference,) = child.metadata.owner_references
        self._made[reference.uid] += 1
        if self._made[reference.uid] > WANTED:
            self.wrongs.append(f"children_are_made_once: {child.key} is one too many at {self._now():.2f}")

    def _follow_lease(self, change: Change) -> None:
        lease = codec.decode(Lease, change.record.data)
        holder = self._holders.get(lease.metadata.name, "")
        self._holders[lease.metadata.name] = lease.spec.holder_identity
        if holder and not lease.spec.holder_identity:
            shard = shard_number(lease)
            checked("scopes_are_settled")
            for line in self._lines.get(holder, ()):
                for request in line.under_way:
                    child = codec.decode(Secret, request.body)
                    is_late = _identity(child) not in self._known
                    if is_late and (shard is None or self._is_in(shard, child.metadata.labels)):
                        what = f"{holder} released {lease.metadata.name} before {child.metadata.name} had arrived"
                        self.wrongs.append(f"scopes_are_settled: {what} at {self._now():.2f}")

    def _is_in(self, shard: int, labels: Mapping[str, str]) -> bool:
        slot = labelled_slot(labels)
        return slot is not None and shard_of(slot, self._shards) == shard

    def _judge_end(self) -> None:
        for uid, made in self._made.items():
            checked("children_are_made_once")
            if made < WANTED:
                self.wrongs.append(f"children_are_made_once: the owner {uid} has {made} children")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _identity(child: Secret) -> tuple[str, str]:
    """Return the uid of a child's owner, and its name."""
    (owner,) = child.metadata.owner_references
    return owner.uid, child.metadata.name


def wrongs_of(seed: int, scope: str) -> list[str]:
    """Run one seed, and return what was wrong."""
    story = Story(seed, scope)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(story.live())
    return story.wrongs


def main(scope: str, first: int, last: int) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for seed in range(first, last):
        if wrongs := wrongs_of(seed, scope):
            print(f"seed {seed}: {wrongs[0]}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
