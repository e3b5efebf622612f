"""The addresses behind Services of webhooks.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/util/proxy/proxy_test.go.
"""

from typing import Any

import pytest

from kcr_devcluster.apiserver.admission.caller import WebhookCallError, target_of
from kcr_devcluster.apiserver.kinds.catalogue import PODS, SERVICES
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.cluster.webhooks.services import Services, WebhookAddress
from kcr_devcluster.options import service_address

READY = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}


def resolve(storage: Storage, *given: str, port: int | None = None) -> WebhookAddress:
    service: dict[str, Any] = {"namespace": "shop", "name": "hooks"}
    if port is not None:
        service["port"] = port
    return Services(storage, given).resolve(target_of({"service": service}))


def metadata(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "shop", "uid": name, **more}


@pytest.fixture
def storage() -> Storage:
    """Give a Service with a pod that serves its webhook."""
    made = Storage()
    ports = [{"port": 443, "targetPort": "https"}, {"port": 8443, "targetPort": 9444}]
    made.put(SERVICES, {"metadata": metadata("hooks"), "spec": {"selector": {"app": "web"}, "ports": ports}}, None)
    return made


def pod(storage: Storage, name: str = "web", *, status: dict[str, Any] = READY, **more: Any) -> None:
    ports = [{"name": "https", "containerPort": 9443}]
    spec = {"containers": [{"name": "main", "ports": ports}]}
    labels = {"app": "web"}
    storage.put(PODS, {"metadata": metadata(name, labels=labels, **more), "spec": spec, "status": status}, None)


def test_service_is_the_port_of_its_ready_pod(storage: Storage) -> None:
    pod(storage)
    assert resolve(storage) == WebhookAddress("127.0.0.1", 9443)
    assert resolve(storage, port=8443) == WebhookAddress("127.0.0.1", 9444)


def test_address_that_is_given_comes_first(storage: Storage) -> None:
    pod(storage)
    assert resolve(storage, "shop/hooks=https://localhost:7443") == WebhookAddress("localhost", 7443)
    assert resolve(Storage(), "shop/hooks=https://localhost:7443") == WebhookAddress("localhost", 7443)


def test_missing_service_and_port_are_named(storage: Storage) -> None:
    with pytest.raises(WebhookCallError, match=r'^service "hooks" not found$'):
        resolve(Storage())
    with pytest.raises(WebhookCallError, match=r'^no service port 80 found for service "hooks"$'):
        resolve(storage, port=80)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"status": {**READY, "conditions": []}}, id="not-ready"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, id="terminating"),
    ],
)
def test_service_without_ready_pods_has_no_endpoints(storage: Storage, more: dict[str, Any]) -> None:
    pod(storage, **more)
    with pytest.raises(WebhookCallError, match=r'^no endpoints available for service "hooks"$'):
        resolve(storage)


def test_simulated_pod_cannot_be_reached(storage: Storage) -> None:
    pod(storage, status={**READY, "podIP": "10.0.0.7"})
    with pytest.raises(WebhookCallError, match=r"^dial tcp 10\.0\.0\.7:9443: connect: no route to host$"):
        resolve(storage)


@pytest.mark.parametrize(
    "given",
    ["hooks=https://127.0.0.1:9443", "shop/hooks", "shop/hooks=http://127.0.0.1:9443", "/hooks=https://a", "a/b=https://",
     "a/b=https://c:x", "a/b=https://c/path", "a/b/c=https://d"],
)  # fmt: skip
def test_other_texts_are_no_service_with_an_address(given: str) -> None:
    with pytest.raises(ValueError, match=r"write it as shop/hooks=https://127\.0\.0\.1:9443"):
        service_address(given)
