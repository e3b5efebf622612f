"""Twenty lives of Jobs as data, each of which is lived with a fault at each of its writes or watch events.

The laws are those of all stories (tests/chaos/laws). Fates of pods depend on their index or name alone, so that a life
with a fault is comparable with the one without.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from random import Random
from typing import Any, NamedTuple

from kcr.api.batch import Job, is_finished
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.api.pods import completion_index
from kcr.client import Client, Transport
from kcr.errors import ApiError
from kcr.testing import CrashingTransport, VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.chaos.authors import AUTHOR, USER
from tests.chaos.job_runs import JOB_LAWS, PATIENCE, POD_LAWS, check_the_end
from tests.chaos.laws import counting
from tests.chaos.laws.history import History
from tests.chaos.laws.overdue import Obligations
from tests.chaos.network_faults import FaultRates, FaultyNetwork, faulty_network
from tests.chaos.tally import FAULTS, met
from tests.kit.crash import NO_FAULT, WriteFault, surviving
from tests.kit.harness import create, job_controller, manifest

KEY = Key("default", "pi")
# How long a loss may stay unnoticed until the controller is restarted.
_UNNOTICED_SECONDS = 600.0
# How long everything may take after a crash.
_CRASH_SECONDS = 100.0
Act = Callable[[Client, dict[str, Any]], Awaitable[object]]
Outcome = Callable[[Any, str, int], RunResult]
# Puts a fault between the controller and the network.
Wire = Callable[[Transport], Transport]


def well(run_for: float = 3.0) -> Outcome:
    """All pods succeed after so many seconds."""
    return lambda pod, container, attempt: RunResult(run_for=run_for)


def badly(*indexes: int, code: int = 1, run_for: float = 1.0) -> Outcome:
    """The pods of some indexes fail, without any all of them; the others succeed."""

    def outcome(pod: Any, container: str, attempt: int) -> RunResult:
        fails = not indexes or completion_index(pod) in indexes
        return RunResult(exit_code=code if fails else 0, run_for=run_for)

    return outcome


def some_fail(pod: Any, container: str, attempt: int) -> RunResult:
    """Every third pod fails, by its name."""
    dice = sum(pod.metadata.name.encode())
    return RunResult(exit_code=1 if dice % 3 == 0 else 0, run_for=1.0 + dice % 5)


def first_attempts_fail(pod: Any, container: str, attempt: int) -> RunResult:
    """The first run of each container fails."""
    return RunResult(exit_code=0 if attempt else 1, run_for=1.0)


def stubborn(run_for: float) -> Outcome:
    """Pods run for so many seconds, and ignore SIGTERM."""
    return lambda pod, container, attempt: RunResult(run_for=run_for, ignore_sigterm=True)


def patch(**spec: Any) -> Act:
    """Change the spec of the Job."""
    return lambda client, job: client.merge_patch(Job, KEY, {"spec": spec})


def delete_pod(grace_seconds: int, *, by_force: bool = False) -> Act:
    """Delete a pod, and its finalizers if by force."""

    async def act(client: Client, job: dict[str, Any]) -> None:
        for pod in (await client.list(Pod, "default"))[:1]:
            await client.delete(Pod, pod.key, grace_period_seconds=grace_seconds)
            if by_force:
                await client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": None}})

    return act


def make_again(propagation: str) -> Act:
    """Delete the Job, and create another one of the name as soon as it is free."""

    async def act(client: Client, job: dict[str, Any]) -> None:
        async def is_free() -> bool:
            return not await client.list(Job, "default")

        await client.delete(Job, KEY, propagation=propagation)
        await eventually(is_free, seconds=600)
        await create(client, job)

    return act


class Scenario(NamedTuple):
    """A Job, its pods and its user.

    Attributes:
        spec: Fields of the Job by their names on the wire.
        outcome: How the runs of its containers end.
        acts: What a user does, by the second at which it is done.
        options: Those of the controller.
    """

    spec: Mapping[str, Any]
    outcome: Outcome = well()
    acts: Mapping[float, Act] = {}
    options: Mapping[str, Any] = {}


_INDEXED = {"completionMode": "Indexed"}
_ON_CODE = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]
_ON_DISRUPTION = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]

SCENARIOS: Mapping[str, Scenario] = {
    "one-pod": Scenario({}),
    "several-pods": Scenario({"parallelism": 3, "completions": 5}),
    "work-queue": Scenario({"parallelism": 3}),
    "some-fail": Scenario({"parallelism": 3, "completions": 4, "backoffLimit": 20}, some_fail),
    "backoff-limit": Scenario({"backoffLimit": 2}, badly()),
    # Its pods fail when they are deleted. Counted as failures, they would exceed the backoff limit.
    "deadline": Scenario({"parallelism": 2, "activeDeadlineSeconds": 20, "backoffLimit": 1}, stubborn(300.0)),
    "restarts": Scenario({"parallelism": 2, "restartPolicy": "OnFailure"}, first_attempts_fail),
    "indexed": Scenario({**_INDEXED, "parallelism": 2, "completions": 4}),
    "failed-index": Scenario({**_INDEXED, "parallelism": 3, "completions": 3, "backoffLimitPerIndex": 1}, badly(1)),
    "failed-indexes": Scenario(
        {**_INDEXED, "parallelism": 3, "completions": 3, "backoffLimitPerIndex": 0, "maxFailedIndexes": 1}, badly()
    ),
    "success-policy": Scenario(
        {**_INDEXED, "parallelism": 3, "completions": 3, "successPolicy": {"rules": [{"succeededCount": 1}]}}, some_fail
    ),
    "failure-policy": Scenario(
        {"parallelism": 2, "completions": 2, "podFailurePolicy": {"rules": _ON_CODE}}, badly(code=3)
    ),
    "ignored-disruption": Scenario(
        {"podFailurePolicy": {"rules": _ON_DISRUPTION}, "backoffLimit": 0}, well(20.0), {5.0: delete_pod(5)}
    ),
    "suspended": Scenario({"parallelism": 2}, well(10.0), {5.0: patch(suspend=True), 45.0: patch(suspend=False)}),
    "scaled-down": Scenario({"parallelism": 4, "completions": 4}, well(10.0), {5.0: patch(parallelism=1)}),
    "elastic": Scenario(
        {**_INDEXED, "parallelism": 4, "completions": 4}, well(10.0), {5.0: patch(parallelism=2, completions=2)}
    ),
    "replaced-when-failed": Scenario(
        {"parallelism": 2, "completions": 2, "podReplacementPolicy": "Failed"}, stubborn(40.0), {5.0: delete_pod(10)}
    ),
    "made-again": Scenario({"parallelism": 2}, well(10.0), {5.0: make_again("Background")}),
    "lost-pod": Scenario({"parallelism": 2}, well(10.0), {5.0: delete_pod(0, by_force=True)}),
    "short-lists": Scenario({"parallelism": 4, "completions": 4}, options={"max_uncounted_pods": 1}),
}


class Life(NamedTuple):
    """What came of a life: the broken laws, and how many writes the controller has sent."""

    wrongs: list[str]
    writes: int


@asynccontextmanager
async def observed(
    clock: VirtualClock, options: Mapping[str, Any], outcome: Outcome
) -> AsyncIterator[tuple[EmbeddedCluster, History, FaultyNetwork]]:
    """Run a cluster whose changes are under the laws, and the way to it; at the end the last laws are checked.

    Args:
        clock: The time.
        options: Those of the controller.
        outcome: How the runs of containers end.
    """
    cap = counting.lists_stay_short(options.get("max_uncounted_pods", 500))
    async with EmbeddedCluster(clock=clock, random=Random(0), on_run=outcome) as cluster:
        history = History(cluster, (*JOB_LAWS, cap), POD_LAWS)
        random, compact, rates = Random(1), cluster.storage.compact, FaultRates(most=0)
        async with faulty_network(cluster.transport, rates, random, compact=compact, late=False) as network:
            yield cluster, history, network
        check_the_end(history, network)


async def live(
    scenario: Scenario, fault: WriteFault = NO_FAULT, wire: Wire = lambda inner: inner, *, loses: bool = False
) -> Life:
    """Live a scenario with a fault at a write, or with one on the wire.

    Args:
        scenario: What happens otherwise.
        fault: The fault at a write.
        wire: The fault on the wire.
        loses: Whether the wire loses an event without a sign: the controller is restarted if the Job does not end, and
            pods that are one too many are as good as unavoidable.
    """
    clock, job = VirtualClock(), manifest(**scenario.spec)
    options = {"job_pod_failure_backoff": 1.0, "max_job_pod_failure_backoff": 20.0, **scenario.options}
    async with observed(clock, options, scenario.outcome) as (cluster, history, network):

        def controller(transport: Transport, seed: int) -> AbstractAsyncContextManager[object]:
            return job_controller(cluster, clock, transport=transport, seed=seed, **options)

        async with asyncio.TaskGroup() as group:
            user = group.create_task(act(cluster.client, job, scenario.acts))

            def is_over() -> bool:
                return user.done() and history.current is not None and is_finished(history.current.job)

            async with surviving(wire(network), fault, controller, is_over) as transport:
                if fault.crash_after:
                    _collect(Obligations(history), clock)
                await user
                if loses:
                    await _end_or_crash(clock, is_over, transport)
                else:
                    await history.see_the_end(clock, PATIENCE)
            if loses:
                async with controller(network, 3):
                    await history.see_the_end(clock, PATIENCE)
    if loses:
        surplus = [wrong for wrong in history.wrongs if ": no_pod_is_one_too_many: " in wrong]
        FAULTS["lost event: pod too many"] += len(surplus)
        return Life([wrong for wrong in history.wrongs if wrong not in surplus], transport.writes)
    return Life(history.wrongs, transport.writes)


def _collect(obligations: Obligations, clock: VirtualClock) -> None:
    obligations.update()
    obligations.counts_from, obligations.patience_seconds = clock.boottime(), _CRASH_SECONDS


async def _end_or_crash(clock: VirtualClock, is_over: Callable[[], bool], wire: CrashingTransport) -> None:
    try:
        await clock.run_until(is_over, seconds=_UNNOTICED_SECONDS)
    except AssertionError:
        met("lost event: found by the next list")
        wire.crash_after(0)


async def act(client: Client, job: dict[str, Any], acts: Mapping[float, Act]) -> None:
    """Create a Job, and do all acts at their times."""
    AUTHOR.set(USER)
    await create(client, job)
    passed = 0.0
    for second, one in acts.items():
        await asyncio.sleep(second - passed)
        passed = second
        # The Job may have ended before, and its pods are deleted.
        with suppress(ApiError):
            await one(client, job)
