"""Two Job controllers by mistake, without election: that wastes work, and breaks nothing.

Jobs, users and the ends of pods are drawn as in tests/chaos/job_runs.py, and each controller has tunables of its own.
In half of the runs watches lag: what the one has counted the other learns over two watches, at different times.
"""

import asyncio
from collections.abc import Iterator
from random import Random

import pytest

from kcr.api.batch import Job, is_finished
from kcr.api.conditions import is_condition_true
from kcr.api.pods import is_active, is_terminating
from kcr.controllers.job.decisions.lifecycle import SUCCESS_CRITERIA_MET, is_ending
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.loop import VirtualLoop
from tests.chaos.job_runs import PATIENCE
from tests.chaos.laws import conditions, counting, numbers
from tests.chaos.laws.history import History, JobStep, JobTrail, PodStep, PodTrail, uids
from tests.chaos.network_faults import FaultRates, faulty_network
from tests.chaos.random_jobs import random_job, random_options, random_outcomes
from tests.chaos.random_user import RandomUser, fail_unscheduled
from tests.chaos.tally import checked, met
from tests.kit.environment import setting
from tests.kit.harness import job_controller

pytestmark = pytest.mark.soak

SEEDS = int(setting("KCR_SEEDS", "1000"))
QUICK, PARTS = 10, 8
# In seconds: how far watches may lag.
LAGS = (0.0, 0.0, 0.3, 3.0)


def _is_over(trail: JobTrail) -> bool:
    return is_finished(trail.job) or is_condition_true(trail.job.status.conditions, SUCCESS_CRITERIA_MET)


ALWAYS = (
    counting.counts_add_up, counting.lists_name_pods_once, conditions.conditions_stay, conditions.numbers_only_grow,
    conditions.start_time_follows_suspension, conditions.indexes_have_witnesses, conditions.end_has_nothing_open,
)  # fmt: skip


class Surplus:
    """The pods that have ever been among too many of their Job, though it never wanted fewer."""

    def __init__(self) -> None:
        self._uids: set[str] = set()

    def note(self, step: PodStep) -> Iterator[str]:
        """Note the pods that are too many; two controllers make some, and nothing is wrong with them."""
        if step.job is not None and step.new is not None:
            active = {trail.uid: trail for trail in step.job.present() if trail.is_active}
            if is_active(step.new):
                active[step.trail.uid] = step.trail
            if _are_too_many(step.job.job, list(active.values())):
                self._uids |= active.keys()
        yield from ()

    def pods_go_after_the_count(self, step: PodStep) -> Iterator[str]:
        """As the law of its name, but for Jobs that have succeeded: what the other controller made too many may go.

        A pod whose labels a user has taken and given back may be released meanwhile. And a pod that was among too many
        may be removed before it has ended while another client deletes it.
        """
        if step.old is not None and is_terminating(step.old) and step.trail.uid in self._uids:
            return
        if not step.trail.moved and (step.job is None or not _is_over(step.job)):
            yield from counting.finalizers_go_after_the_count(step)


def _are_too_many(job: Job, active: list[PodTrail]) -> bool:
    indexes = {trail.index for trail in active}
    done = job.status.succeeded + len(uids(job, "succeeded"))
    wanted = min(job.spec.parallelism or 0, (job.spec.completions or done + len(active)) - done)
    return len(active) > wanted or (job.spec.completion_mode == "Indexed" and len(indexes) < len(active))


class Births:
    """The versions at which pods were made.

    When the one ends the Job it cannot know of the pod that the other has made a moment ago; of all others it does.
    """

    def __init__(self) -> None:
        self._born: dict[str, int] = {}
        # The version of each Job over which it was written how it ends.
        self._decided: dict[str, int] = {}

    def note(self, step: PodStep) -> Iterator[str]:
        """Note a new pod; nothing is wrong with it."""
        if step.old is None and step.new is not None:
            self._born[step.trail.uid] = int(step.new.metadata.resource_version)
        yield from ()

    def end_comes_last(self, step: JobStep) -> Iterator[str]:
        """When the Job ends, no pod is left that was there before it was put on record how it ends."""
        if step.new is None or step.old is None or is_finished(step.old):
            return
        if not is_ending(step.old):
            self._decided[step.new.metadata.uid] = int(step.old.metadata.resource_version)
        for pod in step.trail.present() if is_finished(step.new) else ():
            is_open = pod.is_active or pod.is_terminating or pod.is_tracked
            if not pod.disturbed and is_open and self._born[pod.uid] < self._decided[step.new.metadata.uid]:
                yield f"ended before pod {pod.pod.metadata.name} {pod.pod.status.phase} did"


async def live(seed: int) -> list[str]:
    """Let two controllers bring one Job to its end, and return what was wrong."""
    random, clock = Random(seed), VirtualClock()
    lag, job = random.choice(LAGS), random_job(random)
    rates, births, surplus = FaultRates(most=0, delay=lag), Births(), Surplus()
    laws = ALWAYS if lag else (*ALWAYS, births.end_comes_last)
    met("controller: two at once")
    async with EmbeddedCluster(clock=clock, random=Random(seed), on_run=random_outcomes(seed)) as cluster:
        history = History(
            cluster,
            laws,
            (births.note, surplus.note, surplus.pods_go_after_the_count, numbers.pods_are_released_for_a_reason),
        )
        compact = cluster.storage.compact
        async with (
            faulty_network(cluster.transport, rates, random, compact=compact, late=False) as one,
            faulty_network(cluster.transport, rates, random, compact=compact, late=False) as other,
            job_controller(cluster, clock, transport=one, seed=seed, **random_options(random)),
            job_controller(cluster, clock, transport=other, seed=-seed - 1, **random_options(random)),
        ):
            await RandomUser(cluster.client, random, job).act()
            await fail_unscheduled(cluster.client)
            await history.see_the_end(clock, PATIENCE)
        checked("no_status_is_invalid")
    for refused in (*one.invalid, *other.invalid):
        history.note(f"no_status_is_invalid: {refused}")
    for pod in history.pods.values():
        if pod.is_tracked:
            history.note(f"no_pod_is_held: pod {pod.pod.metadata.name} keeps its finalizer")
    return history.wrongs


def wrongs_of(seed: int) -> list[str]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(live(seed))


@pytest.mark.timeout(60)
def test_two_controllers_break_nothing() -> None:
    for seed in range(QUICK):
        assert wrongs_of(seed) == [], f"seed {seed}"


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_two_controllers_break_nothing_in_any_seed(part: int) -> None:
    for seed in range(QUICK + part, QUICK + SEEDS, PARTS):
        assert wrongs_of(seed) == [], f"seed {seed}"
