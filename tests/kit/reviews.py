"""AdmissionReviews as the API server sends them, and the answers."""

import json
from collections.abc import Mapping
from typing import Any

import kcr
from kcr.metrics import Metrics
from kcr.serving.webhooks import WebhookOptions, Webhooks
from kcr.serving.webhooks.webhooks import timeout_in

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


class WebsiteSpec(kcr.Object):
    image: str
    replicas: int = 1
    aliases: tuple[str, ...] = ()


class WebsiteStatus(kcr.Object):
    ready: int | None = None


class Website(kcr.Resource, api_version="example.dev/v1", plural="websites"):
    spec: WebsiteSpec
    status: WebsiteStatus = WebsiteStatus()


VALIDATE, MUTATE = "/validate-example-dev-v1-website", "/mutate-example-dev-v1-website"


def website(**spec: Any) -> dict[str, Any]:
    """Return a manifest, with fields that the type does not know."""
    return {
        "apiVersion": "example.dev/v1", "kind": "Website",
        "metadata": {"name": "home", "namespace": "default", "managedFields": [{"manager": "kubectl"}]},
        "spec": {"image": "nginx:1", "theme": {"color": "blue"}, **spec},
    }  # fmt: skip


def review(
    obj: Mapping[str, Any] | None, old: Mapping[str, Any] | None = None, operation: str = "CREATE", **request: Any
) -> dict[str, Any]:
    """Return an AdmissionReview of admission.k8s.io/v1, with all fields of its documentation.

    Source: kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers, "Request".
    """
    shown: Any = obj or old or website()
    group, _, version = shown["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": shown["kind"]}
    resource = {"group": group, "version": version, "resource": f"{shown['kind'].lower()}s"}
    return {
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": UID, "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "name": "home", "namespace": "default", "operation": operation,
            "userInfo": {
                "username": "alice", "uid": "014fbff9a07c", "groups": ["system:authenticated", "admins"],
                "extra": {"some-key": ["value1", "value2"]},
            },
            "object": obj, "oldObject": old, "dryRun": False,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions", "fieldManager": "kubectl"},
            **request,
        },
    }  # fmt: skip


def serve(webhook: object, kind: type[kcr.Resource] = Website, **options: Any) -> Webhooks:
    """Return the webhooks of one kind."""
    webhooks = Webhooks(Metrics())
    webhooks.add(kind, webhook, WebhookOptions(**options))
    return webhooks


async def post(
    webhooks: Webhooks, path: str, body: object, *, query: str = "timeout=10s", content_type: str = "application/json"
) -> tuple[int, dict[str, Any]]:
    """Return the status and the decoded body of the answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, answer = await webhooks.handle(path, timeout_in(query), data, content_type)
    return status, json.loads(answer)


async def answered(webhooks: Webhooks, path: str, body: object) -> dict[str, Any]:
    """Return the response in the review that answers one."""
    status, answer = await post(webhooks, path, body)
    assert status == 200, answer
    response: dict[str, Any] = answer["response"]
    assert response["uid"] == UID
    return response
