"""Follows the owner of objects that plugins explain to the one that is the cause of its trouble.

Lists that the user may not read are empty.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from kcr.api.explanation import Code, Explanation, merged, owner_text
from kcr.api.meta import Resource
from kcr.api.unstructured import Unstructured
from kcr.client import Client
from kcr.client.explainers import Explainer, ExplainerError, list_or_nothing

R = TypeVar("R", bound=Resource)

# So many of each kind are explained.
_MOST = 5
# The states of a dependent that delay its owner.
_TROUBLES = (Code.FAILED, Code.PODS_NOT_READY, Code.REFUSED, Code.NO_CONTROLLER)


async def with_dependents(
    client: Client, obj: Unstructured, explanation: Explanation, now: datetime, explainers: Sequence[Explainer]
) -> Explanation:
    """Return the explanation of a custom resource, with the trouble of the objects it owns, if there is any.

    Args:
        client: Where to read.
        obj: The object; only kinds of a user's own are followed, for the others own nothing of the kind.
        explanation: The explanation of the object itself.
        now: The moment to judge at.
        explainers: Those of plugins, whose kinds are followed.
    """
    group = obj.resource.group
    if "." not in group or group.endswith(".k8s.io") or not obj.resource.namespaced:
        return explanation
    if explanation.code is Code.TERMINATING:
        return explanation
    async for dependent, found in _dependents(client, obj, now, explainers):
        if found.code in _TROUBLES:
            kind, metadata = dependent.resource.kind.lower(), dependent.metadata
            see = f"see it: kcr explain -n {metadata.namespace} {kind}/{metadata.name}"
            # Who owns it is where this began.
            own = tuple(reason for reason in found.reasons if reason not in owner_text(metadata))
            cause = Explanation(
                # That a Job has failed is trouble with pods to its owner.
                Code.PODS_NOT_READY if found.code is Code.FAILED else found.code,
                f"its {kind} {metadata.name} {found.headline}",
                reasons=own,
                remedies=(*found.remedies, see),
            )
            return merged(explanation, cause)
    return explanation


async def _dependents(
    client: Client, obj: Unstructured, now: datetime, explainers: Sequence[Explainer]
) -> AsyncIterator[tuple[Resource, Explanation]]:
    """Yield the objects that an object owns, each with its explanation."""
    namespace = obj.metadata.namespace
    for explainer in (one for one in explainers if one.kind.resource.namespaced):
        for one in _newest(obj, await list_or_nothing(client, explainer.kind, namespace)):
            with suppress(ExplainerError):
                yield one, await explainer(client, one, (), now)


def _newest(owner: Resource, found: Iterable[R]) -> list[R]:
    """Return the newest of the objects that another one owns: each costs requests, and old ones matter less."""
    owned = [one for one in found if any(ref.uid == owner.metadata.uid for ref in one.metadata.owner_references)]
    return sorted(owned, key=lambda one: str(one.metadata.creation_timestamp), reverse=True)[:_MOST]
