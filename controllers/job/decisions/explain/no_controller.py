"""Whether no controller reconciles a Job: something is due, and nothing has happened for a while."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation, Step, counted
from kcr.api.pods import is_terminal
from kcr.controllers.job.decisions import failures, lifecycle
from kcr.controllers.job.decisions.explain.evidence import Evidence
from kcr.controllers.job.decisions.indexed import as_backoff
from kcr.controllers.job.decisions.plan import Plan, ScaleDown, ScaleUp, Snapshot, Terminate
from kcr.controllers.job.decisions.pod_troubles.problems import PATIENCE
from kcr.controllers.job.decisions.pods import finish_time

_REMEDY_KCR = "see whether the one that runs is ready (GET /readyz), or run one: kcr run --controllers job"
_REMEDY_ANY = (
    "see whether kube-controller-manager runs, or kcr with --take-over; kcr without it reconciles only Jobs with "
    f"spec.managedBy: {lifecycle.KCR}"
)
# Without rights it can write no event that would say so.
_RIGHTS = "if one runs, see its log: it may lack rights, which kcr check names"


def no_controller(seen: Snapshot, plan: Plan, known: Evidence) -> Explanation | None:
    """Something is due, and no controller does it."""
    due = _due(seen, plan)
    since = max((moment for moment in _signs(seen, plan, known) if moment <= seen.now), default=seen.now)
    if known.is_own or not due or seen.now - since < PATIENCE:
        return None
    remedy = _REMEDY_KCR if seen.job.spec.managed_by == lifecycle.KCR else _REMEDY_ANY
    never = seen.job.status.start_time is None and not seen.job.spec.suspend
    headline = "no controller has taken it up" if never else "no controller is at work on it"
    idle = human_duration(seen.now - since)
    fact = f"it was created {idle} ago, and has no startTime" if never else f"nothing has happened for {idle}"
    step = Step(f"a controller would {due}")
    return Explanation(Code.NO_CONTROLLER, headline, (step,), (fact,), (remedy, _RIGHTS))


def _due(seen: Snapshot, plan: Plan) -> str:
    """Return the next action of a controller; empty if it would wait."""
    ended = len(plan.counts.newly_succeeded) + len(plan.counts.newly_failed)
    match plan.work:
        case ScaleUp(members):
            return f"create {counted(len(members), 'pod')}"
        case ScaleDown(pods) | Terminate(pods):
            return f"delete {counted(len(pods), 'pod')}"
    if ended:
        return f"count {counted(ended, 'pod')} that {'has' if ended == 1 else 'have'} ended"
    if plan.ending is not None and not plan.counts.terminating:
        return f"write that the Job is {plan.ending.condition}"
    suspension = lifecycle.with_suspension(seen.job, seen.job.status, seen.now)
    return "note that the Job is suspended or resumed" if suspension is not seen.job.status else ""


def _signs(seen: Snapshot, plan: Plan, known: Evidence) -> Iterator[datetime]:
    """Yield when something happened to the Job, and when something became due."""
    job = seen.job
    moments = [job.metadata.creation_timestamp, job.metadata.deletion_timestamp, job.status.start_time, known.changed]
    moments += [condition.last_transition_time for condition in job.status.conditions]
    moments += [event.last_seen for event in known.events]
    for pod in known.pods or seen.pods:
        moments += [pod.metadata.creation_timestamp, finish_time(pod) if is_terminal(pod) else None]
        if pod.metadata.deletion_timestamp is not None:
            grace = timedelta(seconds=pod.metadata.deletion_grace_period_seconds or 0)
            moments += [pod.metadata.deletion_timestamp, pod.metadata.deletion_timestamp - grace]
    yield from (moment for moment in moments if moment is not None)
    if job.status.start_time is not None and job.spec.active_deadline_seconds is not None:
        yield job.status.start_time + timedelta(seconds=job.spec.active_deadline_seconds)
    delayed = plan.counts.indexes.delayed.values() if plan.counts.indexes is not None else ()
    base, most = seen.limits.backoff_base_seconds, seen.limits.backoff_max_seconds
    for record in (plan.backoff, *map(as_backoff, delayed)):
        if record.last is not None:
            yield record.last + failures.time_left(record, record.last, base, most)
