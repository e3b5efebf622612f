"""Explains a namespace, and the cause when it is stuck in Terminating."""

import re
import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from kcr.api.core import Namespace
from kcr.api.durations import human_duration
from kcr.api.explanation import Code, Explanation, Step, ago, counted, unfinalize
from kcr.api.meta import ObjectMeta
from kcr.api.resources import ResourceType

# The condition of a namespace that says which resources are left: `configmaps. has 1 resource instances`.
_REMAINING, _RESOURCES = "NamespaceContentRemaining", re.compile(r"([a-z0-9.-]+?)\.? has \d+ resource instances")
# A group of the API whose server does not answer: `metrics.k8s.io/v1beta1: the server is currently unable…`.
_GROUP = re.compile(r"\b([a-z0-9-]+(?:\.[a-z0-9-]+)+)/(v[a-z0-9]+): ")
_NAMED = 3


class Held(NamedTuple):
    """An object that is left in a namespace.

    Attributes:
        kind: Its kind.
        metadata: Its metadata.
    """

    kind: ResourceType
    metadata: ObjectMeta


def remaining_resources(namespace: Namespace) -> tuple[str, ...]:
    """Return the resources that the conditions of a namespace name as left, as `configmaps` or `websites.example.dev`.

    Source: kubernetes/pkg/controller/namespace/deletion/status_condition_utils.go, whose messages join resource and
    group by a dot, also when the group is empty.
    """
    found = next((one for one in namespace.status.conditions if one.type == _REMAINING and one.status == "True"), None)
    return tuple(dict.fromkeys(_RESOURCES.findall(found.message))) if found is not None else ()


def explain_namespace(namespace: Namespace, held: Sequence[Held], now: datetime) -> Explanation:
    """Return why a namespace is where it is.

    Args:
        namespace: The namespace.
        held: Objects that are left in it, those with finalizers first.
        now: The moment to judge at.
    """
    metadata, moment = namespace.metadata, namespace.metadata.deletion_timestamp
    if moment is None:
        age = human_duration(max(now - (metadata.creation_timestamp or now), timedelta()))
        phase = namespace.status.phase or "without a phase"
        return Explanation(Code.HEALTHY, f"has been {phase} for {age}, and nothing suggests trouble")
    # Of these conditions True is trouble, whatever their names.
    bad = [one for one in namespace.status.conditions if one.status == "True"]
    since = human_duration(max(now - moment, timedelta()))
    finalizers = tuple(dict.fromkeys(name for one in held for name in one.metadata.finalizers))
    headline = f"has been terminating for {since}"
    if finalizers:
        noun = "finalizer" if len(finalizers) == 1 else "finalizers"
        headline += f", and waits for the {noun} {', '.join(finalizers[:_NAMED])} of {counted(len(held), 'object')}"
    elif bad:
        headline += f", and is stuck: {bad[0].reason}"
    facts = [_held_text(one) for one in held[:_NAMED]]
    facts += [f"{one.type}, {ago(one.last_transition_time, now)}: {' '.join(one.message.split())}" for one in bad]
    return Explanation(
        Code.TERMINATING,
        headline,
        steps=(Step("it is gone when all objects in it are"),),
        reasons=tuple(facts),
        remedies=tuple(_remedies(namespace, held, [one.message for one in bad])),
        present=f"phase {namespace.status.phase}",
    )


def _held_text(one: Held) -> str:
    text = f"{one.kind.kind.lower()} {one.metadata.name} is left"
    return f"{text}, held by {', '.join(one.metadata.finalizers)}" if one.metadata.finalizers else text


def _remedies(namespace: Namespace, held: Sequence[Held], messages: Iterable[str]) -> Iterable[str]:
    name = namespace.metadata.name
    for group, version in dict.fromkeys(_GROUP.findall(" ".join(messages))):
        service = f"{version}.{group}"
        yield (
            f"the server of {group}/{version} does not answer: mend it, or, if it is gone for good: "
            f"kubectl delete apiservice {service}"
        )
    first = next((one for one in held if one.metadata.finalizers), None)
    if first is not None:
        owner = first.metadata.finalizers[0].partition("/")[0]
        yield f"see whether the controller of {owner} runs, and what its log says"
        yield f"see the object: kcr explain -n {name} {_quoted(first)}"
        yield f"or give up what the finalizer guards: {unfinalize(first.kind, first.metadata)}"
    elif held:
        yield f"see what holds it: kcr explain -n {name} {_quoted(held[0])}"
    else:
        yield (
            "see what is left in it: kubectl api-resources --verbs=list --namespaced -o name | "
            f"xargs -n 1 kubectl -n {shlex.quote(name)} get --show-kind --ignore-not-found"
        )


def _quoted(one: Held) -> str:
    return shlex.quote(f"{one.kind.display}/{one.metadata.name}")
