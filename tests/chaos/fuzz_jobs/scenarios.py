"""Scenarios of one Job as data: the Job, and what happens to it and its pods, step by step, drawn from a seed."""

from random import Random
from typing import Any, NamedTuple

from tests.chaos.fuzz_jobs.acts import ACTS
from tests.chaos.random_jobs import random_job

# In seconds, between two steps in virtual time: the first comes before the controller has seen what happened last.
GAPS = (0.0, 0.2, 1.5, 4.0, 12.0, 40.0)
DEADLINES = (6, 15, 40)
POLICIES = ("refuse", "lift", "lift", "scale", "fail", "delete-pod", "suspend", "resume")


class Step(NamedTuple):
    """One thing that happens.

    Attributes:
        act: Its name in `ACTS`.
        dice: The seed of the choices that it makes, such as of a pod.
        gap: How many seconds pass before it. A comparison waits until both controllers are quiet instead.
    """

    act: str
    dice: str
    gap: float


class Scenario(NamedTuple):
    """What happens to one Job."""

    seed: int
    job: dict[str, Any]
    steps: tuple[Step, ...]

    def has(self, *acts: str) -> bool:
        """Return whether one of the acts is among the steps."""
        return any(step.act in acts for step in self.steps)


def scenario_of(seed: int) -> Scenario:
    """Draw the scenario of a seed."""
    random = Random(f"scenario {seed}")
    job = random_job(random)
    if "activeDeadlineSeconds" in job["spec"]:
        job["spec"]["activeDeadlineSeconds"] = random.choice(DEADLINES)
    # Some kinds of acts only: what a single one breaks is easier to see.
    names = [name for name, act in ACTS.items() if act.weight]
    weights = [act.weight for act in ACTS.values() if act.weight]
    kinds = ["run", *random.choices(names, weights, k=random.choice((2, 4, 8)))]
    acts = ["run"] if random.random() < 0.8 else []
    if random.random() < 0.4:
        # Policies, and what makes the controller write.
        kinds += random.choices(POLICIES, k=4)
        acts.insert(random.randint(0, len(acts)), "refuse")
    acts += random.choices(kinds, k=random.randint(2, 9))
    steps = (Step(act, f"{seed} {number}", random.choice(GAPS)) for number, act in enumerate(acts))
    return Scenario(seed, job, tuple(steps))
