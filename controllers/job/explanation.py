"""Explains a Job with the controller's decision, on the API server's or the controller's data."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from kcr.api import selectors
from kcr.api.batch import FAILED, Job, finished_type, is_finished
from kcr.api.core import Event, Pod
from kcr.api.explanation import Explanation, counted
from kcr.api.managed_fields import ManagedObjectMeta
from kcr.api.meta import Key, controller_of, is_controlled_by
from kcr.api.pods import is_active
from kcr.client import Client
from kcr.controller import OwnWrites
from kcr.controller.gates import PAUSED
from kcr.controllers.job.decisions.directives import own_limits
from kcr.controllers.job.decisions.explain import CHANGE, Evidence, explain
from kcr.controllers.job.decisions.failures import Backoff, advanced, concerns
from kcr.controllers.job.decisions.gang import VERSIONS, state_text
from kcr.controllers.job.decisions.plan import Limits, Snapshot
from kcr.controllers.job.decisions.pod_troubles.failures import digest_of, end_text, termination_message
from kcr.controllers.job.decisions.pod_troubles.problems import DetailedPod
from kcr.controllers.job.decisions.pods import index_unsettled
from kcr.controllers.job.memory import JobState
from kcr.controllers.job.pod_context import read_last_lines, read_pod_context
from kcr.errors import ForbiddenError, NotFoundError
from kcr.events import EventRecorder
from kcr.informer import Store

# Two controllers that both wrote the status within this time are both at work.
_LATELY = timedelta(minutes=5)
# So many of its creates are named.
_NAMED = 3
# Failed pods by the UID of their Job. Only with the option is there an index of pods that are counted already.
_FAILED = "job-failed-pods"
# Characters of a program's message that are shown.
_LONGEST = 200


class ManagedJob(Job, api_version="batch/v1", kind="Job", plural="jobs"):
    """A Job with the fields that caches of Jobs omit."""

    metadata: ManagedObjectMeta = ManagedObjectMeta()


async def explain_job(client: Client, job: ManagedJob, events: Sequence[Event], now: datetime) -> Explanation:
    """Return why a Job is where it is.

    The failures in a row, which a controller remembers, are counted from the Job's pods; the backoff is judged by the
    controller's default times.

    Args:
        client: Reads the pods of the Job, and the events of those that have not started.
        job: The Job.
        events: Events about it, the latest last.
        now: The moment to judge at.
    """
    labels = selectors.text(job.spec.selector) if job.spec.selector is not None else ""
    found = await client.list(DetailedPod, job.metadata.namespace, labels=labels)
    pods = tuple(pod for pod in found if is_controlled_by(pod, job))
    seen = Snapshot(
        job=job,
        pods=tuple(pod for pod in pods if concerns(job, pod)),
        untracked=frozenset(),
        expectations_met=True,
        backoff=_backoff(pod for pod in pods if not any(index_unsettled(pod))),
        limits=own_limits(job, Limits(take_over=True)),
        now=now,
    )
    known = Evidence(
        pods=pods,
        events=tuple(events),
        writers=() if is_finished(job) else _writers(job.metadata, now),
        duplicate_event=_duplicate_event(events, now),
        context=await read_pod_context(client, pods, CHANGE),
        output=await _last_output(client, job, pods),
        gang=await _gang(client, pods),
        # A controller that heeds the pause is silent.
        is_own=job.metadata.annotations.get(PAUSED) == "true",
        changed=max((entry.time for entry in job.metadata.managed_fields if entry.time is not None), default=None),
    )
    return explain(seen, known)


async def _last_output(client: Client, job: Job, pods: Iterable[Pod]) -> str:
    last = digest_of(job, pods).last if finished_type(job) == FAILED else None
    lines = await read_last_lines(client, last, 1) if last is not None else ()
    return lines[0].strip()[:_LONGEST] if lines else ""


async def _gang(client: Client, pods: Sequence[DetailedPod]) -> str:
    waiting = [pod for pod in pods if is_active(pod) and not pod.spec.node_name]
    name = next((pod.spec.scheduling_group.pod_group_name for pod in waiting), "")
    for version in VERSIONS if name else ():
        with suppress(NotFoundError, ForbiddenError):
            return state_text(await client.get(version.group, Key(waiting[0].metadata.namespace, name)), pods)
    return ""


def own_evidence(state: JobState, own_writes: OwnWrites, job: Job, pods: tuple[Pod, ...], now: datetime) -> Evidence:
    """Return a controller's facts about a Job beyond the inputs of its reconcile.

    Args:
        state: Its memory of the Job.
        own_writes: Its writes that it has not observed.
        job: The Job in its store.
        pods: The Job's pods in its store.
        now: The moment to judge at.
    """
    own, pending = own_writes.peek(job), list[str]()
    if own.creates:
        names = ", ".join(key.name for key in tuple(own.creates)[:_NAMED])
        text = f"{counted(len(own.creates), 'create')} had no answer: sent again under the same name: {names}"
        pending.append(text)
    if own.deleted:
        pending.append(f"{counted(len(own.deleted), 'deletion')} of pods is not observed yet")
    if own.unconfirmed_status:
        pending.append("a write of its status had no answer: the Job is read from the server first")
    if own_writes.is_stale(job.key):
        pending.append("its last write is not in the store of this controller yet: it is not reconciled before")
    seen_at = state.concurrent_seen_at
    writers = ("this controller", "another client") if seen_at is not None and now - seen_at < _LATELY else ()
    return Evidence(
        pods=pods,
        events=() if state.refusal is None else (state.refusal,),
        writers=writers,
        pending=tuple(pending),
        is_own=True,
    )


def _backoff(counted: Iterable[Pod]) -> Backoff:
    pods = tuple(counted)
    succeeded = (pod for pod in pods if pod.status.phase == "Succeeded")
    return advanced(Backoff(), succeeded, (pod for pod in pods if pod.status.phase == "Failed"))


def _writers(metadata: ManagedObjectMeta, now: datetime) -> tuple[str, ...]:
    names = sorted(name for name, time in metadata.status_writers.items() if now - time < _LATELY)
    return tuple(names) if len(names) > 1 else ()


def _duplicate_event(events: Iterable[Event], now: datetime) -> str:
    """Return an event that several recorders have written about a pod lately: one recorder merges equal events."""
    told: set[str] = set()
    for event in events:
        at = event.last_seen
        if event.reason in ("SuccessfulCreate", "SuccessfulDelete") and at is not None and now - at < _LATELY:
            # An event that was combined from several messages says nothing of a single pod.
            if event.message in told and not event.message.startswith("(combined"):
                return event.message
            told.add(event.message)
    return ""


class DigestEvents:
    """Records events with the causes of failed Jobs, from the controller's own store, beside those of upstream.

    A pod whose end the store does not show yet counts as deleted; a Job fails by pods that the store has shown.
    """

    def __init__(self, pods: Store[Pod], recorder: EventRecorder) -> None:
        """Index the pods of a store, and record with `recorder`."""
        self._pods = pods
        self._recorder = recorder
        pods.add_index(_FAILED, _index_failed)

    def record(self, job: Job) -> None:
        """Record why a Job has failed, at best effort as all events."""
        self._recorder.event(job, "Warning", "FailureDigest", self.text(job))

    def text(self, job: Job) -> str:
        """Return the message: `backoffLimit 2: 3 pods failed: 3 with exit code 3; pod pi-x: container c: …`."""
        digest = digest_of(job, self._pods.by_index(_FAILED, job.metadata.uid))
        if digest.last is None:
            return digest.text
        message = termination_message(digest.last)[:_LONGEST]
        return f"{digest.text}; last: {end_text(digest.last)}{f': {message}' if message else ''}"


def _index_failed(pod: Pod) -> tuple[str, ...]:
    owner = controller_of(pod.metadata)
    return (owner.uid,) if owner is not None and pod.status.phase == "Failed" else ()
