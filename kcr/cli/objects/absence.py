"""Explains why an object does not exist: by events about its name, and by pods that a Job has left behind."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from kcr.api.batch import Job
from kcr.api.core import Event, Namespace, Pod
from kcr.api.explanation import Code, Explanation, ago, counted
from kcr.api.meta import Key, Resource, controller_of
from kcr.cli.objects.kinds.nodes import explain_lost_node
from kcr.cli.objects.kinds.read import pods_of_node
from kcr.client import Client
from kcr.errors import ForbiddenError, NotFoundError

# The events with which a Job's controller tells how the Job ended, and how it did.
_ENDS: Mapping[str, str] = {
    "Completed": "had completed",
    **{
        reason: f"had failed ({reason})"
        for reason in (
            "BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy", "MaxFailedIndexesExceeded", "FailedIndexes",
        )
    },
}  # fmt: skip
_NAMED = 3
# Of a Job's pods, the Job's name.
_LABEL = "batch.kubernetes.io/job-name"


async def explain_absence(
    client: Client, kind: type[Resource], key: Key, events: Sequence[Event], now: datetime
) -> Explanation:
    """Return the explanation of an object that does not exist.

    Args:
        client: Reads its remaining objects.
        kind: Its kind.
        key: Its namespace and name.
        events: Those about objects of its name, the latest last.
        now: The moment to judge at.
    """
    place = kind.resource
    if (place.group, place.plural) == ("", "nodes"):
        return explain_lost_node(key, await pods_of_node(client, key.name))
    elsewhere = f"to look in all namespaces: kubectl get {place.plural} -A --field-selector metadata.name={key.name}"
    if not place.namespaced:
        elsewhere = f"to see those that are there: kubectl get {place.plural}"
    elif await _has_no_namespace(client, key.namespace):
        names = "name another namespace with -n: kubectl get namespaces"
        return Explanation(
            Code.NOT_FOUND, f"is not there: nor is the namespace {key.namespace}", remedies=(names, elsewhere)
        )
    left = await _pods_left(client, key) if kind is Job else ()
    if not events and not left:
        reason = "no event is about it: it never was there, or was deleted long ago (events expire)"
        return Explanation(Code.NOT_FOUND, "is not there", reasons=(reason,), remedies=(elsewhere,))
    end = next((event for event in reversed(events) if event.reason in _ENDS), None)
    headline, reason = "is not there any more", "it was deleted, by a user or with its owner"
    if kind is Job and end is not None:
        headline = f"{headline}: it {_ENDS[end.reason]}"
        reason = (
            f"it ended {ago(end.last_timestamp, now)}, and was deleted since: by its ttlSecondsAfterFinished, "
            "its CronJob's history limits, a user, or with its owner"
        )
    facts, remedies = _remains(left, key)
    return Explanation(Code.NOT_FOUND, headline, reasons=(reason, *facts), remedies=(*remedies, elsewhere))


async def _has_no_namespace(client: Client, namespace: str) -> bool:
    try:
        await client.get(Namespace, Key("", namespace))
    except NotFoundError:
        return True
    except ForbiddenError:
        pass
    return False


async def _pods_left(client: Client, key: Key) -> tuple[Pod, ...]:
    try:
        return tuple(await client.list(Pod, key.namespace, labels=f"{_LABEL}={key.name}"))
    except ForbiddenError:
        return ()


def _remains(pods: Sequence[Pod], key: Key) -> tuple[list[str], list[str]]:
    """Return the facts about pods that a Job has left behind, and how to remove them."""
    orphans = [pod for pod in pods if controller_of(pod.metadata) is None and not pod.metadata.finalizers]
    held = [pod for pod in pods if pod.metadata.finalizers]
    facts, remedies = [], []
    if orphans:
        facts.append(f"{counted(len(orphans), 'pod')} of it {'is' if len(orphans) == 1 else 'are'} left, orphaned")
        remedies.append(f"to delete them: kubectl -n {key.namespace} delete pod -l {_LABEL}={key.name}")
    for pod in held[:_NAMED]:
        facts.append(f"pod {pod.metadata.name} of it stays for its finalizers: {', '.join(pod.metadata.finalizers)}")
    if held:
        remedies.append("see whether a Job controller runs: it removes its finalizer from pods without a Job")
        patch = f'patch pod {held[0].metadata.name} -p \'{{"metadata":{{"finalizers":null}}}}\''
        remedies.append(f"or remove them by hand: kubectl -n {key.namespace} {patch}")
    return facts, remedies
