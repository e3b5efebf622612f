"""Up to seven replicas that share the objects, drawn from a seed: the laws of Jobs hold as with one controller.

Replicas are stopped, killed where they stand, or cut off from their Leases, or their election thread stalls; they come
again under other names, and join and leave, so that shards move; some have another number of shards, or none. Jobs,
users and the ends of pods are drawn as in tests/chaos/job_runs.py, and the same laws hold; besides, each write arrives
while its sender holds the Lease of the shard, and its group the Lease of leader election (CM-66).

`python -m tests.chaos.shard_runs FIRST LAST` runs the seeds from FIRST to below LAST until a law is broken.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random

import msgspec
import structlog

from kcr.api.batch import Job
from kcr.api.coordination import Lease
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.api.slots import SLOT_LABEL, labelled_slot, shard_of, slot_of
from kcr.client import Client, Request, Response, Transport
from kcr.clock import TIMER_SLACK_SECONDS, Clock
from kcr.errors import ApiError, LeadershipLostError
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.scopes.sharding import ShardedReplica
from kcr.scopes.sharding.keeper import GATHER_SECONDS
from kcr.testing import CrashingTransport, VirtualClock
from kcr_devcluster.calls import call_of
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualLoop
from tests.chaos.authors import AUTHOR, USER
from tests.chaos.job_runs import JOB_LAWS, PATIENCE, POD_LAWS
from tests.chaos.laws.history import History
from tests.chaos.network_faults import FaultRates, FaultyNetwork, faulty_network
from tests.chaos.random_jobs import random_job, random_options, random_outcomes
from tests.chaos.random_user import RandomUser
from tests.chaos.tally import checked, met
from tests.kit.harness import job_controller
from tests.kit.replicas import same_loop

CHANGES = 8
NAME = "job"


class Witness:
    """The wire of one replica: notes writes that arrive while another replica holds the Leases for them.

    Writes take a moment to arrive, so that hand-overs meet running reconciles. It judges a promise of kcr's shards,
    which no author of an operator makes.
    """

    def __init__(
        self,
        inner: FaultyNetwork,
        identity: str,
        shards: int,
        latency: Callable[[], float],
        history: History,
        user: "Relabeller",
    ) -> None:
        self.inner = inner
        self._latency = latency
        # Without sharding, `shards` is 0.
        self._identity, self._shards = identity, shards
        self._history, self._user = history, user

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        if request.method != "GET":
            await asyncio.sleep(self._latency())
        wrong = ""
        if request.method != "GET" and not self._user.is_recent():
            checked("one_writer")
            wrong = await self._judge(request)
        async with self.inner.send(request) as response:
            # One that is refused, such as the status of a Job that was created again since, has written nothing.
            if wrong and response.status < 300:
                self._history.note(f"one_writer: {wrong}")
            yield response

    async def _judge(self, request: Request) -> str:
        """Return what is wrong with a write that arrives now; empty when nothing is."""
        if not self._shards:
            is_job = "/pods" in request.target or "/jobs/" in request.target
            return await self._unheld(NAME, self._identity, request) if is_job else ""
        slot = self._slot(request)
        if slot is None:
            return ""
        shard = f"{NAME}-shard-{shard_of(slot, self._shards)}"
        return await self._unheld(shard, self._identity, request) or await self._unheld(
            NAME, f"sharded-{self._shards}", request
        )

    async def _unheld(self, name: str, identity: str, request: Request) -> str:
        """Return that another one holds a Lease; empty when the identity does."""
        token = AUTHOR.set("")
        lease = await self._user.client.get(Lease, Key("default", name))
        AUTHOR.reset(token)
        holder = lease.spec.holder_identity
        if holder == identity:
            return ""
        return f"{self._identity} writes while {holder or 'no replica'} holds {name}: {request.method} {request.target}"

    def _slot(self, request: Request) -> int | None:
        """Return the slot of the Job in whose name a write is made."""
        call = call_of(request.method, request.target)
        if request.method == "POST" and "/pods" in request.target:
            return labelled_slot(msgspec.json.decode(request.body)["metadata"]["labels"])
        if "/jobs/" in request.target:
            jobs = [trail.job for trail in self._history.jobs.values() if trail.here]
            return next((slot_of(job.metadata) for job in jobs if job.metadata.name == call.name), None)
        return None


class Relabeller:
    """A user who changes labels of slots by hand, of the Job and of its pods."""

    def __init__(self, client: Client, random: Random) -> None:
        self.client = client
        self._random = random
        self._changed_at = float("-inf")

    def is_recent(self) -> bool:
        """Return whether a label of the Job has just changed: its last holder cannot know yet."""
        return asyncio.get_running_loop().time() - self._changed_at < GATHER_SECONDS

    async def act(self) -> None:
        AUTHOR.set(USER)
        for _ in range(self._random.choice((0, 0, 1, 4))):
            await asyncio.sleep(self._random.random() * self._random.choice((1, 20)))
            kind: type[Job | Pod] = self._random.choice((Job, Pod))
            if found := await self.client.list(kind, "default"):
                if kind is Job:
                    self._changed_at = asyncio.get_running_loop().time()
                slot = str(self._random.randint(0, 63))
                # That the label of an owner is removed again is not noticed: docs/guide/scale.md.
                label = self._random.choice((slot, slot, "x", "x" if kind is Job else None))
                with suppress(ApiError):
                    change = {"metadata": {"labels": {SLOT_LABEL: label}}}
                    await self.client.merge_patch(kind, self._random.choice(found).key, change)


class StallingTransport:
    """The wire of a campaign whose thread may stall: a request hangs then, and no timeout ends it.

    Replies come late, so that a Lease is released or renewed before its holder knows. Only kcr has such a thread: the
    public kit has no fault for it.
    """

    def __init__(self, inner: Transport, random: Random, delay: float) -> None:
        self.inner = inner
        self._random, self._delay = random, delay
        self._stalls_until = 0.0

    def stall(self, seconds: float) -> None:
        """Let everything that is sent from now on hang for so long."""
        self._stalls_until = asyncio.get_running_loop().time() + seconds

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        loop, interruption = asyncio.get_running_loop(), None
        while (left := self._stalls_until - loop.time()) > TIMER_SLACK_SECONDS:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError as error:
                interruption = error
        if interruption is not None:
            raise interruption
        async with self.inner.send(request) as response:
            await asyncio.sleep(self._random.random() * self._delay)
            yield response


class Replicas:
    """Some replicas, each of which is ended now and then."""

    def __init__(
        self, cluster: EmbeddedCluster, clock: VirtualClock, network: FaultyNetwork, history: History, random: Random
    ) -> None:
        self._cluster, self._network = cluster, network
        self._history, self._random = history, random
        self.user = Relabeller(cluster.client, random)
        self._options = random_options(random)
        # The numbers of shards that replicas are started with; 0 for one without sharding.
        shards = random.choice((1, 2, 4, 8))
        self.shards: tuple[int, ...] = random.choice(
            ((shards,), (shards,), (shards,), (shards, 0), (shards, shards, 2 * shards))
        )
        # The longest delays, of the replies about Leases and of all other writes.
        self._delay, self._latency = random.choice((0.0, 0.3)), random.choice((0.0, 0.0, 1.0))
        # The clock of each machine.
        self.clock_of: Callable[[], Clock] = lambda: clock
        self.started = 0
        self._changes = random.randint(1, CHANGES)

    async def keep_running(self) -> None:
        """Run a replica, and another one whenever it has ended; until cancelled."""
        task = asyncio.current_task()
        # One that loses a Lease while it is cancelled raises that.
        while task is not None and not task.cancelling():
            await asyncio.sleep(self._random.random() * self._random.choice((1, 5)))
            with suppress(LeadershipLostError):
                await self._live()

    async def _live(self) -> None:
        self.started += 1
        number, random = self.started, self._random
        identity = f"replica-{number}"
        shards, clock = random.choice(self.shards), self.clock_of()
        latency = partial(random.uniform, 0, self._latency)
        witness = Witness(self._network, identity, shards, latency, self._history, self.user)
        wire, lease_wire = CrashingTransport(witness), CrashingTransport(self._cluster.transport)
        stalling = StallingTransport(lease_wire, random, self._delay)
        config = LeaderElectionConfig(name=NAME, identity=identity)
        election = (
            ShardedReplica(same_loop(Client(stalling)), config, shards, clock=clock, random=random, on_thread=False)
            if shards
            else LeaderElector(Client(stalling), config, clock=clock, random=random)
        )
        controller = job_controller(
            self._cluster, clock, transport=wire, seed=number, leader_election=election, **self._options
        )
        async with controller:
            if number > self._changes:
                # It stays.
                await asyncio.get_running_loop().create_future()
            await asyncio.sleep(random.choice((0.02, 0.3, 2, 10, 30)) * random.random())
            end = random.choice(("stop", "stop", "kill", "partition", "stall"))
            met(f"replica: {end}")
            match end:
                case "kill":
                    wire.crash_after(0)
                    lease_wire.crash_after(0)
                case "partition":
                    lease_wire.crash_after(0)
                    await asyncio.sleep(60)
                case "stall":
                    stalling.stall(40)
                    await asyncio.sleep(60)


async def live(
    seed: int, shards: tuple[int, ...] = (), clock_of: Callable[[VirtualClock], Clock] | None = None
) -> tuple[list[str], int]:
    """Bring one Job to its end, and return what was wrong, and how many replicas there were.

    Args:
        seed: What is drawn.
        shards: The numbers of shards that replicas are started with instead of those that are drawn.
        clock_of: Makes the clock of a replica's machine; None for the time of the cluster.
    """
    random, clock = Random(seed), VirtualClock()
    job = random_job(random)
    async with EmbeddedCluster(clock=clock, random=Random(seed), on_run=random_outcomes(seed)) as cluster:
        history = History(cluster, JOB_LAWS, POD_LAWS)
        rates = FaultRates(share=0.2, most=random.choice((0, 0, 3)), delay=random.choice((0.0, 0.3)))
        network = faulty_network(cluster.transport, rates, random, compact=cluster.storage.compact, late=False)
        async with network as wire, asyncio.TaskGroup() as group:
            replicas = Replicas(cluster, clock, wire, history, random)
            replicas.shards = shards or replicas.shards
            if clock_of is not None:
                replicas.clock_of = partial(clock_of, clock)
            tasks = [group.create_task(replicas.keep_running()) for _ in range(random.choice((2, 2, 3, 4, 7)))]
            group.create_task(RandomUser(cluster.client, random, job).act())
            group.create_task(replicas.user.act())
            await history.see_the_end(clock, PATIENCE)
            for task in tasks:
                task.cancel()
    return history.wrongs, replicas.started


def wrongs_of(seed: int) -> list[str]:
    """Run one seed, and return what was wrong."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        wrongs, _ = runner.run(live(seed))
    return wrongs


def main(first: int, last: int, wrongs_of: Callable[[int], list[str]] = wrongs_of) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for seed in range(first, last):
        if wrongs := wrongs_of(seed):
            print(f"seed {seed}: {wrongs[0]}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
