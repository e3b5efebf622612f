"""Creates and deletions of a Job's pods that are due now, and creates that the API server refuses."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from kcr.api.core import Event
from kcr.api.explanation import Code, Explanation, Step, ago, counted
from kcr.api.refusals import refusal_of
from kcr.controllers.job.decisions.explain.evidence import Evidence
from kcr.controllers.job.decisions.plan import Plan, ScaleDown, ScaleUp, Snapshot

# Between two tries, at most. Source: kubernetes/pkg/controller/job/job_controller.go, MaxJobApiBackOff.
_MOST = timedelta(seconds=60)
# A Job's template cannot be changed.
_CHANGE = "create the Job anew with a template"


def refused(seen: Snapshot, plan: Plan, known: Evidence) -> Explanation | None:
    """The API server does not let its pods in."""
    tries = [event for event in known.events if event.reason in ("FailedCreate", "SuccessfulCreate")]
    if not isinstance(plan.work, ScaleUp) or not tries or tries[-1].reason != "FailedCreate":
        return None
    event = tries[-1]
    namespace = seen.job.metadata.namespace
    refusal = refusal_of(event.message, namespace=namespace, resource="pods", change=_CHANGE, plugin="job")
    times = f", {event.count} times" if event.count > 1 else ""
    return Explanation(
        Code.REFUSED,
        f"cannot create pods: {refusal.cause}",
        steps=(_next_try(tries, counted(len(plan.work.members), "pod"), seen.now),),
        reasons=(f"{ago(event.last_timestamp, seen.now)}{times}: {event.message}",),
        remedies=(refusal.remedy,),
        webhook=refusal.webhook,
    )


def _next_try(tries: Sequence[Event], pods: str, now: datetime) -> Step:
    """Return when the controller tries again: each wait is twice as long as the one before it.

    Events tell of the last tries to the second: one each, or one that counts the same message from the first try on.
    Those that were combined from several messages do not tell of the last wait.
    """
    text, last = f"tries again to create {pods}", tries[-1]
    first, latest, wait = last.first_timestamp, last.last_timestamp, None
    earlier = [event.last_timestamp for event in tries[:-1] if event.last_timestamp and event.last_timestamp != latest]
    if latest is not None and last.count > 1 and first is not None and not last.message.startswith("(combined"):
        # One second, then two, then four: all waits so far and one second make up the next.
        wait = latest - first + timedelta(seconds=1)
    elif latest is not None and last.count <= 1 and earlier:
        wait = 2 * (latest - max(earlier))
    if latest is not None and wait is not None and (at := latest + min(wait, _MOST)) > now:
        return Step(text, at)
    return Step(f"{text}: 1s after the first refusal, then twice as long each time, 60s at most")


def scaling(_: Snapshot, plan: Plan, __: Evidence) -> Explanation | None:
    """Pods are to be created or removed right now."""
    match plan.work:
        case ScaleUp(members):
            return Explanation(Code.CREATING, f"creates {counted(len(members), 'pod')} now")
        case ScaleDown(pods):
            return Explanation(Code.WAITING, f"removes {counted(len(pods), 'surplus pod')} now")
    return None
