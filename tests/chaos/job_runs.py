"""Whole lives of Jobs, drawn from a seed: the Job, its users, the faults of the network, the crashes of the controller.

`python -m tests.chaos.job_runs FIRST LAST` runs the seeds from FIRST to below LAST until a law is broken, and says how.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import structlog

from kcr.testing import CrashingTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualLoop
from tests.chaos.laws import conditions, counting, numbers
from tests.chaos.laws.history import History, JobLaw, PodLaw
from tests.chaos.laws.overdue import Obligations
from tests.chaos.network_faults import FaultRates, FaultyNetwork, faulty_network, random_rates
from tests.chaos.random_jobs import random_annotations, random_job, random_options, random_outcomes
from tests.chaos.random_user import RandomUser
from tests.chaos.tally import checked
from tests.kit.harness import job_controller

# In seconds: how long a Job may take to end, and how long everything may take to come right once the network is healed:
# what is expected and can never be seen is waited for five minutes.
PATIENCE, AFTERMATH = 2400, 400

JOB_LAWS: tuple[JobLaw, ...] = (
    counting.counts_add_up, counting.lists_name_pods_once, conditions.conditions_stay, conditions.end_comes_last,
    conditions.start_time_follows_suspension, conditions.numbers_only_grow, conditions.indexes_have_witnesses,
    conditions.ending_has_a_reason, conditions.end_has_nothing_open, numbers.indexes_fail_no_more_often,
)  # fmt: skip
POD_LAWS: tuple[PodLaw, ...] = (
    counting.finalizers_go_after_the_count, numbers.no_pod_is_one_too_many, numbers.pods_are_released_for_a_reason,
)  # fmt: skip


def check_the_end(history: History, *networks: FaultyNetwork) -> None:
    """Nothing outlives its Job, no pod is held, and the server has refused no status as invalid."""
    checked("nothing_is_left", len(history.jobs))
    checked("no_pod_is_held", len(history.pods))
    checked("no_status_is_invalid")
    for trail in history.jobs.values():
        for wrong in counting.nothing_is_left(trail):
            history.note(f"nothing_is_left: {wrong}")
    for pod in history.pods.values():
        if pod.is_tracked:
            history.note(f"no_pod_is_held: pod {pod.pod.metadata.name} {pod.pod.status.phase} keeps its finalizer")
    for refused in (one for network in networks for one in network.invalid):
        history.note(f"no_status_is_invalid: {refused}")


class Run:
    """One seed's story."""

    def __init__(self, seed: int, on_wrong: Callable[[str], None] = lambda _: None) -> None:
        self._seed = seed
        self._on_wrong = on_wrong
        random = self._random = Random(seed)
        self._crashes = random.choice((0, 0, 0, 1, 3))
        self.rates: FaultRates = random_rates(random)
        self.job = random_job(random)
        # Drawn apart, so that the other draws of a seed stay.
        self.job["metadata"]["annotations"] = random_annotations(Random(f"annotations {seed}"))
        self.options: dict[str, Any] = random_options(random)
        self._clock = VirtualClock()

    async def live(self) -> list[str]:
        """Go through it, and return what was wrong."""
        cap = counting.lists_stay_short(self.options["max_uncounted_pods"])
        outcomes = random_outcomes(self._seed)
        async with EmbeddedCluster(clock=self._clock, random=Random(self._seed), on_run=outcomes) as cluster:
            history = History(cluster, (*JOB_LAWS, cap), POD_LAWS)
            history.on_wrong = self._on_wrong
            compact, late = cluster.storage.compact, not self._crashes
            network = faulty_network(cluster.transport, self.rates, self._random, compact=compact, late=late)
            async with network as transport:
                await self._go_through(cluster, transport, history)
        check_the_end(history, transport)
        return history.wrongs

    async def _go_through(self, cluster: EmbeddedCluster, network: FaultyNetwork, history: History) -> None:
        random, clock, obligations = self._random, self._clock, Obligations(history)
        async with asyncio.TaskGroup() as group:
            acting = group.create_task(RandomUser(cluster.client, random, self.job).act())
            for number in range(self._crashes):
                transport = CrashingTransport(network)
                transport.crash_after(random.randint(1, 30))
                seed = self._seed + number
                async with job_controller(cluster, clock, transport=transport, seed=seed, **self.options):
                    await clock.advance(random.random() * 20)
                    transport.crash_after(0)
            async with job_controller(cluster, clock, transport=network, seed=self._seed - 1, **self.options):
                if self.rates.is_mild:
                    self._collect(obligations, 0.0, self.rates.patience_seconds)
                await clock.advance(random.random() * 60)
                await acting
                network.heal()
                if not self.rates.is_mild:
                    self._collect(obligations, AFTERMATH, 70.0)
                await history.see_the_end(clock, PATIENCE)
                obligations.check()

    @staticmethod
    def _collect(obligations: Obligations, after_seconds: float, patience_seconds: float) -> None:
        obligations.update()
        obligations.counts_from = asyncio.get_running_loop().time() + after_seconds
        obligations.patience_seconds = patience_seconds


def wrongs_of(seed: int, on_wrong: Callable[[str], None] = lambda _: None) -> list[str]:
    """Run one seed, and return what was wrong; `on_wrong` is called at once with each."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(Run(seed, on_wrong).live())


def main(first: int, last: int) -> int:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for seed in range(first, last):

        def end(wrong: str, seed: int = seed) -> None:
            # The story may have no end: a controller that creates pods without end never lets time pass.
            print(f"seed {seed}: {wrong}", flush=True)
            os._exit(1)

        try:
            wrongs = wrongs_of(seed, end)
        except Exception as error:
            # A controller that falls over is wrong as well.
            wrongs = [repr(error)]
        if wrongs:
            print(f"seed {seed}: {wrongs[0]}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
