"""Resource metrics as metrics-server answers them, from usages that the test names.

Source: kubernetes-sigs/metrics-server/pkg/api/{pod,node,table}.go.
"""

import random
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from kcr_devcluster.apiserver import APIServer
from kcr_devcluster.apiserver.http.resource_metrics import METRICS_KINDS, ContainerUsage, NodeUsage
from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.testing.loop import VirtualClock
from tests.kit.api import TABLE, Api

pytestmark = pytest.mark.kcr_virtual

ROOT = "/apis/metrics.k8s.io/v1beta1"
PODS = f"{ROOT}/namespaces/default/pods"


class Usages:
    """The usage of pods that the test has named; it counts how often it is asked."""

    def __init__(self) -> None:
        self.containers: list[ContainerUsage] = []
        self.measured = 0
        self.window = 1.25

    async def usage(self) -> NodeUsage:
        self.measured += 1
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        return NodeUsage("n", moment, self.window, tuple(self.containers))


@pytest.fixture
def usages() -> Usages:
    return Usages()


@pytest_asyncio.fixture
async def metrics(kcr_clock: VirtualClock, usages: Usages) -> Api:
    kinds = (*KINDS, *METRICS_KINDS)
    server = APIServer(Storage(), clock=kcr_clock, random=random.Random(0), kinds=kinds, sharded_list_and_watch=True)
    server.metrics.append(usages)
    return Api(server)


async def pod(metrics: Api, usages: Usages, name: str, *, phase: str = "Running") -> None:
    """Create a pod whose two containers use something."""
    containers = [{"name": "b", "image": "x"}, {"name": "a", "image": "x"}]
    made = await metrics.post(
        "/api/v1/namespaces/default/pods",
        {"metadata": {"name": name, "labels": {"app": name}}, "spec": {"containers": containers}},
    )
    await metrics.patch(f"/api/v1/namespaces/default/pods/{name}/status", {"status": {"phase": phase}})
    uid = made["metadata"]["uid"]
    usages.containers += [ContainerUsage(uid, "b", 0.25, 1 << 20), ContainerUsage(uid, "a", 0, 100)]


async def test_pod_metrics_say_what_each_container_uses(metrics: Api, usages: Usages) -> None:
    await pod(metrics, usages, "web")
    expected = {
        "metadata": {
            "name": "web", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"}
        },
        "timestamp": "2026-01-01T00:00:00Z", "window": "1.25s",
        "containers": [
            {"name": "a", "usage": {"cpu": "0", "memory": "0"}},
            {"name": "b", "usage": {"cpu": "250000000n", "memory": "1024Ki"}},
        ],
    }  # fmt: skip
    head = {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}}
    assert await metrics.get(PODS) == {**head, "items": [expected]}
    # A parameter of kube-apiserver, which metrics-server does not know: api-server §32.
    assert await metrics.get(f"{PODS}?shardSelector=x") == {**head, "items": [expected]}
    one = await metrics.get(f"{PODS}/web")
    assert one == {"kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1", **expected}


async def test_selectors_and_namespaces_choose_pods(metrics: Api, usages: Usages) -> None:
    for name in ("b", "a"):
        await pod(metrics, usages, name)

    async def names(target: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await metrics.get(target))["items"]]

    assert await names(f"{ROOT}/pods") == ["a", "b"]
    assert await names(f"{PODS}?labelSelector=app%3Da") == ["a"]
    assert await names(f"{PODS}?fieldSelector=metadata.name%3Db") == ["b"]
    assert await names(f"{ROOT}/namespaces/other/pods") == []


async def test_node_metrics_are_the_sum_of_its_containers(metrics: Api, usages: Usages) -> None:
    await metrics.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": {"zone": "z"}}})
    for name in ("b", "a"):
        await pod(metrics, usages, name)
    (node,) = (await metrics.get(f"{ROOT}/nodes?labelSelector=zone%3Dz"))["items"]
    assert node["usage"] == {"cpu": "500000000n", "memory": "2048Ki"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param(f"{PODS}/none", 'pods "none" not found', id="no-pod"),
        pytest.param(f"{ROOT}/nodes/none", 'nodes "none" not found', id="no-node"),
        pytest.param(f"{PODS}/over", 'podmetrics.metrics.k8s.io "default/over" not found', id="not-running"),
    ],
)
async def test_metrics_that_there_are_not_are_not_found(
    metrics: Api, usages: Usages, target: str, message: str
) -> None:
    await pod(metrics, usages, "over", phase="Succeeded")
    reply = await metrics.call("GET", target)
    assert (reply.status, reply.body["reason"], reply.body["message"]) == (404, "NotFound", message)


@pytest.mark.parametrize(
    ("method", "target", "message"),
    [
        pytest.param(
            "GET", f"{PODS}?watch=1", 'watch is not supported on resources of kind "pods.metrics.k8s.io"', id="watch"
        ),
        *(
            pytest.param(method, target, "the server does not allow this method on the requested resource", id=method)
            for method, target in (("POST", PODS), ("PUT", f"{PODS}/a"), ("PATCH", f"{PODS}/a"), ("DELETE", PODS))
        ),
    ],
)
async def test_metrics_are_only_read(metrics: Api, method: str, target: str, message: str) -> None:
    reply = await metrics.call(method, target, {} if method != "GET" else b"")
    assert (reply.status, reply.body["reason"], reply.body["message"]) == (405, "MethodNotAllowed", message)


async def test_discovery_names_the_metrics(metrics: Api) -> None:
    shared = {"singularName": "", "verbs": ["get", "list"]}
    assert (await metrics.get(ROOT))["resources"] == [
        {"name": "nodes", "namespaced": False, "kind": "NodeMetrics", **shared},
        {"name": "pods", "namespaced": True, "kind": "PodMetrics", **shared},
    ]
    assert not any("metrics" in path for path in (await metrics.get("/openapi/v3"))["paths"])


async def test_table_shows_the_sum_of_a_pod(metrics: Api, usages: Usages) -> None:
    await pod(metrics, usages, "web")
    table = await metrics.get(PODS, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "cpu", "memory", "Window"]
    assert [row["cells"] for row in table["rows"]] == [["web", "250m", "1Mi", "1.25s"]]


async def test_nothing_is_measured_before_somebody_asks(metrics: Api, usages: Usages) -> None:
    await pod(metrics, usages, "web")
    await metrics.get("/api/v1/pods")
    assert usages.measured == 0
    await metrics.get(f"{ROOT}/pods")
    assert usages.measured == 1


@pytest.mark.parametrize(("seconds", "expected"), [(0.25, "250ms"), (0.999, "999ms"), (1.0, "1s"), (15.0, "15s")])
async def test_window_is_a_duration_as_go_prints_it(
    metrics: Api, usages: Usages, seconds: float, expected: str
) -> None:
    usages.window = seconds
    await pod(metrics, usages, "web")
    assert (await metrics.get(f"{PODS}/web"))["window"] == expected
