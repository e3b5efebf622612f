"""The subresource serviceaccounts/token: issues a token for a TokenRequest, which is not stored.

Source: kubernetes/pkg/registry/core/serviceaccount/storage/token.go;
kubernetes/pkg/apis/authentication/validation/validation.go.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from kcr_devcluster.apiserver.authentication import AUDIENCE, BoundObject, ServiceAccountTokens, TokenSubject, User
from kcr_devcluster.apiserver.http.routes import Route
from kcr_devcluster.apiserver.http.sent_objects import decode_sent
from kcr_devcluster.apiserver.http.writing import Write
from kcr_devcluster.apiserver.kinds.catalogue import NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from kcr_devcluster.apiserver.protocol.field_errors import FieldError
from kcr_devcluster.apiserver.protocol.field_errors import invalid as invalid_field
from kcr_devcluster.apiserver.protocol.manifests import Manifest, timestamp
from kcr_devcluster.apiserver.protocol.responses import (
    APIResponse,
    bad_request,
    conflict,
    encoded,
    invalid,
    json_response,
    warning_headers,
)
from kcr_devcluster.apiserver.registry.metadata import new_uid
from kcr_devcluster.apiserver.registry.registry import Registry
from kcr_devcluster.apiserver.registry.service_accounts import TOKEN_SECONDS
from kcr_devcluster.apiserver.storage.admission import CREATE

_SHORTEST_SECONDS, _LONGEST_SECONDS, _SECONDS = 600, 1 << 32, 3600
# How long the token of a pod is valid that was requested for `TOKEN_SECONDS`.
_EXTENSION = timedelta(days=365)
_BOUND_KINDS = {"Pod": PODS, "Secret": SECRETS, "Node": NODES}


def respond(registry: Registry, tokens: ServiceAccountTokens, write: Write) -> APIResponse:
    """Handle a POST on serviceaccounts/token.

    Raises:
        StatusError: 400, 404, 409 or 422, there is no such account, or the request is invalid.
    """
    route = write.route
    dry_run = write.query.dry_run("CreateOptions")
    account = registry.find(route.kind, route.namespace, route.name).metadata
    sent = decode_sent(write, "authentication.v1.TokenRequest", "authentication.k8s.io/v1")
    sent = sent.reviewed(write.attributes(CREATE, dry_run=dry_run))
    _check_account(route, sent.metadata)
    spec = sent.manifest.get("spec") or {}
    given = spec.get("expirationSeconds")
    seconds = _SECONDS if given is None else given
    if errors := _duration_faults(seconds):
        raise invalid("TokenRequest", "authentication.k8s.io", "", errors)
    bound = _bound_objects(registry, write, spec.get("boundObjectRef"))
    audiences, now = tuple(spec.get("audiences") or (AUDIENCE,)), registry.clock.now()
    expires = now + timedelta(seconds=seconds)
    subject = TokenSubject(account, audiences, bound, new_uid(registry.random))
    made = {"name": account.name, "namespace": account.namespace, "creationTimestamp": timestamp(now)}
    shown: Manifest = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": made,
        "spec": {"boundObjectRef": None, **spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {
            "token": tokens.issue(subject, now, *_end(subject, expires, seconds)),
            "expirationTimestamp": timestamp(expires),
        },
    }
    return json_response(encoded(shown), 201, warning_headers(sent.warnings))


def _check_account(route: Route, metadata: Manifest) -> None:
    name = metadata.get("name") or route.name
    if name != route.name:
        error = invalid_field("metadata.name", name, "must match the service account name if specified")
        raise invalid("TokenRequest", "authentication.k8s.io", route.name, [error])


def _end(subject: TokenSubject, expires: datetime, seconds: int) -> tuple[datetime, datetime | None]:
    """Return when a token expires, and from when on its use is suspicious.

    The token that a pod gets by itself is valid for a year, whatever its request says: programs that read it once
    keep working.
    """
    is_pods = bool(subject.bound) and subject.bound[0].kind == "Pod"
    if seconds != TOKEN_SECONDS or not is_pods or subject.audiences != (AUDIENCE,):
        return expires, None
    return expires + _EXTENSION - timedelta(seconds=seconds), expires


def authenticate(
    registry: Registry, tokens: ServiceAccountTokens, token: str, audiences: Sequence[str] = (AUDIENCE,)
) -> tuple[User, tuple[str, ...]]:
    """Return the service account of a token, and those of the audiences that the token is for.

    Raises:
        InvalidTokenError: It is not valid.
    """

    def uid_of(kind: str, namespace: str, name: str) -> str:
        of = _BOUND_KINDS.get(kind, SERVICE_ACCOUNTS)
        found = registry.storage.get(of, namespace if of.type.namespaced else "", name)
        return found.metadata.uid if found is not None else ""

    return tokens.authenticate(token, registry.clock.now(), uid_of, audiences)


def _duration_faults(seconds: int) -> list[FieldError]:
    field = "spec.expirationSeconds"
    if seconds < _SHORTEST_SECONDS:
        return [invalid_field(field, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _LONGEST_SECONDS:
        return [invalid_field(field, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _bound_objects(registry: Registry, write: Write, said: dict[str, Any] | None) -> tuple[BoundObject, ...]:
    """Return the object that the token is to be bound to, as it is now, and behind a pod its node."""
    if said is None:
        return ()
    kind, name, uid = _BOUND_KINDS.get(said.get("kind", "")), said.get("name", ""), said.get("uid", "")
    group, _, version = said.get("apiVersion", "").rpartition("/")
    if kind is None or group != kind.type.group:
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={said.get('kind', '')}")
    namespace = write.route.namespace if kind.type.namespaced else ""
    record = registry.find(kind, namespace, name)
    if kind is PODS and (record.field("spec.serviceAccountName") or "default") != write.route.name:
        why = "to pod running with different serviceaccount name."
        raise bad_request(f'cannot bind token for serviceaccount "{write.route.name}" {why}')
    found = record.metadata
    if uid and uid != found.uid:
        why = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        # Upstream names the kind where the resource would stand.
        raise conflict(kind.type._replace(plural=kind.type.kind), name, why)
    bound = BoundObject(kind.type.kind, name, found.uid)
    node = record.field("spec.nodeName") if kind is PODS else ""
    if not node:
        return (bound,)
    stored = registry.storage.get(NODES, "", node)
    return bound, BoundObject("Node", node, stored.metadata.uid if stored is not None else "")
