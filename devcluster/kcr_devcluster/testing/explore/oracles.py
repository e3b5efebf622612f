"""What is wrong with a run, judged by its outcome and by that of the run without a fault."""

import re
from collections.abc import Iterator

from kcr_devcluster.testing.explore.options import ExploreOptions
from kcr_devcluster.testing.explore.plans import DELETED, Plan
from kcr_devcluster.testing.explore.recorder import Violation
from kcr_devcluster.testing.explore.states import differences, surplus
from kcr_devcluster.testing.explore.world import Outcome

# A reconcile may take so many requests where the author says nothing.
_FEWEST_REQUESTS, _TIMES = 50, 4
_USED = ": a pod that mounts it is left, perhaps one that has ended (controllers=['ttl'] deletes ended Jobs)"


def judge(plan: Plan, outcome: Outcome, base: Outcome, options: ExploreOptions) -> Violation | None:
    """Return what is wrong with a run, None for nothing.

    Args:
        plan: What went wrong in it.
        outcome: What came of it.
        base: What came of the run without a fault; the same for that run itself.
        options: Which oracles are asked, and their limits.
    """
    # With its namespace the objects of the scenario are gone, and what is left to do differs.
    left_out = {*options.without, *(("end-state", "requests") if plan.has("namespace") else ())}
    for violation in _violations(plan, outcome, base, options):
        if violation.oracle not in left_out:
            return violation
    return None


def _violations(plan: Plan, outcome: Outcome, base: Outcome, options: ExploreOptions) -> Iterator[Violation]:
    order = ("invariant", "scenario", "rights", "status", "idle")
    yield from sorted(outcome.violations, key=lambda one: order.index(one.oracle))
    failing = next(iter(outcome.failing.items()), None)
    because = f"; {failing[0]} fails: {failing[1]}" if failing else ""
    # A namespace has none here, and waits for the others.
    for name, finalizers in sorted(outcome.terminating.items(), key=lambda one: not one[1]):
        stays = f"finalizer {finalizers} stays" if finalizers else "something in it stays"
        stays += _USED if "kubernetes.io/pvc-protection" in finalizers else ""
        yield Violation("finalizer", f"{name} is never deleted: {stays}{because}", name)
    yield from _made_twice(outcome, base)
    limits = {name: max(_FEWEST_REQUESTS, _TIMES * count) for name, count in base.most_requests.items()}
    for name, count in outcome.most_requests.items():
        if count > (limit := options.most_requests or limits.get(name, _FEWEST_REQUESTS)):
            yield Violation("requests", f"a reconcile of {name} takes {count} requests, at most {limit} are allowed")
    if outcome.idle_steps:
        step = outcome.idle_steps[0]
        yield Violation(
            "idle", f"the operator still writes when nothing is left to do: {step.verb} {step.what}", step.what
        )
    for key, error in outcome.failing.items():
        if outcome is base or key not in base.failing:
            yield Violation("failing", f"{key} fails for ever: {error}")
    yield from (_left_over if plan.has(DELETED) else _ends_otherwise)(outcome, base)


def _ends_otherwise(outcome: Outcome, base: Outcome) -> Iterator[Violation]:
    """Compare the states at which the cluster had settled, and the end."""
    for number, (state, wanted) in enumerate(zip(outcome.states, base.states, strict=False), start=1):
        found = list(differences(state, wanted))
        if found:
            when = (
                "the end differs"
                if number == len(base.states)
                else f"after settled() number {number} the state differs"
            )
            more = f" (and {len(found) - 2} more differences)" if len(found) > 2 else ""
            named = (name for name in state.keys() | wanted.keys() if found[0].startswith(name))
            # Steps have no `*` for what is drawn, and no number.
            about = re.split(r"[*]| #", max(named, key=len))[0]
            yield Violation("end-state", f"{when}: {'; '.join(found[:2])}{more}", about)


def _left_over(outcome: Outcome, base: Outcome) -> Iterator[Violation]:
    """Judge the end after an early deletion: less may have happened, and nothing more may be left."""
    if outcome.is_cut_short or not outcome.states or not base.states:
        return
    for more in surplus(outcome.states[-1], base.states[-1]):
        yield Violation("end-state", f"what was deleted early leaves more than without a fault: {more}")


def _made_twice(outcome: Outcome, base: Outcome) -> Iterator[Violation]:
    most: dict[tuple[str, ...], int] = {}
    for child, count in base.peaks.items():
        most[child[:3]] = max(count, most.get(child[:3], 0))
    for child, count in outcome.peaks.items():
        allowed = base.peaks.get(child, most.get(child[:3], 1))
        if count > allowed:
            kind, _, owner, _ = child
            text = f"a child was made twice: {count} {kind} of {owner} are the same, without a fault {allowed}"
            yield Violation("twice", text, kind)
