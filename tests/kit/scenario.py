"""A scenario of the Job controller as a flow: lived through undisturbed, with a crash after each of the
controller's writes, and with the reply to each of them lost.

```python
@flow()
async def test_job_completes(world: World) -> None:
    await world.create(parallelism=2, completions=2)
    await world.until("A2")
    ...
```

The cluster has no node: as in upstream's integration tests the flow itself reports how the pods fare. A flow
asserts what must hold whatever happens to the controller; order and times are asked for when `world.undisturbed`.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.cluster import EmbeddedCluster
from kcr.informer import Informer
from kcr.testing import VirtualClock
from kcr.testing.loop import VirtualLoop
from tests.kit.simulation import NO_TROUBLE, Setting, Trouble, World, index_of

__all__ = ["World", "flow", "index_of"]

Flow = Callable[..., Awaitable[None]]

_DISTURBANCES = (("crash_after", "crashes"), ("lost_reply", "lost"))


async def live_through(flow: Flow, trouble: Trouble, setting: Setting, arguments: Mapping[str, Any]) -> World:
    """Run a flow once, and check what must hold in all of them."""
    clock, error = VirtualClock(), None
    made = EmbeddedCluster(clock=clock, random=Random(0), runtime=None, gc=setting.collects)
    async with made as cluster, asyncio.TaskGroup() as group:
        world = World(cluster, clock, trouble, setting)
        jobs, pods = Informer(cluster.client, Job, random=Random(7)), Informer(cluster.client, Pod, random=Random(8))
        jobs.add_handler(world.jobs)
        pods.add_handler(world.pods)
        tasks = [group.create_task(each.run()) for each in (jobs, pods, world)]
        await jobs.wait_synced()
        await pods.wait_synced()
        await world.start()
        try:
            await flow(world, **arguments)
            await clock.advance(10)
            world.check()
        except (AssertionError, LookupError, ValueError) as wrong:
            # Raised below: a task group would wrap it.
            error = wrong
        for task in tasks:
            task.cancel()
    if error is not None:
        error.add_note(f"{trouble}, {world.writes} writes, calls: {[call for call in world.faults.calls if call.name]}")
        raise error
    return world


def _run(flow: Flow, trouble: Trouble, setting: Setting, arguments: Mapping[str, Any]) -> World:
    # A loop of its own for each run, so that each starts from the same beginning. Logs are kept, not printed: that
    # takes a sixth of the time.
    with capture_logs() as logs, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        try:
            return runner.run(live_through(flow, trouble, setting, arguments))
        except Exception as error:
            error.add_note("\n".join(str(line) for line in logs[-20:]))
            raise


def flow(
    *,
    options: Mapping[str, Any] | None = None,
    late: Mapping[str, float] | None = None,
    collects: bool = False,
    soak: bool = False,
    calm: bool = False,
) -> Callable[[Flow], Callable[..., None]]:
    """Make a test of a flow: undisturbed, with a crash after every write, with every reply lost.

    Args:
        options: See `Setting`.
        late: See `Setting`.
        collects: See `Setting`.
        soak: Whether it has so many pods that the disturbed runs belong into `make soak`.
        calm: Whether it is not to be disturbed, because it asks what other flows ask under any trouble.
    """
    setting = Setting(options or {}, late or {}, collects)
    marks = [pytest.mark.soak, pytest.mark.timeout(0)] if soak else [pytest.mark.timeout(60)]

    def test_of(lived: Flow) -> Callable[..., None]:
        def test(trouble: str, **arguments: Any) -> None:
            writes = _run(lived, NO_TROUBLE, setting, arguments).writes
            for number in range(1, writes + 1) if trouble != "nothing" else ():
                _run(lived, Trouble(**{trouble: number}), setting, arguments)

        test.__name__, test.__doc__, test.__module__ = lived.__name__, lived.__doc__, lived.__module__
        own = list(inspect.signature(lived).parameters.values())[1:]
        troubles = inspect.Parameter("trouble", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        test.__signature__ = inspect.Signature([troubles, *own])  # type: ignore[attr-defined]  # what pytest reads
        rows = [pytest.param("nothing", id="undisturbed")]
        if not calm:
            rows += [pytest.param(kind, id=name, marks=marks) for kind, name in _DISTURBANCES]
        whole: Callable[..., None] = pytest.mark.parametrize("trouble", rows)(test)
        return whole

    return test_of
