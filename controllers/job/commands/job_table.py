"""All Jobs of a cluster as rows: those that need attention first."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from kcr.api.batch import Job, is_finished
from kcr.api.core import Event, Pod
from kcr.api.durations import human_duration
from kcr.api.meta import controller_of
from kcr.controllers.job.decisions.situation import (
    BACKING_OFF,
    CANNOT_START,
    ENDS,
    PENDING,
    RUNNING,
    SUSPENDED,
    TERMINATING,
    JobSituation,
    situation_from_outside,
)

# The order of the rows.
ORDER = (CANNOT_START, BACKING_OFF, TERMINATING, PENDING, RUNNING, SUSPENDED, *reversed(ENDS.values()))
HEADER = ("NAMESPACE", "NAME", "STATE", "CAUSE", "DONE", "ACTIVE", "FAILED", "AGE")
# A Job whose pods are refused is retried once a minute at least, but its event is not always written.
_LATELY = timedelta(minutes=10)
_RANKS = {state: rank for rank, state in enumerate(ORDER)}


class JobEvidence(NamedTuple):
    """Facts about Jobs beyond themselves, as far as they could be read.

    Attributes:
        pods: Pods of Jobs that have not ended.
        events: Events of Jobs whose pods were refused.
    """

    pods: Sequence[Pod] = ()
    events: Sequence[Event] = ()


class JobRow(msgspec.Struct, frozen=True, rename="camel"):
    """A Job as a row.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        state: Its state; see `kcr.controllers.job.decisions.situation`.
        cause: The cause of the state; empty for none.
        completions: Successes it needs; None for a work queue, whose first success is enough.
        succeeded: Pods that succeeded.
        active: Pods that run or may still run.
        failed: Pods that failed.
        created: When it was created.
    """

    namespace: str
    name: str
    state: str
    cause: str
    completions: int | None
    succeeded: int
    active: int
    failed: int
    created: datetime | None

    def cells(self, now: datetime) -> tuple[str, ...]:
        """Return the cells of the table, under `HEADER`."""
        goal = "" if self.completions is None else f"/{self.completions}"
        age = "-" if self.created is None else human_duration(max(now - self.created, timedelta()))
        return (
            self.namespace, self.name, self.state.replace("_", " "), self.cause or "-", f"{self.succeeded}{goal}",
            str(self.active), str(self.failed), age,
        )  # fmt: skip


def rows_of(jobs: Iterable[Job], known: JobEvidence, now: datetime) -> list[JobRow]:
    """Return Jobs as rows, by state, namespace and name."""
    pods: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in known.pods:
        if (owner := controller_of(pod.metadata)) is not None:
            pods[owner.uid].append(pod)
    refusals = {
        event.involved_object.uid: event.message
        for event in known.events
        if event.last_seen is not None and now - event.last_seen < _LATELY
    }
    rows = []
    for job in jobs:
        uid = job.metadata.uid
        found = situation_from_outside(job, pods.get(uid, ()), now, refusal=refusals.get(uid, ""))
        rows.append(_row(job, found))
    return sorted(rows, key=lambda row: (_RANKS[row.state], row.namespace, row.name))


def needs_pods(job: Job) -> bool:
    """Return whether only the pods of a Job show its state: some may be active, and none is ready."""
    return not is_finished(job) and job.status.active > 0 and not job.status.ready


def needs_events(job: Job) -> bool:
    """Return whether events may show why a Job has no pods."""
    return not is_finished(job) and not job.spec.suspend and job.status.active < (job.spec.parallelism or 0)


def summary_of(rows: Iterable[JobRow]) -> str:
    """Return how many Jobs are in which state: `3 Jobs: 1 cannot start (quota), 2 complete`."""
    counts: Counter[str] = Counter()
    causes: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[row.state] += 1
        if row.cause and row.state in (CANNOT_START, BACKING_OFF):
            causes[row.state][row.cause] += 1
    parts = []
    for state in sorted(counts, key=_RANKS.__getitem__):
        why = ", ".join(cause for cause, _ in causes[state].most_common())
        parts.append(f"{counts[state]} {state.replace('_', ' ')}{f' ({why})' if why else ''}")
    return f"{counts.total()} Jobs: {', '.join(parts)}" if parts else "no Jobs"


def changed(before: Iterable[JobRow], rows: Iterable[JobRow]) -> Iterator[JobRow]:
    """Yield the rows that are new or differ from those of before."""
    known = set(before)
    return (row for row in rows if row not in known)


def _row(job: Job, found: JobSituation) -> JobRow:
    metadata, status = job.metadata, job.status
    return JobRow(
        metadata.namespace, metadata.name, found.state, found.cause, job.spec.completions,
        status.succeeded, status.active, status.failed, metadata.creation_timestamp,
    )  # fmt: skip
