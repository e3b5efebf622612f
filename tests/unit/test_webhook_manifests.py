"""Webhook configurations and the Service, as manifests."""

from typing import Any

import kcr
from kcr.api.core import Node
from kcr.api.full import apps_v1
from kcr.serving.webhooks.conversion import WebhookService
from kcr_devcluster.webhook_manifests import webhook_configurations, webhook_service, with_conversion
from tests.kit.reviews import serve

SERVICE = WebhookService("prod", "website")


class Both:
    def default(self, obj: Any, request: kcr.WebhookRequest) -> None: ...

    def validate_update(self, old: Any, new: Any, request: kcr.WebhookRequest) -> None: ...


def test_configurations_have_all_options() -> None:
    webhooks = serve(
        Both(), failure_policy="Ignore", match_policy="Exact", side_effects="NoneOnDryRun", timeout_seconds=3,
        reinvocation_policy="IfNeeded", namespace_selector={"matchLabels": {"tier": "web"}},
        object_selector={"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]},
        match_conditions={"not-me": "request.userInfo.username != 'me'"}, name="website.example.dev",
    )  # fmt: skip
    mutating, validating = webhook_configurations(webhooks.rules, SERVICE)
    assert (mutating["kind"], validating["kind"]) == ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    assert mutating["metadata"] == {"name": "website", "annotations": {"kcr.dev/inject-ca-from": "prod/website"}}
    (one,) = mutating["webhooks"]
    assert one == {
        "name": "website.example.dev",
        "clientConfig": {
            "service": {"namespace": "prod", "name": "website", "path": "/mutate-example-dev-v1-website"}
        },
        "rules": [
            {
                "apiGroups": ["example.dev"], "apiVersions": ["v1"], "resources": ["websites"],
                "operations": ["CREATE", "UPDATE"], "scope": "Namespaced",
            }
        ],
        "admissionReviewVersions": ["v1"], "sideEffects": "NoneOnDryRun", "failurePolicy": "Ignore",
        "matchPolicy": "Exact", "timeoutSeconds": 3, "reinvocationPolicy": "IfNeeded",
        "namespaceSelector": {"matchLabels": {"tier": "web"}},
        "objectSelector": {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]},
        "matchConditions": [{"name": "not-me", "expression": "request.userInfo.username != 'me'"}],
    }  # fmt: skip
    (other,) = validating["webhooks"]
    assert other["rules"][0]["operations"] == ["UPDATE"]
    assert "reinvocationPolicy" not in other


def test_subresources_and_cluster_scoped_kinds_are_in_the_rules() -> None:
    (one,) = webhook_configurations(serve(Both(), apps_v1.Deployment, subresource="scale").rules, SERVICE)[1][
        "webhooks"
    ]
    assert one["rules"][0]["resources"] == ["deployments/scale"]
    (two,) = webhook_configurations(serve(Both(), Node).rules, SERVICE)[1]["webhooks"]
    assert (two["rules"][0]["apiGroups"], two["rules"][0]["scope"]) == ([""], "Cluster")


def test_url_stands_for_the_service() -> None:
    mutating, _ = webhook_configurations(serve(Both()).rules, SERVICE, url="https://127.0.0.1:9443")
    assert mutating["webhooks"][0]["clientConfig"] == {"url": "https://127.0.0.1:9443/mutate-example-dev-v1-website"}
    assert "annotations" not in mutating["metadata"]


def test_no_rules_make_no_configuration() -> None:
    assert webhook_configurations((), SERVICE) == []


def test_service_leads_to_the_port_of_the_pods() -> None:
    manifest = webhook_service(SERVICE, {"app": "website"}, port=9443)
    assert manifest["metadata"] == {"name": "website", "namespace": "prod"}
    assert manifest["spec"]["ports"] == [{"name": "webhooks", "port": 443, "targetPort": 9443, "protocol": "TCP"}]


def test_definition_names_the_service_and_who_writes_the_ca_bundle() -> None:
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    metadata, spec = {"name": "sites.example.dev"}, {"group": "example.dev", "versions": [{}]}
    manifest: dict[str, Any] = {**head, "metadata": metadata, "spec": spec}
    converted = with_conversion(manifest, WebhookService("web", "site", "site-tls"))
    assert converted["metadata"] == {**metadata, "annotations": {"kcr.dev/inject-ca-from": "web/site-tls"}}
    service = {"namespace": "web", "name": "site", "path": "/convert"}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    assert converted["spec"] == {**spec, "conversion": {"strategy": "Webhook", "webhook": webhook}}
    assert "conversion" not in spec
