"""Scenarios side by side: the same acts in two namespaces, of which each has another controller.

Both are compared at every quiet point: when nothing has changed for a while in either. What differs is a defect of one
of them, or a row of docs/reference/differences.md; after a difference without a row a scenario ends.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from kcr.api.core import Namespace
from kcr.api.meta import ObjectMeta
from kcr.client import Client
from kcr.clock import Clock
from tests.chaos.fuzz_jobs.acts import World, lift, succeed_all
from tests.chaos.fuzz_jobs.scenarios import Scenario
from tests.chaos.fuzz_jobs.views import Difference, View, differences, events_of, known, known_of_events, view_of

Tell = Callable[[str], None]


class Pace(NamedTuple):
    """How long things take.

    Attributes:
        poll: Seconds between two looks.
        calm: How many seconds nothing may change before a point is quiet.
        patience: How many seconds two worlds may differ, before that is a difference.
        end: How many seconds a Job may take to end.
    """

    poll: float = 1.0
    calm: float = 3.0
    patience: float = 40.0
    end: float = 240.0


class Undisturbed:
    """A controller that a scenario cannot kill: it has the Jobs of other scenarios as well."""

    async def restart(self) -> None: ...

    async def come(self) -> None: ...

    async def leave(self) -> None: ...

    async def crash_soon(self, writes: int) -> None: ...


async def world_of(
    client: Client, clock: Clock, scenario: Scenario, namespace: str, *, managed_by: str | None = None
) -> World:
    """Return a world in a namespace of its own, with the Job of a scenario."""
    await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
    spec = scenario.job["spec"] | ({"managedBy": managed_by} if managed_by else {})
    metadata = scenario.job["metadata"] | {"namespace": namespace}
    return World(client, clock, {**scenario.job, "metadata": metadata, "spec": spec}, Undisturbed())


class Found(NamedTuple):
    """A difference of one scenario.

    Attributes:
        seed: Of the scenario.
        after: The step after which it was seen.
        known: The name of the row that explains it, or nothing.
        differences: The fields.
    """

    seed: int
    after: str
    known: str
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, after {self.after}: {self.known or 'a difference without a row'}"]
        for one in self.differences:
            lines += [f"  {one.field}", f"    upstream: {one.upstream}", f"    kcr:      {one.ours}"]
        return "\n".join(lines)


async def compare(
    scenario: Scenario, upstream: World, ours: World, pace: Pace, tell: Tell = lambda _: None
) -> list[Found]:
    """Go through a scenario in both worlds, and return how they differed."""
    found: list[Found] = []
    both = (upstream, ours)

    async def look(after: str) -> bool:
        before, now = await _quiet(upstream, ours, pace)
        tell(f"  upstream: {before[1:]}\n  kcr:      {now[1:]}")
        if before.is_like(now):
            return True
        found.append(Found(scenario.seed, after, known(before, now), tuple(differences(before, now))))
        tell(str(found[-1]))
        return bool(found[-1].known)

    for world in both:
        await world.create()
    going = await look("the creation")
    for number, step in enumerate(scenario.steps):
        if not going:
            return found
        done = [await world.do(step.act, step.dice) for world in both]
        tell(f"{number}. {step.act}\n  upstream: {done[0]}\n  kcr:      {done[1]}")
        going = await look(f"step {number}, {step.act}")
    if going:
        await _end(both, pace)
        if await look("the end"):
            found += await _events(scenario, upstream, ours)
    return found


async def _quiet(upstream: World, ours: World, pace: Pace) -> tuple[View, View]:
    """Return both worlds when nothing has changed for a while, and they are alike or had the time to become so."""
    loop = asyncio.get_running_loop()
    views = await view_of(upstream), await view_of(ours)
    changed = loop.time()
    while True:
        await asyncio.sleep(pace.poll)
        now = await view_of(upstream), await view_of(ours)
        if not (now[0].is_like(views[0]) and now[1].is_like(views[1])):
            changed = loop.time()
        views = now
        wait = pace.calm if views[0].is_like(views[1]) else pace.patience
        if loop.time() - changed >= wait:
            return views


async def _end(worlds: tuple[World, World], pace: Pace) -> None:
    """Let both Jobs end: nothing is refused any more, and all pods succeed."""
    for world in worlds:
        await lift(world)
    until = asyncio.get_running_loop().time() + pace.end
    async with asyncio.TaskGroup() as group:
        kubelets = [group.create_task(succeed_all(world)) for world in worlds]
        while asyncio.get_running_loop().time() < until:
            if all([(await view_of(world)).has_ended for world in worlds]):
                break
            await asyncio.sleep(pace.poll)
        for kubelet in kubelets:
            kubelet.cancel()


async def _events(scenario: Scenario, upstream: World, ours: World) -> list[Found]:
    theirs, own = await events_of(upstream), await events_of(ours)
    if theirs == own:
        return []
    only = tuple(one for one in theirs if one not in own), tuple(one for one in own if one not in theirs)
    return [Found(scenario.seed, "the end", known_of_events(theirs, own), (Difference("events", *only),))]
