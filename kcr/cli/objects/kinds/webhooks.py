"""Explains whether admission webhooks and policies refuse requests: by their services and bindings."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from kcr.api.core import Event, Service
from kcr.api.explanation import Code, Explanation, counted
from kcr.api.meta import Key
from kcr.api.unstructured import Unstructured, unstructured
from kcr.client import Client
from kcr.client.explainers import list_or_nothing
from kcr.errors import ApiError, NotFoundError
from kcr.serving.webhooks.conversion import CERT_MANAGER, INJECT_CA

GROUP = "admissionregistration.k8s.io"
_CONNECT_SECONDS = 2.0
_UNTRUSTED = "it has no caBundle, so the API server does not trust its certificate"
_CONFIGURATIONS = tuple(
    unstructured(f"{GROUP}/v1", f"{name}WebhookConfiguration", plural=f"{name.lower()}webhookconfigurations",
                 namespaced=False)
    for name in ("Validating", "Mutating")
)  # fmt: skip
_SLICES = unstructured("discovery.k8s.io/v1", "EndpointSlice", plural="endpointslices")
_BINDINGS = unstructured(
    f"{GROUP}/v1", "ValidatingAdmissionPolicyBinding", plural="validatingadmissionpolicybindings", namespaced=False
)


class ServiceState(NamedTuple):
    """The service of a webhook.

    Attributes:
        exists: Whether it exists.
        ready: How many ready endpoints it has; None when they may not be read.
        fault: Why nothing answers at its address, if it was tried; empty when something does.
    """

    exists: bool
    ready: int | None = None
    fault: str = ""


def webhooks_of(config: Unstructured) -> tuple[dict[str, Any], ...]:
    """Return the webhooks of a configuration."""
    found = config.get("webhooks")
    return tuple(one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def service_of(webhook: Mapping[str, Any]) -> Key | None:
    """Return the service that answers a webhook; None for a URL."""
    service = (webhook.get("clientConfig") or {}).get("service")
    return Key(service.get("namespace") or "", service.get("name") or "") if isinstance(service, dict) else None


def url_of(webhook: Mapping[str, Any]) -> str:
    """Return the URL of a webhook that is no service's; empty for none."""
    return str((webhook.get("clientConfig") or {}).get("url") or "")


def explain_webhooks(config: Unstructured, services: Mapping[Key | str, ServiceState]) -> Explanation:
    """Return whether the webhooks of a configuration can answer.

    Args:
        config: The ValidatingWebhookConfiguration or MutatingWebhookConfiguration.
        services: The services that its webhooks name, and the URLs that were tried.
    """
    hooks = webhooks_of(config)
    broken = [(hook, why) for hook in hooks if (why := trouble_of_webhook(hook, services))]
    refusing = [(hook, why) for hook, why in broken if hook.get("failurePolicy", "Fail") == "Fail"]
    facts = [f"webhook {hook.get('name')} ({hook.get('failurePolicy', 'Fail')}): {why}" for hook, why in broken]
    facts += [f"webhook {hook.get('name')} reviews {_rules(hook)}" for hook in hooks]
    wanted = f"{counted(len(hooks), 'webhook')}: {', '.join(str(hook.get('name')) for hook in hooks)}"
    if not broken:
        return Explanation(
            Code.HEALTHY,
            f"calls {counted(len(hooks), 'webhook')}: no trouble at any address",
            reasons=tuple(facts),
            wanted=wanted,
        )
    hook, why = (refusing or broken)[0]
    what = "refuses all requests that it reviews" if refusing else "is passed over (failurePolicy Ignore)"
    remedies = [f"mend it: {_mend(config, hook, why)}"]
    if refusing:
        edit = f"kubectl edit {config.resource.kind.lower()} {config.metadata.name}"
        remedies.append(f"until then, to let requests pass unchecked, set failurePolicy to Ignore: {edit}")
    return Explanation(
        Code.REFUSED if refusing else Code.NOT_READY,
        f"{what}: {why}",
        reasons=tuple(facts),
        remedies=tuple(remedies),
        wanted=wanted,
    )


def trouble_of_webhook(hook: Mapping[str, Any], services: Mapping[Key | str, ServiceState]) -> str:
    """Return why a webhook cannot answer; empty when nothing says so."""
    key = service_of(hook)
    place = key if key is not None else url_of(hook)
    state = services.get(place)
    if state is not None and state.fault:
        return f"{'its URL' if key is None else 'its service'} {place} does not answer: {state.fault}"
    if state is not None and not state.exists:
        return f"its service {key} does not exist"
    if state is not None and state.ready == 0:
        return f"its service {key} has no ready endpoint"
    if not (hook.get("clientConfig") or {}).get("caBundle") and key is not None:
        return _UNTRUSTED
    return ""


def _mend(config: Unstructured, hook: Mapping[str, Any], why: str) -> str:
    key, given = service_of(hook), config.metadata.annotations
    if why == _UNTRUSTED and (secret := given.get(INJECT_CA)):
        return f"its controller writes the caBundle, of Secret {secret}: run it with --webhook-service-name"
    if why == _UNTRUSTED and (certificate := given.get(CERT_MANAGER)):
        namespace, _, name = certificate.partition("/")
        return f"cert-manager writes the caBundle: kubectl -n {namespace} describe certificate {name}"
    if " does not answer: " in why:
        return "start the program that serves it there, or correct the address"
    return "see its URL" if key is None else f"kubectl -n {key.namespace} get service,endpointslices,pods"


def _rules(hook: Mapping[str, Any]) -> str:
    rules = [one for one in hook.get("rules") or () if isinstance(one, dict)]
    texts = [
        f"{', '.join(map(str, one.get('operations') or ()))} of {', '.join(map(str, one.get('resources') or ()))}"
        for one in rules
    ]
    return "; ".join(texts) or "nothing: it has no rules"


def explain_policy(policy: Unstructured, bindings: Sequence[Unstructured]) -> Explanation:
    """Return whether a ValidatingAdmissionPolicy refuses requests."""
    actions = sorted({action for one in bindings for action in (one.get("spec") or {}).get("validationActions") or ()})
    names = ", ".join(one.metadata.name for one in bindings)
    checks = ((policy.get("status") or {}).get("typeChecking") or {}).get("expressionWarnings") or ()
    facts = [f"{one.get('fieldRef')}: {' '.join(str(one.get('warning')).split())}" for one in checks]
    facts += [f"{counted(len(bindings), 'binding')}: {names}"] if bindings else []
    if not bindings:
        remedy = "bind it with a ValidatingAdmissionPolicyBinding that names it in spec.policyName"
        return Explanation(Code.NOT_READY, "refuses nothing: no binding names it", (), tuple(facts), (remedy,))
    if checks:
        remedy = f"correct the expression: kubectl edit {policy.resource.display} {policy.metadata.name}"
        headline = "has an expression that does not fit the objects"
        return Explanation(Code.NOT_READY, headline, reasons=tuple(facts), remedies=(remedy,))
    does = "denies what does not pass" if "Deny" in actions else f"only reports ({', '.join(actions)})"
    return Explanation(Code.HEALTHY, does, reasons=tuple(facts))


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
            services: dict[Key | str, ServiceState] = {} if key is None else {key: await _service_state(client, key)}
            trouble = trouble_of_webhook(hook, services)
            fact = f"{name} is a webhook of {kind.resource.kind} {config.metadata.name}"
            command = f"kcr explain {kind.resource.kind.lower()}/{config.metadata.name}"
            return msgspec.structs.replace(
                explanation,
                reasons=(*explanation.reasons, f"{fact}: {trouble}" if trouble else fact),
                remedies=(*explanation.remedies, f"see the webhook: {command}"),
            )
    return explanation


async def read_webhooks(
    client: Client, obj: Unstructured, events: Sequence[Event], now: datetime, served: Mapping[Key, str] = {}
) -> Explanation:
    """Read whether the webhooks of a configuration can answer; see `kcr.cli.objects.kinds.read`.

    Args:
        client: Where to read.
        obj: The configuration.
        events: Those about it.
        now: The moment to judge at.
        served: The URLs of services that the API server resolves without their objects, as `kcr dev` does with
            `--webhook-services`.
    """
    found: dict[Key | str, ServiceState] = {}
    for hook in webhooks_of(obj):
        key, url = service_of(hook), url_of(hook)
        if key is not None:
            found[key] = await _service_at(served[key]) if key in served else await _service_state(client, key)
        elif _is_here(url) and _is_here(getattr(client.innermost_transport, "server", "")):
            # Both on this machine: it is reached from here as from the API server.
            found[url] = await _service_at(url)
    return explain_webhooks(obj, found)


def _is_here(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")


async def _service_at(url: str) -> ServiceState:
    """Return whether something listens at a URL."""
    place = urlsplit(url)
    name, fault = f"{place.hostname}:{place.port or 443}", ""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(place.hostname, place.port or 443)
        writer.close()
    except TimeoutError:
        fault = f"{name}: no connection within {_CONNECT_SECONDS:g} s"
    except OSError as error:
        fault = f"{name}: {os.strerror(error.errno).lower() if error.errno else error}"
    return ServiceState(exists=True, fault=fault)


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
