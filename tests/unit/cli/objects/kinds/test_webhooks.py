"""Whether webhooks and policies can answer, of values."""

from collections.abc import Mapping
from typing import Any

import pytest
import trustme

from kcr.api.explanation import Code, Explanation
from kcr.api.meta import Key
from kcr.api.unstructured import unstructured
from kcr.cli.objects.explain import lines_of
from kcr.cli.objects.kinds.webhooks import ServiceState, explain_policy, explain_webhooks, read_webhooks
from kcr.cli.objects.look import Shown
from kcr.cli.target import ObjectName
from kcr.client import Client
from tests.kit.builders import NOW
from tests.kit.explanations import screen, text
from tests.kit.http_servers import echo, free_port, serving
from tests.kit.scripted_transport import Script

API = "admissionregistration.k8s.io/v1"
CONFIG = unstructured(API, "ValidatingWebhookConfiguration", plural="validatingwebhookconfigurations", namespaced=False)
POLICY = unstructured(API, "ValidatingAdmissionPolicy", plural="validatingadmissionpolicies", namespaced=False)
BINDING = unstructured(
    API, "ValidatingAdmissionPolicyBinding", plural="validatingadmissionpolicybindings", namespaced=False
)
SERVICE = Key("system", "hooks")


def config(**changes: Any) -> Explanation:
    return explain_webhooks(_config(changes), {SERVICE: changes.pop("state", ServiceState(exists=True, ready=1))})


def _config(changes: dict[str, Any]) -> Any:
    client = {"service": {"namespace": "system", "name": "hooks"}, "caBundle": "eA=="}
    rules = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]
    hook = {"name": "pods.example.dev", "clientConfig": client, "rules": rules, "failurePolicy": "Fail"}
    hook |= {name: value for name, value in changes.items() if name != "state"}
    return CONFIG.of({"metadata": {"name": "hooks"}, "webhooks": [hook]})


def shown(kind: Any, explanation: Explanation) -> str:
    return screen(lines_of(ObjectName(kind, "hooks"), Key("", "hooks"), Shown(explanation, (), ()), NOW))


def test_webhook_without_a_ready_endpoint_refuses_everything() -> None:
    assert shown(CONFIG, config(state=ServiceState(exists=True, ready=0))) == text("""
        validatingwebhookconfiguration hooks: refuses all requests that it reviews: its service system/hooks
          has no ready endpoint
          wanted      1 webhook: pods.example.dev
          why         webhook pods.example.dev (Fail): its service system/hooks has no ready endpoint
                      webhook pods.example.dev reviews CREATE of pods
          remedy      mend it: kubectl -n system get service,endpointslices,pods
                      until then, to let requests pass unchecked, set failurePolicy to Ignore:
                        kubectl edit validatingwebhookconfiguration hooks
    """)


@pytest.mark.parametrize(
    ("changes", "headline"),
    [
        ({}, "calls 1 webhook: no trouble at any address"),
        ({"state": ServiceState(exists=True)}, "calls 1 webhook: no trouble at any address"),
        (
            {"state": ServiceState(exists=False)},
            "refuses all requests that it reviews: its service system/hooks does not exist",
        ),
        (
            {"failurePolicy": "Ignore", "state": ServiceState(exists=False)},
            "is passed over (failurePolicy Ignore): its service system/hooks does not exist",
        ),
        (
            {"clientConfig": {"service": {"namespace": "system", "name": "hooks"}}},
            "refuses all requests that it reviews: it has no caBundle, so the API server does not trust its "
            "certificate",
        ),
        ({"clientConfig": {"url": "https://hooks"}}, "calls 1 webhook: no trouble at any address"),
    ],
)
def test_headline_says_what_becomes_of_requests(changes: dict[str, Any], headline: str) -> None:
    assert config(**changes).headline == headline


@pytest.mark.parametrize(
    ("annotations", "remedy"),
    [
        pytest.param(
            {"kcr.dev/inject-ca-from": "web/site"},
            "its controller writes the caBundle, of Secret web/site: run it with --webhook-service-name", id="kcr",
        ),
        pytest.param(
            {"cert-manager.io/inject-ca-from": "web/site"},
            "cert-manager writes the caBundle: kubectl -n web describe certificate site", id="cert-manager",
        ),
        pytest.param({}, "kubectl -n system get service,endpointslices,pods", id="unknown"),
    ],
)  # fmt: skip
def test_missing_authority_leads_to_its_writer(annotations: dict[str, str], remedy: str) -> None:
    hook = {"name": "pods.example.dev", "clientConfig": {"service": {"namespace": "system", "name": "hooks"}}}
    found = CONFIG.of({"metadata": {"name": "hooks", "annotations": annotations}, "webhooks": [hook]})
    assert explain_webhooks(found, {}).remedies[0] == f"mend it: {remedy}"


def policy(*bindings: Any, **fields: Any) -> Explanation:
    return explain_policy(POLICY.of({"metadata": {"name": "labels"}, "spec": {}, **fields}), bindings)


def test_policy_that_no_binding_names_refuses_nothing() -> None:
    assert policy().headline == "refuses nothing: no binding names it"
    bound = BINDING.of({"metadata": {"name": "all"}, "spec": {"policyName": "labels", "validationActions": ["Deny"]}})
    assert policy(bound).headline == "denies what does not pass"
    warned = BINDING.of({"metadata": {"name": "w"}, "spec": {"policyName": "labels", "validationActions": ["Warn"]}})
    assert policy(warned).headline == "only reports (Warn)"


def test_expression_that_does_not_fit_is_named() -> None:
    warning = {"fieldRef": "spec.validations[0].expression", "warning": "undefined field 'replica'"}
    bound = BINDING.of({"metadata": {"name": "all"}, "spec": {"validationActions": ["Deny"]}})
    found = policy(bound, status={"typeChecking": {"expressionWarnings": [warning]}})
    assert found.headline == "has an expression that does not fit the objects"
    assert found.reasons[0] == "spec.validations[0].expression: undefined field 'replica'"


class Local(Script):
    """A server of this machine, which is never asked."""

    server = "https://127.0.0.1:6443"


async def found_at(client: Client, url: str, served: Mapping[Key, str] = {}) -> Explanation:
    config = _config({"clientConfig": {"url": url}} if not served else {})
    return await read_webhooks(client, config, (), NOW, served)


@pytest.mark.asyncio
async def test_webhook_that_refuses_connections_is_named_with_its_address() -> None:
    url = f"https://127.0.0.1:{free_port()}"
    refused = f"does not answer: {url.removeprefix('https://')}: connection refused"
    # As `kcr dev --webhook-services system/hooks=URL` resolves it, without a Service.
    service = await found_at(Client(Local()), url, {SERVICE: url})
    assert service.headline == f"refuses all requests that it reviews: its service system/hooks {refused}"
    assert service.remedies[0] == "mend it: start the program that serves it there, or correct the address"
    assert (await found_at(Client(Local()), url)).headline.endswith(f"its URL {url} {refused}")
    # From a server elsewhere, the address is another one's.
    assert (await found_at(Client(Script()), url)).code == Code.HEALTHY


@pytest.mark.asyncio
async def test_webhook_outside_the_cluster_that_listens_needs_no_service() -> None:
    async with serving(echo, trustme.CA()) as url:
        assert (await found_at(Client(Local()), url, {SERVICE: url})).code == Code.HEALTHY
        assert (await found_at(Client(Local()), url)).code == Code.HEALTHY
