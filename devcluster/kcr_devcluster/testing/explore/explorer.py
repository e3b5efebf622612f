"""Runs a scenario with every fault at every write of the operator, and reports the first that it does not survive."""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

from kcr.api.explanation import counted
from kcr.arguments import check_fields
from kcr.keywords import Keywords
from kcr_devcluster.testing.explore.history import MOST_LINES, told
from kcr_devcluster.testing.explore.options import ExploreOptions
from kcr_devcluster.testing.explore.oracles import judge
from kcr_devcluster.testing.explore.outside import ScenarioError, all_awaited
from kcr_devcluster.testing.explore.plans import Plan, parse, plans
from kcr_devcluster.testing.explore.quiet import quiet
from kcr_devcluster.testing.explore.recorder import Violation
from kcr_devcluster.testing.explore.world import Outcome, Runs, Scenario

# A finding is a history: pytest shows it without these functions.
__tracebackhide__ = True
# A scenario of more writes is not cut off after each of them.
_MOST_STEPS = 12


class Report(NamedTuple):
    """What an exploration has tried, in which nothing was found.

    Attributes:
        writes: The operator's writes without a fault, as verb and object.
        runs: How many runs there were, those without a fault included.
        left_out: How many runs the time did not suffice for.
        seconds: How long it took, in seconds of real time.
    """

    writes: tuple[str, ...]
    runs: int
    left_out: int
    seconds: float


class FoundError(AssertionError):
    """A run that the operator does not survive; the text is its history.

    Attributes:
        violation: What is wrong.
        base: What came of the run without a fault.
        only: The faults of the run, for `explore(…, only=…)`; empty for a run without a fault.
    """

    def __init__(self, violation: Violation, plan: Plan, outcome: Outcome, base: Outcome) -> None:
        self.violation: Violation = violation
        self.base: Outcome = base
        self.only: str = str(plan)
        super().__init__(_text(violation, self.only, outcome))


@Keywords(ExploreOptions)
def explore(scenario: Scenario, setup: str | Callable[..., object], options: ExploreOptions) -> Report:
    """Run a scenario again and again with faults, and require that the operator survives each of them.

    ```python
    def test_website_survives_every_fault():
        async def story(world):
            await world.client.create(website(world.namespace))
            await world.settled()
            await world.client.delete(Website, KEY)

        explore(story, setup, kinds=[Website])
    ```

    It is a plain function for a plain test, and not one for the fixture `kcr_cluster` as `namespace_ends` is: each run
    has a loop, a cluster and an operator of its own, all in virtual time, so that nothing is left of the run before.

    First the scenario runs without a fault, which gives the operator's writes and the end to compare with. Then each
    write has, one after the other: a crash before it and after it (the operator restarts with fresh memory), its reply
    lost or late, another client's change of the object just before it, and the answers 429, 500 and 503. Each watch
    event that reaches the operator comes late, twice, after a relist, or coalesced with those after it. At each write
    the leader of two replicas hands over, or the namespace is deleted; or an object that the scenario deletes later is
    deleted just before a write for it, which a crash prevents. Then come pairs of a fault and a crash, and
    plans that are drawn, in which all events have delays. What is found has as few faults and steps as possible.

    Args:
        scenario: Makes objects in `world.namespace`, changes and deletes them, with `world.client`; it waits with
            `await world.settled()`. What it returns is part of the end that is compared.
        setup: Attaches the controllers to a manager: a function, or the name of a plugin. It is called once for each
            process of the operator.
        options: What is served, what is judged, and how long it may take, by name.

    Returns:
        What was tried.

    Raises:
        FoundError: The operator does not survive a fault. The message has at most twelve lines: what is wrong, the
            history, and how to repeat the run. It is an AssertionError.
        ScenarioError: The scenario does not end, or something reaches out of virtual time.
        RuntimeError: It was called in a coroutine.
        ValueError: `only` names no faults.
    """
    check_fields("explore", options)
    _refuse_loop()
    repeated = parse(options.only)
    began = perf_counter()
    runs = Runs(scenario, setup, options)
    with quiet():
        with all_awaited():
            base = runs.run(Plan())
        _require(base, base, Plan(), options)
        _compare(base, runs.run(Plan()))
        if options.only:
            _require(runs.run(repeated), base, repeated, options)
            return Report(tuple(base.writes), runs.count, 0, perf_counter() - began)
        tried = 0
        every = list(plans(base.writes, base.events, options.runs, base.deletable))
        for plan in every:
            if perf_counter() - began > options.seconds:
                break
            tried += 1
            outcome = runs.run(plan)
            if (violation := judge(plan, outcome, base, options)) is not None:
                raise _shrunk(runs, FoundError(violation, plan, outcome, base), plan, options)
    return Report(tuple(base.writes), runs.count, len(every) - tried, perf_counter() - began)


def _refuse_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "explore has an event loop of its own for each run: call it in a plain test, `def`, without kcr_virtual"
    )


def _require(outcome: Outcome, base: Outcome, plan: Plan, options: ExploreOptions) -> None:
    if (violation := judge(plan, outcome, base, options)) is not None:
        raise FoundError(violation, plan, outcome, base)


def _compare(first: Outcome, second: Outcome) -> None:
    """Require that two runs without a fault are the same: else the history of a fault could not be repeated.

    Raises:
        ScenarioError: They differ.
    """
    for one, other in zip(first.writes, second.writes, strict=False):
        if one != other:
            break
    else:
        if len(first.writes) == len(second.writes):
            return
        one, other = counted(len(first.writes), "write"), counted(len(second.writes), "write")
    raise ScenarioError(
        f"explore: two runs without a fault differ: {one}, and then {other}: something is drawn outside of the loop, "
        "or survives in a global: draw from manager.random, read manager.clock, empty globals when the scenario begins"
    )


def _shrunk(runs: Runs, found: FoundError, plan: Plan, options: ExploreOptions) -> FoundError:
    """Return a finding with fewer faults and fewer steps of the scenario, as far as the oracle stays the same."""

    def again(smaller: Plan, steps: int | None, base: Outcome) -> FoundError | None:
        outcome = runs.run(smaller, steps)
        violation = judge(smaller, outcome, base, options)
        same = violation is not None and violation.oracle == found.violation.oracle
        return FoundError(violation, smaller, outcome, base) if violation is not None and same else None

    shrinking = len(plan.faults) > 1
    while shrinking:
        tries = ((again(smaller, None, found.base), smaller) for smaller in plan.smaller())
        better = next(((error, smaller) for error, smaller in tries if error is not None), None)
        shrinking = better is not None
        found, plan = better or (found, plan)
    for steps in range(1, min(found.base.scenario_writes, _MOST_STEPS)):
        base = runs.run(Plan(), steps)
        if judge(Plan(), base, base, options) is None and (shorter := again(plan, steps, base)) is not None:
            return shorter
    return found


def _text(violation: Violation, only: str, outcome: Outcome) -> str:
    first, steps = f"[{violation.oracle}] {violation.text}", outcome.steps[: violation.steps or None]
    last = f'again: explore(…, only="{only}")' if only else "again: it needs no fault"
    return "\n".join([first, *told(steps, violation.about, MOST_LINES - 2), last])
