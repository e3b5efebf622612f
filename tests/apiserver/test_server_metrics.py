"""`/metrics` of the API server. Source: k8s.io/apiserver/pkg/endpoints/metrics; pkg/storage/etcd3/metrics."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.kit.api import Api, config_map, pod
from tests.kit.custom_resources import DEFINITIONS, WIDGETS, definition, version, widget
from tests.kit.webhooks import Webhooks, denied

pytestmark = pytest.mark.kcr_virtual

CORE = "/api/v1/namespaces/default"


async def samples(api: Api, name: str) -> list[tuple[dict[str, str], float]]:
    """Return the labels and values of the samples of a name."""
    reply = await api.call("GET", "/metrics")
    assert reply.headers["Content-Type"].startswith("text/plain")
    families = text_string_to_metric_families(reply.body.decode())
    return [(one.labels, one.value) for family in families for one in family.samples if one.name == name]


def labels(verb: str, scope: str, code: int, **more: Any) -> dict[str, str]:
    """Return the labels of requests for pods."""
    return {
        "verb": verb, "dry_run": "", "group": "", "version": "v1", "resource": "pods", "subresource": "",
        "scope": scope, "component": "apiserver", "code": str(code), **more,
    }  # fmt: skip


async def test_requests_are_counted_by_verb_resource_and_code(api: Api) -> None:
    await api.post(f"{CORE}/pods", pod("p"))
    await api.call("POST", f"{CORE}/pods", pod("p"))
    await api.get(f"{CORE}/pods/p")
    await api.get("/api/v1/pods")
    await api.apply(f"{CORE}/pods/p", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})
    await api.call("POST", f"{CORE}/pods?dryRun=All", pod("q"))
    await api.call("GET", f"{CORE}/pods/p/log")
    watch = await api.watch("/api/v1/pods?")
    found = await samples(api, "apiserver_request_total")
    for wanted in (
        labels("POST", "namespace", 201), labels("POST", "namespace", 409), labels("GET", "resource", 200),
        labels("LIST", "cluster", 200), labels("APPLY", "resource", 200), labels("WATCH", "cluster", 200),
        labels("POST", "namespace", 201, dry_run="All"), labels("CONNECT", "resource", 204, subresource="log"),
    ):  # fmt: skip
        assert (wanted, 1.0) in found
    ((said, count),) = await samples(api, "apiserver_longrunning_requests")
    assert (said["verb"], said["resource"], said["scope"], count) == ("WATCH", "pods", "cluster", 1.0)
    await watch.close()
    assert await samples(api, "apiserver_longrunning_requests") == []


async def test_events_of_watches_are_counted_by_resource(api: Api) -> None:
    await api.post(f"{CORE}/configmaps", config_map("a"))
    watch = await api.watch("/api/v1/configmaps?")
    assert await watch.take(1) == [("ADDED", "a")]
    await api.delete(f"{CORE}/configmaps/a")
    assert await watch.take(1) == [("DELETED", "a")]
    await watch.close()
    config_maps = {"group": "", "version": "v1", "resource": "configmaps"}
    assert (config_maps, 2.0) in await samples(api, "apiserver_watch_events_total")


async def test_durations_of_watches_are_no_latency(api: Api) -> None:
    watch = await api.watch("/api/v1/pods?")
    await api.get("/api/v1/pods")
    counts = await samples(api, "apiserver_request_duration_seconds_count")
    assert [(said["verb"], count) for said, count in counts] == [("LIST", 1.0)]
    await watch.close()


async def test_stored_objects_are_counted_by_resource(api: Api) -> None:
    for name in ("a", "b"):
        await api.post(f"{CORE}/configmaps", config_map(name))
    assert ({"resource": "configmaps"}, 2.0) in await samples(api, "apiserver_storage_objects")
    resources = await samples(api, "apiserver_resource_objects")
    assert ({"group": "", "resource": "configmaps"}, 2.0) in resources
    assert ({"group": "events.k8s.io", "resource": "events"}, 0.0) not in resources


async def test_definition_made_again_goes_on_in_the_same_series(api: Api) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    for _ in range(2):
        await api.post(DEFINITIONS, definition(version("v1", schema)))
        await api.post(WIDGETS, widget("a"))
        await api.delete(f"{DEFINITIONS}/widgets.ex.io")
    found = [(said["verb"], count) for said, count in await samples(api, "apiserver_request_total")
             if said["resource"] == "widgets"]  # fmt: skip
    assert found == [("POST", 2.0)]


async def test_calls_of_webhooks_are_counted(api: Api, webhooks: Webhooks) -> None:
    def answer(request: dict[str, Any]) -> Any:
        return {"good": {}, "denied": denied("no", code=403), "broken": (404, b"")}[request["name"]]

    await webhooks.add("Validating", "one", answer)
    await webhooks.add("Mutating", "two", lambda request: (500, b""), failurePolicy="Ignore")
    for name in ("good", "denied", "broken"):
        await api.call("POST", f"{CORE}/pods", pod(name))
    prefix, one = (
        "apiserver_admission_webhook",
        {"name": "one.example.com", "type": "validating", "operation": "CREATE"},
    )
    two = {"name": "two.example.com", "type": "admit"}
    failures = {"operation": "CREATE", "rejected": "false", "code": "500"}
    assert sorted(await samples(api, f"{prefix}_request_total"), key=str) == [
        ({**one, "rejected": "false", "code": "200"}, 1.0),
        ({**one, "rejected": "true", "code": "403"}, 1.0),
        ({**one, "rejected": "true", "code": "404"}, 1.0),
        ({**two, **failures}, 3.0),
    ]
    assert await samples(api, f"{prefix}_rejection_count") == [
        ({**one, "error_type": "no_error", "rejection_code": "403"}, 1.0),
        ({**one, "error_type": "calling_webhook_error", "rejection_code": "404"}, 1.0),
    ]
    assert await samples(api, f"{prefix}_fail_open_count") == [(two, 3.0)]
    durations = await samples(api, f"{prefix}_admission_duration_seconds_count")
    assert ({**one, "rejected": "true"}, 2.0) in durations
    assert (await api.call("GET", "/metrics", accept="application/openmetrics-text")).status == 200
