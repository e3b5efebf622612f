"""The subresource serviceaccounts/token: issues a token for a TokenRequest, which is not stored.

Source: kubernetes/pkg/registry/core/serviceaccount/storage/token.go;
kubernetes/pkg/apis/authentication/validation/validation.go.
"""

from datetime import timedelta
from typing import Any

from kcr.apiserver.authentication import AUDIENCE, BoundObject, ServiceAccountTokens, User
from kcr.apiserver.endpoints import request_body
from kcr.apiserver.endpoints.writing import Write
from kcr.apiserver.kinds.catalogue import NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from kcr.apiserver.kinds.field_errors import FieldError
from kcr.apiserver.kinds.field_errors import invalid as invalid_field
from kcr.apiserver.kinds.strategy import Manifest
from kcr.apiserver.registry.metadata import timestamp
from kcr.apiserver.registry.registry import Registry
from kcr.apiserver.responses import APIResponse, bad_request, conflict, encoded, invalid, json_response
from kcr.apiserver.schema.builtin import type_shape

_SHORTEST_SECONDS, _LONGEST_SECONDS, _SECONDS = 600, 1 << 32, 3600
_BOUND_KINDS = {"Pod": PODS, "Secret": SECRETS, "Node": NODES}


def respond(registry: Registry, tokens: ServiceAccountTokens, write: Write) -> APIResponse:
    """Handle a POST on serviceaccounts/token.

    Raises:
        StatusError: 400, 404, 409 or 422, there is no such account, or the request is invalid.
    """
    route = write.route
    write.query.dry_run("CreateOptions")
    account = registry.find(route.kind, route.namespace, route.name).metadata
    body = request_body.decode_as(type_shape("authentication.v1.TokenRequest"), write.body, write.content_type)
    name = (body.get("metadata") or {}).get("name") or route.name
    if name != route.name:
        raise bad_request(f"must match service account name {route.name}")
    spec = body.get("spec") or {}
    given = spec.get("expirationSeconds")
    seconds = _SECONDS if given is None else given
    if errors := _duration_faults(seconds):
        raise invalid("TokenRequest", "authentication.k8s.io", "", errors)
    bound = _bound_object(registry, write, spec.get("boundObjectRef"))
    audiences, now = tuple(spec.get("audiences") or (AUDIENCE,)), registry.clock.now()
    expires = now + timedelta(seconds=seconds)
    made = {"name": account.name, "namespace": account.namespace, "creationTimestamp": timestamp(now)}
    shown: Manifest = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": made,
        "spec": {"boundObjectRef": None, **spec, "audiences": audiences, "expirationSeconds": seconds},
        "status": {
            "token": tokens.issue(account, audiences, bound, now, expires),
            "expirationTimestamp": timestamp(expires),
        },
    }
    return json_response(encoded(shown), 201)


def authenticate(registry: Registry, tokens: ServiceAccountTokens, token: str) -> User | None:
    """Return the service account of a token, None for an invalid one."""

    def uid_of(kind: str, namespace: str, name: str) -> str:
        of = _BOUND_KINDS.get(kind, SERVICE_ACCOUNTS)
        found = registry.storage.get(of, namespace if of.type.namespaced else "", name)
        return found.metadata.uid if found is not None else ""

    return tokens.authenticate(token, registry.clock.now(), uid_of)


def _duration_faults(seconds: int) -> list[FieldError]:
    field = "spec.expirationSeconds"
    if seconds < _SHORTEST_SECONDS:
        return [invalid_field(field, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _LONGEST_SECONDS:
        return [invalid_field(field, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _bound_object(registry: Registry, write: Write, said: dict[str, Any] | None) -> BoundObject | None:
    """Return the object that the token is to be bound to, as it is now."""
    if not said:
        return None
    kind, name, uid = _BOUND_KINDS.get(said.get("kind", "")), said.get("name", ""), said.get("uid", "")
    if kind is None or said.get("apiVersion", "v1") != kind.type.api_version:
        raise bad_request(
            f"cannot bind token to object of type {said.get('apiVersion', '')}, Kind={said.get('kind', '')}"
        )
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
        raise conflict(kind.type, name, why)
    return BoundObject(kind.type.kind, name, found.uid)
