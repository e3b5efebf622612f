"""A replica that is killed or frozen again and again, drawn from a seed: the shards of others do not wait for it.

Some replicas live on; one may be killed once. Another one begins, lives for a few seconds, and is killed, frozen or
stopped, again and again, each time under another name. No shard is without a living holder for longer than the duration
of a Lease and `PATIENCE` seconds (CM-66); once it has ended, the shares are even and nothing moves any more.

`python -m tests.chaos.shard_kills FIRST LAST` runs the seeds from FIRST to below LAST until a law is broken.
"""

import asyncio
import sys
from collections import Counter
from contextlib import suppress
from random import Random

from kcr.api import codec
from kcr.api.coordination import Lease
from kcr.client import Client
from kcr.errors import LeadershipLostError
from kcr.scopes.leaderelection import LeaderElectionConfig
from kcr.scopes.sharding import ShardedReplica
from kcr.scopes.sharding.leases import shard_number
from kcr.testing import CrashingTransport, VirtualClock
from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.server import APIServer
from kcr_devcluster.apiserver.storage.records import Change
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.testing.loop import VirtualLoop
from kcr_devcluster.transport import InProcessTransport
from tests.chaos.shard_runs import StallingTransport, main
from tests.chaos.tally import checked, met
from tests.kit.replicas import same_loop

PATIENCE = 2.0
DISTURBED_SECONDS = 40.0
# The duration of the Leases, the renew deadline and the retry period.
_DURATIONS = ((15.0, 10.0, 2.0), (5.0, 3.0, 1.0), (6.0, 4.0, 0.5))
(_KIND,) = [kind for kind in KINDS if kind.type.kind == "Lease"]


class Holders:
    """Who holds each shard, and since when none that lives does."""

    def __init__(self, storage: Storage, shards: int, bound: float) -> None:
        """Follow the Leases.

        Args:
            storage: Has them.
            shards: How many shards there are.
            bound: How long a shard may be without a living holder.
        """
        self.wrongs: list[str] = []
        # How often a shard was taken by another replica.
        self.moves = 0
        self._alive: set[str] = set()
        self._holders = dict.fromkeys(range(shards), "")
        self._unheld: dict[int, float] = {}
        self._bound = bound
        storage.cache(_KIND).subscribers[self._follow] = None

    @property
    def counts(self) -> list[int]:
        """How many shards each living replica holds."""
        held = Counter(self._holders.values())
        return [held[identity] for identity in self._alive]

    def born(self, identity: str) -> None:
        """Note that a replica lives, or does again: the shards whose Leases it has are held."""
        self._alive.add(identity)
        for shard in [shard for shard in self._unheld if self._holders[shard] == identity]:
            self.judge(shard)
            del self._unheld[shard]

    def died(self, identity: str) -> None:
        """Note that a replica does nothing any more."""
        self._alive.discard(identity)
        for shard, holder in self._holders.items():
            if holder == identity:
                self._unheld.setdefault(shard, _now())

    def begin(self) -> None:
        """Count from now on: before, the first replica had to take the shards."""
        self._unheld = {shard: _now() for shard, holder in self._holders.items() if holder not in self._alive}

    def judge(self, shard: int) -> None:
        """Note that a shard has been without a living holder for too long."""
        checked("shards_are_held")
        seconds = _now() - self._unheld.get(shard, _now())
        if seconds > self._bound:
            self.wrongs.append(f"shards_are_held: no living replica held shard {shard} for {seconds:.1f} s")

    def judge_all(self) -> None:
        """Judge the shards that have no living holder."""
        for shard in self._holders:
            self.judge(shard)

    def _follow(self, change: Change) -> None:
        lease = codec.decode(Lease, change.record.data)
        shard, holder = shard_number(lease), lease.spec.holder_identity
        if shard is None or holder == self._holders[shard]:
            return
        self.moves += bool(holder)
        self._holders[shard] = holder
        if holder not in self._alive:
            self._unheld.setdefault(shard, _now())
        elif shard in self._unheld:
            self.judge(shard)
            del self._unheld[shard]


class Story:
    """The replicas of one seed."""

    def __init__(self, seed: int) -> None:
        self._random, self._clock, storage = Random(seed), VirtualClock(), Storage()
        self._server = InProcessTransport(APIServer(storage, clock=self._clock, random=Random(seed)))
        self._durations = self._random.choice(_DURATIONS)
        self._shards = self._random.choice((4, 8))
        self._delay = self._random.choice((0.0, 0.0, 0.1))
        self.holders = Holders(storage, self._shards, self._durations[0] + PATIENCE)

    async def live(self) -> None:
        random = self._random
        living = random.choice((1, 2, 2, 3))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._replica(f"{number}-stays", None)) for number in range(living)]
            if random.random() < 0.5:
                group.create_task(self._replica("killed", 10 + 20 * random.random()))
            await asyncio.sleep(5)
            self.holders.begin()
            # Its names are before and after those of the others.
            again = group.create_task(self._again_and_again(random.choice("0z")))
            await asyncio.sleep(DISTURBED_SECONDS)
            again.cancel()
            await asyncio.sleep(3 * self._durations[0])
            self.holders.judge_all()
            self._judge_rest(self.holders.moves)
            moves = self.holders.moves
            await asyncio.sleep(2 * self._durations[0])
            self._judge_rest(moves)
            for task in tasks:
                task.cancel()

    def _judge_rest(self, moves: int) -> None:
        checked("shards_are_held")
        counts = self.holders.counts
        if sum(counts) != self._shards or max(counts) - min(counts) > 1:
            self.holders.wrongs.append(f"shards_are_held: the replicas hold {counts} of {self._shards} shards")
        if self.holders.moves != moves:
            self.holders.wrongs.append(f"shards_are_held: {self.holders.moves - moves} shards moved without a cause")

    async def _again_and_again(self, letter: str) -> None:
        period, number = self._random.choice((1.0, 2.0, 4.0, 4.0, 4.0, 8.0)), 0
        ends = self._random.choice((("kill",), ("kill",), ("kill", "freeze"), ("kill", "stop")))
        async with asyncio.TaskGroup() as group:
            while True:
                seconds = period * (0.8 + 0.4 * self._random.random())
                end = self._random.choice(ends)
                # A killed or frozen one ends later: nothing is waited for.
                group.create_task(self._replica(f"{letter}-again-{number}", seconds, end))
                await asyncio.sleep(seconds + self._random.random())
                number += 1

    async def _replica(self, identity: str, seconds: float | None, end: str = "kill") -> None:
        """Live for some seconds; None for ever."""
        duration, deadline, retry = self._durations
        config = LeaderElectionConfig(
            name="job", identity=identity, lease_duration=duration, renew_deadline=deadline, retry_period=retry
        )
        stalling = StallingTransport(self._server, Random(identity), self._delay)
        wire = CrashingTransport(stalling)
        connect = same_loop(Client(wire))
        replica = ShardedReplica(
            connect, config, self._shards, clock=self._clock, random=Random(identity), on_thread=False
        )
        self.holders.born(identity)
        try:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(_until_lost(replica))
                if seconds is not None:
                    await asyncio.sleep(seconds)
                    met(f"replica: {end}")
                    if end == "kill":
                        self.holders.died(identity)
                        wire.crash_after(0)
                    elif end == "freeze":
                        self.holders.died(identity)
                        frozen = duration * self._random.choice((0.5, 1, 2))
                        stalling.stall(frozen)
                        await asyncio.sleep(frozen)
                        self.holders.born(identity)
                        await asyncio.sleep(duration)
                    running.cancel()
        finally:
            self.holders.died(identity)


async def _until_lost(replica: ShardedReplica) -> None:
    with suppress(LeadershipLostError):
        await replica.run()


def _now() -> float:
    return asyncio.get_running_loop().time()


def wrongs_of(seed: int) -> list[str]:
    """Run one seed, and return what was wrong."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_wrongs(seed))


async def _wrongs(seed: int) -> list[str]:
    story = Story(seed)
    await story.live()
    return story.holders.wrongs


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), wrongs_of))
