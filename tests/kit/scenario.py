"""Scenarios of the Job controller: each is run undisturbed, and with a crash after one of the controller's writes or
with the reply to it lost. The scenario's name draws which; `make soak` takes both, for each of the writes.

```python
@scenario()
async def test_job_completes(sim: Simulation) -> None:
    await sim.create(parallelism=2, completions=2)
    await sim.until("A2")
    ...
```

The cluster has no node: as in upstream's integration tests the scenario itself reports how the pods fare. A scenario
asserts what must hold whatever happens to the controller; order and times are asked for when `sim.undisturbed`.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.informer import Informer
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.crash import Life, WriteFault, crash_after_writes, disturb, live_undisturbed, lose_replies
from tests.kit.simulation import Setting, Simulation, index_of

__all__ = ["Simulation", "index_of", "scenario"]

Scenario = Callable[..., Awaitable[None]]


async def live_through(told: Scenario, fault: WriteFault, setting: Setting, arguments: Mapping[str, Any]) -> Simulation:
    """Run a scenario once, and check what must hold in all of them."""
    clock, error = VirtualClock(), None
    made = EmbeddedCluster(clock=clock, random=Random(0), runtime=None, gc=setting.collects)
    async with made as cluster, asyncio.TaskGroup() as group:
        sim = Simulation(cluster, clock, fault, setting)
        jobs, pods = Informer(cluster.client, Job, random=Random(7)), Informer(cluster.client, Pod, random=Random(8))
        jobs.add_handler(sim.jobs)
        pods.add_handler(sim.pods)
        tasks = [group.create_task(each.run()) for each in (jobs, pods, sim)]
        await jobs.wait_synced()
        await pods.wait_synced()
        await sim.start()
        try:
            await told(sim, **arguments)
            await clock.advance(10)
            sim.check()
        except (AssertionError, LookupError, ValueError) as wrong:
            # Raised below: a task group would wrap it.
            error = wrong
        for task in tasks:
            task.cancel()
    if error is not None:
        error.add_note(f"{fault}, {sim.writes} writes, calls: {[call for call in sim.faults.calls if call.name]}")
        raise error
    return sim


def scenario(
    *,
    options: Mapping[str, Any] | None = None,
    late: Mapping[str, float] | None = None,
    collects: bool = False,
    soak: bool = False,
    disturbed: bool = True,
) -> Callable[[Scenario], Callable[..., None]]:
    """Make a test of a scenario: undisturbed, and with crashes after writes or their replies lost.

    Args:
        options: See `Setting`.
        late: See `Setting`.
        collects: See `Setting`.
        soak: Whether it has so many pods that the disturbed runs belong into `make soak`.
        disturbed: Whether it is run with faults; one that asks what others ask under any fault is not.
    """
    setting = Setting(options or {}, late or {}, collects)

    def test_of(told: Scenario) -> Callable[..., None]:
        def test(faults: Callable[[Life], object], **arguments: Any) -> None:
            async def live(fault: WriteFault) -> int:
                # Logs are kept, not printed: that takes a sixth of the time.
                with capture_logs() as logs:
                    try:
                        return (await live_through(told, fault, setting, arguments)).writes
                    except Exception as error:
                        error.add_note("\n".join(str(line) for line in logs[-20:]))
                        raise

            faults(live)

        test.__name__, test.__doc__, test.__module__ = told.__name__, told.__doc__, told.__module__
        own = list(inspect.signature(told).parameters.values())[1:]
        faults = inspect.Parameter("faults", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([faults, *own])  # type: ignore[attr-defined]  # what pytest reads
        if disturbed and not soak:
            some = partial(disturb, seed=told.__name__)
            rows = [pytest.param(some, id="disturbed", marks=pytest.mark.timeout(60))]
        else:
            rows = [pytest.param(live_undisturbed, id="undisturbed")]
        if disturbed:
            marks = [pytest.mark.soak, pytest.mark.timeout(0)]
            for name, faults_of in (("all-crashes", crash_after_writes), ("all-lost", lose_replies)):
                rows.append(pytest.param(faults_of, id=name, marks=marks))
        whole: Callable[..., None] = pytest.mark.parametrize("faults", rows)(test)
        return whole

    return test_of
