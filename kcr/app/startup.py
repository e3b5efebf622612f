"""The first contact with an API server: whether it answers, and allows what is needed; if not, what to do."""

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from kcr.api import codec
from kcr.api.meta import Object
from kcr.client import Client
from kcr.errors import ApiError, ForbiddenError, KcrError, NotFoundError, TransportError, UnauthorizedError
from kcr.informer import Selection

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class _Review(Object):
    """An answer, of which the status alone counts."""

    status: Mapping[str, bool | str]


async def check_access(client: Client, selections: Iterable[Selection[Any]]) -> None:
    """Check that all selections can be listed and watched: a missing permission shows at once, not later.

    A kind that the server does not have is no failure: its controllers begin once it is installed. What the controllers
    write is known to them alone: the client logs the first refusal of each right.

    Raises:
        ApiError: The server refuses.
    """
    served: list[Selection[Any]] = []
    for selection in selections:
        # Not decoded: one object that does not fit its type is no obstacle.
        with suppress(NotFoundError):
            await client.request("GET", selection.target({"limit": 1}))
            served.append(selection)
    async with asyncio.TaskGroup() as group:
        checks = [group.create_task(_may_watch(client, selection)) for selection in served]
    for selection, check in zip(served, checks, strict=True):
        if not check.result():
            resource, namespace = selection.kind.resource, selection.namespace
            where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
            words = f'cannot watch resource "{resource.plural}" in API group "{resource.group}" {where}'
            raise ForbiddenError(403, "Forbidden", f"{resource.display} is forbidden: {words}")


async def _may_watch(client: Client, selection: Selection[Any]) -> bool:
    """Return whether the server allows watching a kind; True also when it does not say.

    In that case the watches themselves fail, and name the cause.

    Source: kubernetes/staging/src/k8s.io/kubectl/pkg/cmd/auth/cani.go.
    """
    resource, namespace = selection.kind.resource, selection.namespace
    attributes = {"verb": "watch", "group": resource.group, "resource": resource.plural}
    spec = {"resourceAttributes": attributes | ({"namespace": namespace} if namespace else {})}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    try:
        answer = codec.decode(_Review, await client.request("POST", REVIEWS, codec.encode(review)))
    except (KcrError, msgspec.DecodeError):
        return True
    return bool(answer.status.get("allowed"))


def explain_failure(error: KcrError, server: str, source: str) -> str:
    """Return cause and remedy of a failed first contact, in one line.

    Args:
        error: What the first requests came to.
        server: The address of the server.
        source: Where address and credentials come from, such as the kubeconfig's path.
    """
    match error:
        case TransportError():
            # It begins with the request, which says the address once more.
            why = str(error).removeprefix(f"GET {server}/version: ")
            return f"cannot reach the API server {server}: {why}: {_connection_hint(error.__cause__, source)}"
        case UnauthorizedError():
            return f"the API server {server} does not know us: renew the credentials in {source}"
        case ForbiddenError():
            hint = "grant it with a role, such as the ClusterRole in kcr's README, or use another identity"
            return f"the API server {server} refuses: {error.message}: {hint}"
        case ApiError(code=404):
            return f"{server} is no API server, it answers 404: see what {source} is about"
        case ApiError():
            return f"the API server {server} answers {error.code}: {error.message}: see its own log"
        case _:
            return str(error)


def _connection_hint(cause: BaseException | None, source: str) -> str:
    match cause:
        case ssl.SSLCertVerificationError():
            return f"see that the certificate authority in {source} is this server's"
        case ssl.SSLError():
            return f"see that the server of {source} speaks TLS at this port"
        case _:
            return f"see that it runs, and that {source} is about it"
