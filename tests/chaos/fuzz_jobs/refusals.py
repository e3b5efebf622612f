"""Policies that refuse what a Job controller does: a quota, Pod Security, and admission policies in CEL."""

from collections.abc import Awaitable, Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple

import msgspec

from kcr.api.core import Namespace
from kcr.api.meta import Key
from kcr.client import Client
from tests.kit.policies import GROUP, matched, validation

ENFORCE = "pod-security.kubernetes.io/enforce"
TRACKING = "batch.kubernetes.io/job-tracking"
_HELD = "has({0}.metadata.finalizers) && '" + TRACKING + "' in {0}.metadata.finalizers"


class Refusal(NamedTuple):
    """A policy.

    Attributes:
        begin: Puts it in force in a namespace.
        end: Takes it out of force.
        excuses: Words of the obligations that the controller cannot meet meanwhile; see `Obligations`.
    """

    begin: Callable[[Client, str, Random], Awaitable[None]]
    end: Callable[[Client, str], Awaitable[None]]
    excuses: tuple[str, ...]


async def _post(client: Client, path: str, body: dict[str, Any]) -> None:
    await client.request("POST", path, msgspec.json.encode(body))


async def _begin_quota(client: Client, namespace: str, dice: Random) -> None:
    body = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": str(dice.randint(0, 3))}}}
    await _post(client, f"/api/v1/namespaces/{namespace}/resourcequotas", body)


async def _end_quota(client: Client, namespace: str) -> None:
    await client.request("DELETE", f"/api/v1/namespaces/{namespace}/resourcequotas/few")


async def _enforce(client: Client, namespace: str, level: str | None) -> None:
    await client.merge_patch(Namespace, Key("", namespace), {"metadata": {"labels": {ENFORCE: level}}})


async def _begin_security(client: Client, namespace: str, dice: Random) -> None:
    await _enforce(client, namespace, "restricted")


async def _end_security(client: Client, namespace: str) -> None:
    await _enforce(client, namespace, None)


async def _begin_policy(
    client: Client, namespace: str, dice: Random, *, name: str, match: dict[str, Any], expression: str
) -> None:
    named = f"{namespace}-{name}"
    spec = {
        "matchConstraints": match,
        "validations": [validation(expression, reason="Forbidden")],
        "failurePolicy": "Fail",
    }
    await _post(client, f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": named}, "spec": spec})
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    bound = {"policyName": named, "validationActions": ["Deny"], "matchResources": here}
    await _post(client, f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": named}, "spec": bound})


async def _end_policy(client: Client, namespace: str, *, name: str) -> None:
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        await client.request("DELETE", f"{GROUP}/{plural}/{namespace}-{name}")


def _policy(name: str, match: dict[str, Any], expression: str, *excuses: str) -> Refusal:
    begin = partial(_begin_policy, name=name, match=match, expression=expression)
    return Refusal(begin, partial(_end_policy, name=name), excuses)


_MISSING = "pods are made"
REFUSALS: dict[str, Refusal] = {
    "quota": Refusal(_begin_quota, _end_quota, (_MISSING,)),
    "security": Refusal(_begin_security, _end_security, (_MISSING,)),
    # Pods of users have no owner.
    "creates": _policy(
        "creates", matched("pods", operations=["CREATE"]), "!has(object.metadata.ownerReferences)", _MISSING
    ),
    # What was deleted already may vanish.
    "deletes": _policy(
        "deletes", matched("pods", operations=["DELETE"]), "has(oldObject.metadata.deletionTimestamp)",
        _MISSING, "pods go", "pods are deleted", "nothing is left",
    ),
    "untracks": _policy(
        "untracks", matched("pods", operations=["UPDATE"]),
        f"!({_HELD.format('oldObject')}) || ({_HELD.format('object')})",
        _MISSING, "pods go", "pods are deleted", "nothing is left", "is let go", "is counted", "counts the pods",
    ),
    "status": _policy("status", matched("jobs/status", "batch", ["UPDATE"]), "false", ""),
}  # fmt: skip
