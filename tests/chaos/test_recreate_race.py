"""Jobs that are deleted and made again under the same name in a hurry: each runs, with its own pods and no others.

Forty names, ten rounds; `make test` has fifteen, and two. In each round a Job is deleted with one of the three
propagation policies and made again within 0 to 60 ms, while its pods start, run, terminate or are orphaned; in half of
the races the API server does not answer the controller at first. Go's controller left 29 of 40 names without pods: it
expected pods of the Job that was gone.
"""

import asyncio
from random import Random

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import controller_of
from kcr.controllers.job.decisions.pods import is_tracked
from kcr.errors import AlreadyExistsError
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.testing.loop import VirtualLoop
from tests.kit.environment import setting
from tests.kit.harness import conditions, create, finished, job_controller, manifest
from tests.kit.transports import late_watches

# Each is four hundred Jobs, deleted and made again.
SEEDS = int(setting("KCR_SEEDS", "2000")) // 50
# One with an outage.
QUICK = (8,)
NAMES, ROUNDS, QUICK_NAMES, QUICK_ROUNDS = 40, 10, 15, 2
POLICIES = ("Background", "Foreground", "Orphan")
# In seconds: how soon a Job is made again, for how long pods run, and how far watches lag.
HURRY, RUNS, LAGS = 0.06, (0.0, 0.02, 0.1, 1.0), (0.0, 0.0, 0.05, 1.0)
# In seconds: for how long the API server does not answer the controller.
OUTAGES = (0.0, 0.0, 0.3, 3.0)
COMPLETIONS = 2


class Race:
    """One seed's race, on a cluster whose node only simulates its pods."""

    def __init__(self, seed: int, rounds: int, names: int) -> None:
        self.random, self.clock, self.rounds, self.names = Random(seed), VirtualClock(), rounds, names
        lag = self.random.choice(LAGS)
        self.late = {"jobs": self.random.choice((0.0, lag)), "pods": lag}
        # For so long no write of the controller is answered; half of them are executed.
        self.outage = self.random.choice(OUTAGES)

    def ends(self, *_: object) -> RunResult:
        """Let a pod end well, soon or later."""
        return RunResult(run_for=self.random.choice(RUNS))

    async def run(self) -> None:
        """Run the race, and check what came of it."""
        random, clock = self.random, self.clock
        async with EmbeddedCluster(clock=clock, random=random, on_run=self.ends) as cluster:
            transport = late_watches(cluster.transport, random, self.late)
            if self.outage:
                transport.on("write").during(0, self.outage).draw("lose_reply")
                transport.on("write", chance=0.5).during(0, self.outage).draw("lose_request", "500", "page 502")
            async with job_controller(cluster, clock, transport=transport, seed=random):
                async with asyncio.TaskGroup() as group:
                    jobs = [group.create_task(self.hurry(cluster, f"job-{number}")) for number in range(self.names)]
                for job in jobs:
                    await self.check(cluster, job.result())
                await clock.advance(30)
                await nothing_is_left(cluster, {job.result().metadata.uid for job in jobs})

    async def hurry(self, cluster: EmbeddedCluster, name: str) -> Job:
        """Make and delete Jobs of one name, and return the last one."""
        job = await self.make(cluster, name)
        for _ in range(self.rounds):
            await asyncio.sleep(self.random.random() * HURRY)
            policy = self.random.choice(POLICIES)
            await cluster.client.delete(Job, job.key, uid=job.metadata.uid, propagation=policy)
            await asyncio.sleep(self.random.random() * HURRY)
            job = await self.make(cluster, name)
        return job

    async def make(self, cluster: EmbeddedCluster, name: str) -> Job:
        """Create a Job as soon as its name is free: in the foreground the old one stays until its pods are gone."""
        mode = self.random.choice(("Indexed", "NonIndexed"))
        wanted = manifest(name, completions=COMPLETIONS, parallelism=COMPLETIONS, completionMode=mode)
        while True:
            try:
                return await create(cluster.client, wanted)
            except AlreadyExistsError:
                await asyncio.sleep(self.random.random() * HURRY)

    async def check(self, cluster: EmbeddedCluster, job: Job) -> None:
        """See that the last Job of a name runs to its end, with its own pods and no others."""
        name = job.metadata.name
        last = await finished(cluster.client, name, seconds=120)
        assert last.metadata.uid == job.metadata.uid
        assert conditions(last)[-1] == ("Complete", "CompletionsReached"), last.status
        assert (last.status.succeeded, last.status.failed, last.status.active) == (COMPLETIONS, 0, 0), last.status
        own = [pod for pod in await cluster.client.list(Pod, "default") if owner_uid(pod) == job.metadata.uid]
        assert [pod.status.phase for pod in own] == ["Succeeded"] * COMPLETIONS, (name, own)


async def nothing_is_left(cluster: EmbeddedCluster, uids: set[str]) -> None:
    """See that no pod is held, and that none belongs to a Job that is gone."""
    pods = await cluster.client.list(Pod, "default")
    assert [pod.metadata.name for pod in pods if is_tracked(pod)] == []
    assert {owner_uid(pod) for pod in pods} <= uids | {""}


def owner_uid(pod: Pod) -> str:
    owner = controller_of(pod.metadata)
    return "" if owner is None else owner.uid


def race(seed: int, rounds: int, names: int = NAMES) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        try:
            runner.run(Race(seed, rounds, names).run())
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", QUICK)
def test_jobs_made_again_in_a_hurry_all_run(seed: int) -> None:
    race(seed, QUICK_ROUNDS, QUICK_NAMES)


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(8))
def test_jobs_made_again_in_a_hurry_all_run_on_all_seeds(part: int) -> None:
    for seed in range(part, SEEDS, 8):
        race(seed, ROUNDS)
