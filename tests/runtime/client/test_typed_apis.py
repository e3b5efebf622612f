"""kubernetes-asyncio's typed APIs over kcr's transport: in process, and over TLS (ST-32)."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from kubernetes_asyncio.client import (
    ApiException,
    AppsV1Api,
    BatchV1Api,
    CoreV1Api,
    CustomObjectsApi,
    V1Container,
    V1Deployment,
    V1DeploymentSpec,
    V1Job,
    V1JobSpec,
    V1LabelSelector,
    V1Namespace,
    V1ObjectMeta,
    V1Pod,
    V1PodSpec,
    V1PodTemplateSpec,
)
from kubernetes_asyncio.watch import Watch
from structlog.testing import capture_logs

import kcr
from kcr.api.batch import Job
from kcr.client import Client, RateLimit
from kcr.client import api_client as api_client_of
from kcr.errors import TooManyRequestsError
from kcr.metrics import HostRequests
from kcr.testing import FakeManager, FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.http_servers import client_of

pytestmark = pytest.mark.asyncio

POD = V1PodSpec(restart_policy="Never", containers=[V1Container(name="main", image="busybox")])
TEMPLATE = V1PodTemplateSpec(metadata=V1ObjectMeta(labels={"app": "web"}), spec=POD)
PI = V1Job(
    api_version="batch/v1",
    kind="Job",
    metadata=V1ObjectMeta(name="pi", namespace="default"),
    spec=V1JobSpec(template=TEMPLATE, suspend=True),
)


@pytest_asyncio.fixture(params=["in-process", "tls"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    async with (
        EmbeddedCluster(random=Random(0), runtime=None, gc=False, kinds=[Color]) as cluster,
        client_of(cluster, request.param) as client,
    ):
        yield client


@asynccontextmanager
async def virtual_cluster(clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(clock=clock, random=Random(0), runtime=None, gc=False) as cluster:
        yield cluster


async def test_jobs_are_created_read_listed_and_deleted(client: Client) -> None:
    jobs = BatchV1Api(api_client_of(client))
    created = await jobs.create_namespaced_job("default", PI)
    assert created.metadata.uid
    assert created.spec.template.spec.containers[0].image == "busybox"
    found = await jobs.list_namespaced_job("default", label_selector="app in (web, api)")
    assert [job.metadata.name for job in found.items] == ["pi"]
    read = await jobs.read_namespaced_job("pi", "default")
    assert read.metadata.creation_timestamp == created.metadata.creation_timestamp
    patched = await jobs.patch_namespaced_job("pi", "default", {"spec": {"suspend": False}})
    assert patched.spec.suspend is False
    await jobs.delete_namespaced_job("pi", "default", propagation_policy="Background")
    assert await client.list(Job) == ()


async def test_deployment_is_scaled_through_its_subresource(client: Client) -> None:
    apps = AppsV1Api(api_client_of(client))
    pods = V1PodTemplateSpec(metadata=V1ObjectMeta(labels={"app": "web"}), spec=V1PodSpec(containers=POD.containers))
    spec = V1DeploymentSpec(replicas=1, selector=V1LabelSelector(match_labels={"app": "web"}), template=pods)
    await apps.create_namespaced_deployment("default", V1Deployment(metadata=V1ObjectMeta(name="web"), spec=spec))
    await apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}})
    assert (await apps.read_namespaced_deployment("web", "default")).spec.replicas == 3


class Color(kcr.Resource, api_version="example.dev/v1", plural="colors"):
    """A kind that the library has no model of."""

    spec: Mapping[str, str] = {}


async def test_custom_objects_are_mappings(client: Client) -> None:
    custom = CustomObjectsApi(api_client_of(client))
    where: dict[str, Any] = {"group": "example.dev", "version": "v1", "namespace": "default", "plural": "colors"}
    manifest = {"apiVersion": "example.dev/v1", "kind": "Color", "metadata": {"name": "sky"}, "spec": {"hue": "blue"}}
    created = await custom.create_namespaced_custom_object(body=manifest, **where)
    assert created["spec"] == {"hue": "blue"}
    # With a mapping the library says that it is a JSON patch, which takes a list.
    operations = [{"op": "replace", "path": "/spec/hue", "value": "grey"}]
    patched = await custom.patch_namespaced_custom_object(name="sky", body=operations, **where)
    assert patched["spec"] == {"hue": "grey"}
    found = await custom.list_namespaced_custom_object(**where)
    assert [color["metadata"]["name"] for color in found["items"]] == ["sky"]
    assert (await client.get(Color, kcr.Key("default", "sky"))).spec == {"hue": "grey"}


async def test_refusal_is_the_librarys_exception_with_the_status_as_its_body(client: Client) -> None:
    with pytest.raises(ApiException) as caught:
        await BatchV1Api(api_client_of(client)).read_namespaced_job("absent", "default")
    assert (caught.value.status, caught.value.reason) == (404, "Not Found")
    assert json.loads(caught.value.body or "")["message"] == 'jobs.batch "absent" not found'
    assert caught.value.headers is not None
    assert caught.value.headers["Content-Type"] == "application/json"
    assert isinstance(caught.value.__cause__, kcr.NotFoundError)


async def test_watch_yields_models_until_it_is_stopped(client: Client) -> None:
    jobs = BatchV1Api(api_client_of(client))
    await client.create(PI)
    seen = []
    async with Watch() as watch:
        async for event in watch.stream(jobs.list_namespaced_job, "default"):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 1:
                await jobs.delete_namespaced_job("pi", "default", propagation_policy="Background")
            if event["type"] == "DELETED":
                watch.stop()
    assert seen[0] == ("ADDED", "pi")
    assert seen[-1] == ("DELETED", "pi")


async def test_refused_watch_is_the_librarys_exception(client: Client) -> None:
    jobs = BatchV1Api(api_client_of(client))
    with pytest.raises(ApiException) as caught:
        async with Watch() as watch:
            async for _ in watch.stream(jobs.list_namespaced_job, "default", label_selector="=="):
                pass
    assert caught.value.status == 400


async def test_client_creates_models_and_answers_with_models(client: Client) -> None:
    created = await client.create(PI)
    assert isinstance(created, V1Job)
    assert created.spec is not None
    assert created.spec.completions == 1
    assert (
        await client.create(V1Namespace(api_version="v1", kind="Namespace", metadata=V1ObjectMeta(name="blue")))
    ).kind
    assert (await client.get(Job, kcr.Key("default", "pi"))).spec.suspend


async def test_client_applies_models_as_their_field_manager(client: Client) -> None:
    first = await client.apply(PI, field_owner="me")
    assert isinstance(first, V1Job)
    changed = V1Job(
        api_version="batch/v1", kind="Job", metadata=PI.metadata, spec=V1JobSpec(template=TEMPLATE, suspend=False)
    )
    with pytest.raises(kcr.ConflictError, match="me"):
        await client.apply(changed, field_owner="another")
    forced = await client.apply(changed, field_owner="another", force=True)
    assert forced.spec.suspend is False
    assert forced.metadata.uid == first.metadata.uid


REFUSED: list[Any] = [
    pytest.param(V1Job(metadata=PI.metadata), ValueError, "this V1Job states no api_version and kind", id="no-kind"),
    pytest.param(
        V1Job(api_version="batch/v9", kind="Job"),
        ValueError,
        "serves no Job in batch/v9: it serves Job in batch/v1$",
        id="unknown",
    ),
    pytest.param({"kind": "Job"}, TypeError, r"Client\.create: obj is .* create_manifest", id="mapping"),
    pytest.param(
        POD, TypeError, r"Client\.create: obj is .*: give it an object, .* or a model", id="part-of-an-object"
    ),
]


@pytest.mark.parametrize(("obj", "error", "said"), REFUSED)
async def test_what_cannot_be_created_is_named_with_the_remedy(obj: Any, error: type[Exception], said: str) -> None:
    async with EmbeddedCluster(runtime=None, gc=False) as cluster:
        with pytest.raises(error, match=said):
            await cluster.client.create(obj)


@pytest.mark.kcr_virtual
async def test_kinds_of_models_are_asked_for_once(kcr_clock: VirtualClock) -> None:
    async with virtual_cluster(kcr_clock) as cluster:
        faults = FaultyTransport(cluster.transport)
        client = Client(faults)
        for name in ("a", "b"):
            metadata = V1ObjectMeta(name=name, namespace="default")
            await client.with_options(field_manager=name).create(
                V1Job(api_version="batch/v1", kind="Job", metadata=metadata, spec=PI.spec)
            )
        assert [call.verb for call in faults.calls] == ["get", "create", "create"]


@pytest.mark.kcr_virtual
async def test_calls_keep_to_the_limit_are_retried_and_counted(kcr_clock: VirtualClock) -> None:
    async with virtual_cluster(kcr_clock) as cluster:
        faults, counted = FaultyTransport(cluster.transport), HostRequests()
        faults.on("list", nth=1).fail(TooManyRequestsError, retry_after_seconds=5)
        client = Client(faults, limiter=RateLimit(qps=1, burst=1), observer=counted)
        began = kcr_clock.now()
        assert (await BatchV1Api(api_client_of(client)).list_namespaced_job("default")).items == []
        assert (kcr_clock.now() - began).total_seconds() >= 5
        assert counted.counts == {(429, "GET"): 1, (200, "GET"): 1}
        assert counted.retries == {(200, "GET"): 1}


@pytest.mark.kcr_virtual
async def test_call_without_an_answer_has_the_status_zero(kcr_clock: VirtualClock) -> None:
    async with virtual_cluster(kcr_clock) as cluster:
        faults = FaultyTransport(cluster.transport)
        faults.on("create").lose_reply()
        with pytest.raises(ApiException, match="lost") as caught:
            await BatchV1Api(api_client_of(Client(faults))).create_namespaced_job("default", PI)
        assert caught.value.status == 0
        assert isinstance(caught.value.__cause__, kcr.TransportError)


@pytest.mark.kcr_virtual
async def test_watch_that_is_cut_raises_what_aiohttp_raises(kcr_clock: VirtualClock) -> None:
    async with virtual_cluster(kcr_clock) as cluster:
        await cluster.client.create(PI)
        faults = FaultyTransport(cluster.transport)
        faults.on("watch").cut(after=1)
        jobs, seen = BatchV1Api(api_client_of(Client(faults))), []
        with pytest.raises(aiohttp.ClientPayloadError):
            async with Watch() as watch:
                async for event in watch.stream(jobs.list_namespaced_job, "default", timeout_seconds=60):
                    seen.append(event["type"])
        assert seen == ["ADDED"]


class Conflicting:
    """Writes with the typed API, on a version that is outdated at first."""

    def __init__(self, manager: kcr.Manager) -> None:
        self.jobs = BatchV1Api(manager.api_client)
        self.versions = ["1", ""]

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        metadata = {"resourceVersion": version} if (version := self.versions.pop(0)) else {}
        await self.jobs.patch_namespaced_job(key.name, key.namespace, {"metadata": metadata, "spec": {"suspend": True}})
        return kcr.Result()


@pytest.mark.kcr_virtual
async def test_conflict_in_a_reconcile_requeues_without_a_traceback(kcr_clock: VirtualClock) -> None:
    async with virtual_cluster(kcr_clock) as cluster, asyncio.TaskGroup() as group:
        await cluster.client.create(PI)
        manager = kcr.Manager(cluster.client, clock=kcr_clock, random=Random(0))
        reconciler = Conflicting(manager)
        manager.add_controller("test", reconciler, watches=[kcr.watch(Job, predicate=kcr.generation_changed)])
        with capture_logs() as logs:
            running = group.create_task(manager.run())
            await kcr_clock.advance(5)
        running.cancel()
    assert reconciler.versions == []
    assert [line["event"] for line in logs if "requeuing" in line["event"]] == ["conflict, requeuing"]
    assert not [line for line in logs if line["log_level"] == "error"]


@pytest.mark.kcr_virtual
async def test_fake_manager_has_the_typed_apis_too(kcr_clock: VirtualClock) -> None:
    manager = FakeManager(clock=kcr_clock)
    await BatchV1Api(manager.api_client).create_namespaced_job("default", PI)
    assert (await manager.client.get(Job, kcr.Key("default", "pi"))).metadata.name == "pi"


@pytest.mark.kcr_virtual
async def test_logs_are_read_as_text(kcr_clock: VirtualClock) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), gc=False) as cluster:
        core = CoreV1Api(api_client_of(cluster.client))
        await core.create_namespaced_pod("default", V1Pod(metadata=V1ObjectMeta(name="a"), spec=POD))
        await kcr_clock.advance(60)
        assert isinstance(await core.read_namespaced_pod_log("a", "default"), str)
