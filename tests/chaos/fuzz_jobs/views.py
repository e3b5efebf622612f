"""What is compared of two worlds: the status of the Job, its pods and its events, without names, UIDs and times."""

import re
from collections.abc import Callable, Set
from typing import NamedTuple

from kcr.api.batch import FAILED, Job, is_finished
from kcr.api.conditions import is_condition_true
from kcr.api.core import Event
from kcr.api.indexset import IndexSet
from kcr.controllers.job.decisions.lifecycle import INTERIM, SUSPENDED
from tests.chaos.fuzz_jobs.acts import World, looks

_ANY = 1_000_000
# Upstream's recorder drops those beyond.
_MOST_EVENTS = 25
# One per pod, or a summary of them.
_PER_POD = frozenset({"SuccessfulCreate", "SuccessfulDelete"})


class PodLooks(NamedTuple):
    """What tells pods apart; see `acts.looks`."""

    completion_index: int
    phase: str
    is_terminating: bool
    is_ready: bool
    is_tracked: bool
    is_bound: bool
    has_controller: bool
    has_labels: bool
    is_gift: bool
    exit_codes: tuple[int, ...]

    @property
    def is_active(self) -> bool:
        """Whether it counts as active, if it belongs to the Job."""
        return self.has_controller and not self.is_terminating and self.phase not in ("Succeeded", "Failed")


class View(NamedTuple):
    """A world at one moment.

    Attributes:
        job: The Job, to look at; it is not compared.
        refused: The policies in force, by name; they are not compared.
        ever_refused: Those that have been in force.
        numbers: Fields of the status.
        conditions: Type, status, reason and message of each.
        pods: All pods of the namespace.
    """

    job: Job | None
    refused: frozenset[str]
    ever_refused: frozenset[str]
    numbers: tuple[tuple[str, object], ...]
    conditions: tuple[tuple[str, ...], ...]
    pods: tuple[PodLooks, ...]

    def is_like(self, other: "View") -> bool:
        return self.compared == other.compared

    @property
    def compared(self) -> tuple[object, ...]:
        """What is compared."""
        return self.numbers, self.conditions, self.pods

    def parts_from(self, other: "View") -> bool:
        """Return whether the worlds go different ways: other pods to choose among, or another outcome."""
        return self._course != other._course

    @property
    def _course(self) -> tuple[object, ...]:
        return [pod._replace(is_tracked=False) for pod in self.pods], self.outcomes

    @property
    def outcomes(self) -> list[str]:
        """The interim conditions that hold."""
        conditions = self.job.status.conditions if self.job else ()
        return [interim for interim in INTERIM.values() if is_condition_true(conditions, interim)]

    @property
    def has_ended(self) -> bool:
        """Whether the Job has ended."""
        return self.job is not None and is_finished(self.job)

    def number(self, name: str) -> int:
        """Return a number of the status, 0 where it has none."""
        found = dict(self.numbers).get(name)
        return found if isinstance(found, int) else 0


class Difference(NamedTuple):
    """A field that differs.

    Attributes:
        field: Its name.
        upstream: What kube-controller-manager made of it.
        ours: What kcr made of it.
    """

    field: str
    upstream: object
    ours: object


async def view_of(world: World) -> View:
    """Return what is seen of a world."""
    job = await world.read()
    pods = tuple(sorted((PodLooks(*looks(pod)) for pod in await world.pods()), key=repr))
    refused = frozenset(world.refused), frozenset(world.ever_refused)
    if job is None:
        return View(None, *refused, (), (), pods)
    conditions = sorted((one.type, one.status, one.reason, plain(world, one.message)) for one in job.status.conditions)
    return View(job, *refused, _numbers(job), tuple(conditions), pods)


def _numbers(job: Job) -> tuple[tuple[str, object], ...]:
    status, listed = job.status, job.status.uncounted_terminated_pods
    return (
        ("active", status.active), ("ready", status.ready), ("terminating", status.terminating),
        ("succeeded", status.succeeded), ("failed", status.failed),
        ("completedIndexes", status.completed_indexes), ("failedIndexes", status.failed_indexes),
        ("uncounted", (len(listed.succeeded), len(listed.failed)) if listed else None),
        ("has startTime", status.start_time is not None), ("has completionTime", status.completion_time is not None),
    )  # fmt: skip


def plain(world: World, text: str) -> str:
    """Return a message without what is drawn: the ends of names, the namespace, and how much of a quota is used."""
    text = re.sub(r"\bused: pods=\d+", "used: pods=N", text)
    name = re.escape(world.key.name)
    return re.sub(rf"\b{name}-(?:\d+-)?(?:[a-z0-9]{{5}}\b)?", "POD", text).replace(world.namespace, "NAMESPACE")


class Told(NamedTuple):
    """The events of a Job.

    Attributes:
        events: Type, reason and message of each; those of single pods without a message.
        recorded: How many there are, repetitions included.
    """

    events: frozenset[tuple[str, ...]]
    recorded: int


async def events_of(world: World) -> Told:
    """Return the events of the Job."""
    found = await world.client.list(Event, world.namespace, fields="involvedObject.kind=Job")
    told = ((one.type, one.reason, "" if one.reason in _PER_POD else plain(world, one.message)) for one in found)
    return Told(frozenset(told), sum(max(one.count, 1) for one in found))


def differences(upstream: View, ours: View) -> list[Difference]:
    """Return how two views differ."""
    found = [
        Difference(name, before, after)
        for (name, before), (_, after) in zip(upstream.numbers, ours.numbers, strict=False)
        if before != after
    ]
    if (upstream.job is None) != (ours.job is None):
        found.append(Difference("job", upstream.job is not None, ours.job is not None))
    if upstream.conditions != ours.conditions:
        found.append(Difference("conditions", upstream.conditions, ours.conditions))
    if upstream.pods != ours.pods:
        found.append(Difference("pods", upstream.pods, ours.pods))
    return found


def is_drawn(upstream: View, ours: View) -> bool:
    """Whether only another one of several pods is left that are equally good to delete: upstream draws one."""
    completions = ours.job.spec.completions if ours.job else None
    if completions is None or upstream.compared[:2] != ours.compared[:2]:
        return False
    for view in (upstream, ours):
        active = [pod.completion_index for pod in view.pods if pod.is_active]
        if len({*active}) < len(active) or not all(0 <= index < completions for index in active):
            return False
    bare = [sorted((pod._replace(completion_index=0) for pod in view.pods), key=repr) for view in (upstream, ours)]
    return bare[0] == bare[1]


def _stands_still(upstream: View, ours: View) -> bool:
    """Whether upstream reports no active pods, or can report nothing, while a failed pod waits for the next one."""
    if "status" in upstream.refused or upstream.outcomes or upstream.parts_from(ours):
        return False
    active = sum(pod.is_active for pod in ours.pods)
    has_failed = any(pod.phase == "Failed" for pod in ours.pods)
    is_refused = any(pod.is_active and pod.is_ready for pod in ours.pods)
    wrong = upstream.number("active") != active if is_refused else upstream.number("active") == 0 < active
    return has_failed and wrong and ours.number("active") == active


def _suspended_and_open(upstream: View, ours: View) -> bool:
    """Whether upstream has the interim condition of a suspended Job, and cannot write the terminal one."""
    if upstream.job is None or upstream.has_ended or not ours.has_ended:
        return False
    conditions = upstream.job.status.conditions
    is_open = any(is_condition_true(conditions, interim) for interim in INTERIM.values())
    return is_open and is_condition_true(conditions, SUSPENDED) and upstream.job.status.start_time is None


def _counts_twice(upstream: View, ours: View) -> bool:
    """Whether upstream has counted pods of a failed Job again, whose finalizer could not be removed."""
    if "untracks" not in upstream.ever_refused or not _fails(upstream) or upstream.parts_from(ours):
        return False
    theirs, own = (view.number("succeeded") + view.number("failed") for view in (upstream, ours))
    return theirs > own


def _fails(view: View) -> bool:
    return view.job is not None and is_condition_true(view.job.status.conditions, INTERIM[FAILED])


def _completed_index_failed(upstream: View, ours: View) -> bool:
    """Whether a failed pod of a completed index keeps upstream from writing its status."""
    if upstream.refused & {"status", "untracks"}:
        return False
    done = IndexSet.parse(upstream.job.status.completed_indexes if upstream.job else "", _ANY)
    return any(pod.phase == "Failed" and pod.is_tracked and pod.completion_index in done for pod in upstream.pods)


def _draws_again(upstream: View, ours: View) -> bool:
    """Whether only more pods have lost their finalizer, since deletions were refused."""
    tracked = [sum(pod.is_tracked for pod in view.pods) for view in (upstream, ours)]
    fields = {one.field for one in differences(upstream, ours)}
    is_refused = "deletes" in upstream.ever_refused and fields <= {"ready", "pods"}
    return is_refused and tracked[0] < tracked[1] and not upstream.parts_from(ours)


def _waits_with_an_index(upstream: View, ours: View) -> bool:
    """Whether kcr has gone on with a higher index while upstream waits for, or has replaced, one in backoff."""
    if ours.job is None or ours.job.spec.backoff_limit_per_index is None:
        return False
    theirs, own = ({pod.completion_index for pod in view.pods if pod.is_active} for view in (upstream, ours))
    # Their pods have failed, or were deleted.
    ended = {pod.completion_index for pod in ours.pods if pod.phase == "Failed" or pod.is_terminating}
    return bool(own - theirs and ended - own) and min(own - theirs) > min(ended - own)


def _deletes_first(upstream: View, ours: View) -> bool:
    """Whether upstream has no outcome on record: it deletes pods first, and they or the outcome are refused."""
    if upstream.outcomes:
        return False
    stay = [pod._replace(is_terminating=False) for pod in upstream.pods]
    if "status" in upstream.refused and not ours.outcomes:
        return upstream.compared[:2] == ours.compared[:2] and sorted(stay, key=repr) == list(ours.pods)
    active = [[pod for pod in view.pods if pod.is_active] for view in (upstream, ours)]
    return "deletes" in upstream.refused and ours.outcomes != [] and active[0] == active[1] != []


def _ready_pods_stay(upstream: View, ours: View) -> bool:
    """Whether upstream does not count ready pods that it could not delete."""
    numbers = {one.field for one in differences(upstream, ours)}
    ready = sum(pod.is_active and pod.is_ready for pod in ours.pods)
    return (
        "deletes" in upstream.refused
        and numbers == {"ready"}
        and upstream.number("ready") < ready == ours.number("ready")
    )


def _is_released(upstream: View, ours: View) -> bool:
    """Whether a terminating pod without its controller is counted and waited for by upstream, and replaced by kcr."""
    released = sum(pod.is_terminating and not pod.has_controller for pod in upstream.pods)
    surplus = upstream.number("terminating") - ours.number("terminating")
    if {one.field for one in differences(upstream, ours)} == {"terminating"}:
        return 0 < surplus <= released
    return bool(released) and sum(pod.is_active for pod in upstream.pods) < sum(pod.is_active for pod in ours.pods)


# By the names of the rows of docs/reference/differences.md: whether a difference between two views is that one.
KNOWN: dict[str, Callable[[View, View], bool]] = {
    "backoff-status": _stands_still,
    "suspended-end": _suspended_and_open,
    "double-count": _counts_twice,
    "completed-index-fails": _completed_index_failed,
    "index-in-backoff": _waits_with_an_index,
    "released-while-terminating": _is_released,
    "deleted-before-outcome": _deletes_first,
    "ready-after-refused-deletion": _ready_pods_stay,
    "refused-deletion-draws-again": _draws_again,
}


def known(upstream: View, ours: View) -> str:
    """Return the name of the known difference between two views, or nothing."""
    return next((name for name, explains in KNOWN.items() if explains(upstream, ours)), "")


def known_of_events(upstream: Told, ours: Told, refused: Set[str]) -> str:
    """Return the name of the known difference between the events of two worlds, or nothing.

    Args:
        upstream: The events of upstream.
        ours: Those of kcr.
        refused: The policies that have been in force.
    """
    only_theirs, only_ours = (
        {reason for _, reason, _ in one.events - other.events} for one, other in ((upstream, ours), (ours, upstream))
    )
    if "status" in refused and not only_ours and only_theirs <= {"Suspended", "Resumed"}:
        return "repeated-events"
    if refused >= {"status", "deletes"} and not only_ours and only_theirs == {"FailedDelete"}:
        return "deleted-before-outcome"
    is_lost = upstream.recorded >= _MOST_EVENTS and only_ours <= {"Resumed", "Completed", "Suspended"}
    return "lost-events" if is_lost and not only_theirs else ""
