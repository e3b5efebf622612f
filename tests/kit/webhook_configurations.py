"""Webhook configurations that ask for a `caBundle`, without webhooks behind them."""

from typing import Any

from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.serving.webhooks.conversion import WebhookService

SERVICE, KEY = WebhookService("team", "web"), Key("team", "web")
Mutating = unstructured(
    "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", plural="mutatingwebhookconfigurations",
    namespaced=False,
)  # fmt: skip


def configuration(name: str = "web", webhooks: int = 2, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name, "annotations": annotations or SERVICE.annotations()},
        "webhooks": [
            {
                "name": f"w{number}.example.dev", "clientConfig": SERVICE.client_config("/mutate"),
                "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "rules": [{
                    "apiGroups": ["example.dev"], "apiVersions": ["v1"], "resources": ["webs"], "operations": ["CREATE"]
                }],
            }
            for number in range(webhooks)
        ],
    }  # fmt: skip
