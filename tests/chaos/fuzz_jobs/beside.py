"""Scenarios side by side: the same acts in two namespaces, of which each has another controller.

Both are compared at every quiet point: when nothing has changed for a while in either. What differs is a defect of one
of them, or a row of docs/reference/differences.md. A scenario ends after a difference without a row, and after one that
leaves other pods, or a choice among equals: the same acts would not be the same any more.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from kcr.api.batch import Job
from kcr.api.core import Namespace
from kcr.api.meta import ObjectMeta
from kcr.client import Client
from kcr.clock import Clock
from kcr.controllers.job.decisions.lifecycle import time_to_deadline
from kcr.errors import NotFoundError
from tests.chaos.fuzz_jobs.acts import NOTHING, PREPARE, ROUND, World
from tests.chaos.fuzz_jobs.scenarios import Scenario
from tests.chaos.fuzz_jobs.views import (
    Difference,
    View,
    differences,
    events_of,
    is_drawn,
    known,
    known_of_events,
    view_of,
)
from tests.chaos.random_user import SEEN

T = TypeVar("T")
Tell = Callable[[str], None]


class Pace(NamedTuple):
    """How long things take.

    Attributes:
        poll: Seconds between two looks.
        calm: How many seconds nothing may change before a point is quiet.
        patience: How many seconds two worlds may differ, before that is a difference.
        end: How many seconds a Job may take to end.
        act: How many seconds an act may take.
    """

    poll: float = 1.0
    calm: float = 3.0
    patience: float = 40.0
    end: float = 240.0
    act: float = 10.0


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
    comparison = _Comparison(scenario, upstream, ours, pace, tell)
    await comparison.run()
    return comparison.found


class _Comparison:
    """One scenario in both worlds."""

    def __init__(self, scenario: Scenario, upstream: World, ours: World, pace: Pace, tell: Tell) -> None:
        self.found: list[Found] = []
        self._scenario = scenario
        self._worlds = (upstream, ours)
        self._pace = pace
        self._tell = tell

    async def run(self) -> None:
        steps = ((step.act, step.dice) for step in self._scenario.steps)
        for act, dice in (("create", ""), *steps, ("lift", ""), *((act, "") for act in PREPARE)):
            if not await self._step(act, dice):
                return
        if await self._end() and not self.found:
            self.found += await _events(self._scenario, *self._worlds)

    async def _step(self, act: str, dice: str) -> bool:
        """Do something in both worlds at the same time, as deadlines count down in both; return whether to go on."""
        if not await self._let_deadline_pass():
            return False
        if act == "lift":
            await self._let_refusals_pass()
        done = await _together(_do(world, act, dice) for world in self._worlds)
        self._tell(f"{act}\n  upstream: {done[0]}\n  kcr:      {done[1]}")
        return set(done) == {NOTHING} or await self._look(act)

    async def _let_deadline_pass(self) -> bool:
        """Wait for a deadline that would come during an act, and in which part of it is chance."""
        job = await self._worlds[0].read()
        left = time_to_deadline(job, self._worlds[0].node.clock.now()) if job else None
        if left is None or not 0 < left.total_seconds() < self._pace.act:
            return True
        await asyncio.sleep(left.total_seconds() + self._pace.poll)
        return await self._look("the deadline")

    async def _let_refusals_pass(self) -> None:
        """Wait until both have tried what is refused: whether they do before the end of a policy is chance."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._pace.patience
        while any(world.refused for world in self._worlds) and loop.time() < until:
            theirs, own = [await events_of(world) for world in self._worlds]
            if theirs.events == own.events:
                return
            await asyncio.sleep(self._pace.poll)

    async def _look(self, after: str) -> bool:
        upstream, ours = await _quiet(*self._worlds, self._pace)
        self._tell(f"  upstream: {upstream.compared}\n  kcr:      {ours.compared}")
        if upstream.is_like(ours):
            return True
        if is_drawn(upstream, ours):
            return False
        fields = tuple(differences(upstream, ours))
        found = Found(self._scenario.seed, after, known(upstream, ours), fields)
        self.found.append(found)
        self._tell(str(found))
        return bool(found.known) and not upstream.parts_from(ours)

    async def _end(self) -> bool:
        """Let both Jobs end: all pods succeed; return whether they did without another difference."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._pace.end
        while loop.time() < until:
            for act in ROUND:
                if not await self._step(act, ""):
                    return False
            if all([(await view_of(world)).has_ended for world in self._worlds]):
                break
            await asyncio.sleep(self._pace.poll)
        return await self._look("the end")


async def _together(acts: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(act) for act in acts]
    return [task.result() for task in tasks]


async def _do(world: World, act: str, dice: str) -> str:
    """Do something; what was refused until then is repeated at once, not whenever a retry is due."""
    done = await world.do(act, dice)
    if act == "lift":
        with suppress(NotFoundError):
            await world.client.merge_patch(Job, world.key, {"metadata": {"annotations": {SEEN: done}}})
    return done


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


async def _events(scenario: Scenario, upstream: World, ours: World) -> list[Found]:
    theirs, own = await events_of(upstream), await events_of(ours)
    if theirs.events == own.events:
        return []
    only = sorted(theirs.events - own.events), sorted(own.events - theirs.events)
    row = known_of_events(theirs, own, upstream.ever_refused)
    return [Found(scenario.seed, "the end", row, (Difference("events", *only),))]
