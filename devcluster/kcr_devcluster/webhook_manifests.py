"""Webhooks as manifests: configurations of the registered rules, the Service, the `conversion` of a definition."""

from collections.abc import Mapping, Sequence
from typing import Any

from kcr.serving.webhooks.conversion import PATH, WebhookService
from kcr.serving.webhooks.registration import WebhookOptions, WebhookRule
from kcr.serving.webhooks.server import PORT

_API_VERSION = "admissionregistration.k8s.io/v1"
_KINDS = {True: "MutatingWebhookConfiguration", False: "ValidatingWebhookConfiguration"}


def webhook_configurations(
    rules: Sequence[WebhookRule], service: WebhookService, *, url: str = ""
) -> list[dict[str, Any]]:
    """Return the webhook configurations of rules: one that mutates and one that validates, or the one that is needed.

    Args:
        rules: The registered rules, such as `manager.webhooks.rules`.
        service: The Service of the webhooks; its name is that of the configurations.
        url: Where the webhooks are served instead, such as `https://127.0.0.1:9443`; empty for the Service.
    """
    made = []
    for is_mutating, kind in _KINDS.items():
        webhooks = [_webhook(rule, service, url) for rule in rules if rule.is_mutating is is_mutating]
        metadata: dict[str, Any] = {"name": service.name} | ({} if url else {"annotations": service.annotations()})
        if webhooks:
            made.append({"apiVersion": _API_VERSION, "kind": kind, "metadata": metadata, "webhooks": webhooks})
    return made


def _webhook(rule: WebhookRule, service: WebhookService, url: str) -> dict[str, Any]:
    resource, options = rule.resource, rule.options
    plural = f"{resource.plural}/{options.subresource}" if options.subresource else resource.plural
    made: dict[str, Any] = {
        "name": rule.name,
        "clientConfig": {"url": url + rule.path} if url else service.client_config(rule.path),
        "rules": [
            {
                "apiGroups": [resource.group], "apiVersions": [resource.version], "resources": [plural],
                "operations": list(rule.operations), "scope": "Namespaced" if resource.namespaced else "Cluster",
            }
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": options.side_effects,
        "failurePolicy": options.failure_policy,
        "matchPolicy": options.match_policy,
        "timeoutSeconds": options.timeout_seconds,
    }  # fmt: skip
    return made | _optional(rule, options)


def _optional(rule: WebhookRule, options: WebhookOptions) -> dict[str, Any]:
    """Return the fields that are written only where they say something."""
    found: dict[str, Any] = {
        "reinvocationPolicy": options.reinvocation_policy if rule.is_mutating else "",
        "namespaceSelector": dict(options.namespace_selector),
        "objectSelector": dict(options.object_selector),
        "matchConditions": [
            {"name": name, "expression": expression} for name, expression in options.match_conditions.items()
        ],
    }
    return {name: value for name, value in found.items() if value}


def webhook_service(service: WebhookService, selector: Mapping[str, str], *, port: int = PORT) -> dict[str, Any]:
    """Return the Service of the webhooks, on port 443, the default of configurations.

    Args:
        service: Its name and namespace.
        selector: The labels of the controller's pods.
        port: Where the pods serve webhooks.
    """
    return {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": service.name, "namespace": service.namespace},
        "spec": {
            "selector": dict(selector),
            "ports": [{"name": "webhooks", "port": 443, "targetPort": port, "protocol": "TCP"}],
        },
    }  # fmt: skip


def with_conversion(manifest: Mapping[str, Any], service: WebhookService) -> dict[str, Any]:
    """Return a CustomResourceDefinition whose objects are converted by the webhook of a Service."""
    webhook = {"clientConfig": service.client_config(PATH), "conversionReviewVersions": ["v1"]}
    metadata = {**manifest["metadata"], "annotations": service.annotations()}
    head, spec = {name: manifest[name] for name in ("apiVersion", "kind")}, dict(manifest["spec"])
    versions = spec.pop("versions")
    spec |= {"conversion": {"strategy": "Webhook", "webhook": webhook}, "versions": versions}
    return {**head, "metadata": metadata, "spec": spec}
