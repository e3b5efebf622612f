"""Reads what refuses requests: webhooks with their services, and policies with their bindings."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from kcr.api.core import Event, Service
from kcr.api.explanation import Explanation
from kcr.api.meta import Key
from kcr.api.unstructured import Unstructured, unstructured
from kcr.cli.objects.kinds.lists import list_or_nothing
from kcr.cli.objects.kinds.webhooks import (
    ServiceState,
    explain_policy,
    explain_webhooks,
    service_of,
    trouble_of_webhook,
    webhooks_of,
)
from kcr.client import Client
from kcr.errors import ApiError, NotFoundError

GROUP = "admissionregistration.k8s.io"
_CONFIGURATIONS = tuple(
    unstructured(f"{GROUP}/v1", f"{name}WebhookConfiguration", plural=f"{name.lower()}webhookconfigurations",
                 namespaced=False)
    for name in ("Validating", "Mutating")
)  # fmt: skip
_SLICES = unstructured("discovery.k8s.io/v1", "EndpointSlice", plural="endpointslices")
_BINDINGS = unstructured(
    f"{GROUP}/v1", "ValidatingAdmissionPolicyBinding", plural="validatingadmissionpolicybindings", namespaced=False
)


async def name_refuser(client: Client, explanation: Explanation) -> Explanation:
    """Return the explanation of an object whose creation a webhook refuses, with the configuration of the webhook.

    Args:
        client: Where to read.
        explanation: Any explanation; others are returned as they are.
    """
    name = explanation.webhook
    if not name:
        return explanation
    for kind in _CONFIGURATIONS:
        for config in await list_or_nothing(client, kind, ""):
            hook = next((one for one in webhooks_of(config) if one.get("name") == name), None)
            if hook is None:
                continue
            key = service_of(hook)
            services = {} if key is None else {key: await _service_state(client, key)}
            trouble = trouble_of_webhook(hook, services)
            fact = f"{name} is a webhook of {kind.resource.kind} {config.metadata.name}"
            command = f"kcr explain {kind.resource.kind.lower()}/{config.metadata.name}"
            return msgspec.structs.replace(
                explanation,
                reasons=(*explanation.reasons, f"{fact}: {trouble}" if trouble else fact),
                remedies=(*explanation.remedies, f"see the webhook: {command}"),
            )
    return explanation


async def read_webhooks(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> Explanation:
    """Read whether the webhooks of a configuration can answer; see `kcr.cli.objects.kinds.read`."""
    keys = {key for hook in webhooks_of(obj) if (key := service_of(hook)) is not None}
    return explain_webhooks(obj, {key: await _service_state(client, key) for key in sorted(keys)})


async def _service_state(client: Client, key: Key) -> ServiceState:
    try:
        await client.get(Service, key)
        found = await client.list(_SLICES, key.namespace, labels=f"kubernetes.io/service-name={key.name}")
    except NotFoundError:
        return ServiceState(exists=False)
    except ApiError:
        return ServiceState(exists=True)
    endpoints = [endpoint for one in found for endpoint in one.get("endpoints") or ()]
    # Source: discovery/v1/types.go, EndpointConditions: nil means true.
    ready = sum((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints)
    return ServiceState(exists=True, ready=ready)


async def read_policy(client: Client, obj: Unstructured, events: Sequence[Event], now: datetime) -> Explanation:
    """Read whether a policy refuses requests; see `kcr.cli.objects.kinds.read`."""
    found = await list_or_nothing(client, _BINDINGS, "")
    return explain_policy(obj, [one for one in found if (one.get("spec") or {}).get("policyName") == obj.metadata.name])
