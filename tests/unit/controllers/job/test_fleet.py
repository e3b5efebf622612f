"""Counts of Jobs by state: kept while Jobs come, change and go, and bounded in namespaces."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.controllers.job.decisions.decide import decide
from kcr.controllers.job.decisions.plan import Outcome
from kcr.controllers.job.fleet import OTHER, Fleet
from kcr.errors import ForbiddenError
from tests.kit.builders import ago, job, pod, snapshot

DELAY = "kcr_job_end_delay_seconds"


class Counted:
    """A fleet, and its series."""

    def __init__(self, most_namespaces: int = 9) -> None:
        self.registry = CollectorRegistry()
        self.fleet = Fleet(self.registry, most_namespaces)

    def note(self, what: Job, *pods: Pod, outcome: Outcome | None = None) -> None:
        seen = snapshot(what, *pods)
        self.fleet.note(seen, decide(seen), outcome or Outcome())

    def series(self) -> dict[tuple[str, str, str], float]:
        found = [metric for metric in self.registry.collect() if metric.name == "kcr_jobs"]
        return {
            (one.labels["namespace"], one.labels["state"], one.labels["cause"]): one.value
            for metric in found
            for one in metric.samples
        }


def in_namespace(name: str, namespace: str, *, suspend: bool = False) -> Job:
    made = job(suspend=suspend)
    return replace(made, metadata=replace(made.metadata, namespace=namespace, name=name))


def test_refused_pods_are_counted_by_their_cause() -> None:
    counted = Counted()
    refused = Outcome(refused=1, error=ForbiddenError(403, "Forbidden", "exceeded quota: q"))
    counted.note(job(), outcome=refused)
    assert counted.series() == {("default", "cannot_start", "quota"): 1}
    counted.note(job(), pod())
    assert counted.series() == {("default", "running", ""): 1}
    counted.fleet.forget(job().key)
    counted.fleet.forget(job().key)
    assert counted.series() == {}


def test_namespaces_beyond_the_bound_are_counted_together() -> None:
    counted = Counted(most_namespaces=1)
    for namespace, count in (("a", 1), ("b", 3), ("c", 2)):
        for number in range(count):
            counted.note(in_namespace(f"pi-{number}", namespace, suspend=number == 1))
    assert counted.series() == {
        ("b", "pending", ""): 2,
        ("b", "suspended", ""): 1,
        (OTHER, "pending", ""): 2,
        (OTHER, "suspended", ""): 1,
    }


STEPS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.sampled_from(["note", "suspend", "forget"])))


@given(STEPS)
def test_counts_are_those_of_the_jobs_that_are_left(steps: list[tuple[int, str, str]]) -> None:
    counted = Counted()
    left: dict[Key, str] = {}
    for number, namespace, step in steps:
        what = in_namespace(f"pi-{number}", namespace, suspend=step == "suspend")
        if step == "forget":
            counted.fleet.forget(what.key)
            left.pop(what.key, None)
        else:
            counted.note(what)
            left[what.key] = "suspended" if step == "suspend" else "pending"
    expected = Counter((key.namespace, state, "") for key, state in left.items())
    assert counted.series() == dict(expected)


def test_delay_of_counting_is_that_of_each_pod() -> None:
    counted = Counted()
    ended = [pod(f"pi-{seconds}", "Succeeded", finished=ago(seconds)) for seconds in (3, 40)]
    assert counted.fleet.counted(ended, ago(0)) == ago(3)
    counted.fleet.finished(ago(3), ago(5))
    value = counted.registry.get_sample_value
    assert value(f"{DELAY}_count", {"step": "counted"}) == 2
    assert value(f"{DELAY}_bucket", {"step": "counted", "le": "5.0"}) == 1
    # The clock of the node is ahead.
    assert value(f"{DELAY}_sum", {"step": "finished"}) == 0
    assert counted.fleet.counted((), ago(0)) is None
