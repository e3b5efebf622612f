"""Two replicas with leader election: whoever leads, and however a leader ends, it is as if there was one controller.

A replica is stopped, killed where it stands, or cut off from its Lease alone, and comes again under another name. Jobs,
users and the ends of pods are drawn as in tests/chaos/job_runs.py, and the same laws hold.
"""

import asyncio
from contextlib import suppress
from random import Random

import pytest

from kcr.client import Client
from kcr.errors import LeadershipLostError
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import CrashingTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualLoop
from tests.chaos.job_runs import JOB_LAWS, PATIENCE, POD_LAWS
from tests.chaos.laws.history import History
from tests.chaos.network_faults import FaultRates, FaultyNetwork, faulty_network
from tests.chaos.random_jobs import random_job, random_options, random_outcomes
from tests.chaos.random_user import RandomUser
from tests.chaos.tally import met
from tests.kit.environment import setting
from tests.kit.harness import job_controller

SEEDS = int(setting("KCR_SEEDS", "1000"))
QUICK, PARTS = 2, 8
CHANGES = 6


class Replicas:
    """Two replicas, of which a leader is ended now and then."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock, network: FaultyNetwork, random: Random) -> None:
        self._cluster, self._clock, self._network, self._random = cluster, clock, network, random
        self._options = random_options(random)
        self._started = 0
        self.leaders: list[str] = []

    async def keep_running(self) -> None:
        """Run a replica, and another one whenever it has ended; until cancelled."""
        while True:
            # A pod that is restarted takes a moment to come.
            await asyncio.sleep(self._random.random())
            with suppress(LeadershipLostError):
                await self._live()

    async def _live(self) -> None:
        self._started += 1
        identity, random = f"replica-{self._started}", self._random
        wire, lease_wire = CrashingTransport(self._network), CrashingTransport(self._cluster.transport)
        config = LeaderElectionConfig(
            name="job", identity=identity, lease_duration=3, renew_deadline=2, retry_period=0.5
        )
        elector = LeaderElector(Client(lease_wire), config, clock=self._clock, random=random)
        controller = job_controller(
            self._cluster, self._clock, transport=wire, seed=self._started, leader_election=elector, **self._options
        )
        async with controller:
            await elector.elected.wait()
            self.leaders.append(identity)
            if len(self.leaders) > CHANGES:
                # The last leader stays.
                await asyncio.get_running_loop().create_future()
            await asyncio.sleep(random.choice((0.02, 0.3, 2, 10)) * random.random())
            end = random.choice(("stop", "kill", "partition"))
            met(f"replica: {end}")
            match end:
                case "kill":
                    wire.crash_after(0)
                    lease_wire.crash_after(0)
                case "partition":
                    lease_wire.crash_after(0)
                    await asyncio.sleep(60)


async def live(seed: int) -> tuple[list[str], int]:
    """Bring one Job to its end, and return what was wrong, and how many leaders there were."""
    random, clock = Random(seed), VirtualClock()
    job = random_job(random)
    async with EmbeddedCluster(clock=clock, random=Random(seed), on_run=random_outcomes(seed)) as cluster:
        history = History(cluster, JOB_LAWS, POD_LAWS)
        rates = FaultRates(most=0, delay=random.choice((0.0, 0.3)))
        network = faulty_network(cluster.transport, rates, random, compact=cluster.storage.compact, late=False)
        async with network as wire, asyncio.TaskGroup() as group:
            replicas = Replicas(cluster, clock, wire, random)
            tasks = [group.create_task(replicas.keep_running()) for _ in range(2)]
            group.create_task(RandomUser(cluster.client, random, job).act())
            await history.see_the_end(clock, PATIENCE)
            for task in tasks:
                task.cancel()
    return history.wrongs, len(replicas.leaders)


def wrongs_of(seed: int) -> list[str]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        wrongs, leaders = runner.run(live(seed))
    return wrongs if leaders > 1 else [*wrongs, "no leader has ended"]


@pytest.mark.timeout(60)
def test_laws_hold_whoever_leads() -> None:
    for seed in range(QUICK):
        assert wrongs_of(seed) == [], f"seed {seed}"


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_laws_hold_whoever_leads_with_all_seeds(part: int) -> None:
    for seed in range(QUICK + part, QUICK + SEEDS, PARTS):
        assert wrongs_of(seed) == [], f"seed {seed}"
