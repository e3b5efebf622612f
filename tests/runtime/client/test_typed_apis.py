"""Typed APIs and models of kubernetes-asyncio and the official client over kcr: in process, and over TLS (ST-32)."""

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import kubernetes
import kubernetes.aio.dynamic
import kubernetes_asyncio.dynamic
import pytest
import pytest_asyncio
from kubernetes_asyncio.client import V1Job, V1ObjectMeta
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

LIBRARIES = [
    pytest.param(kubernetes_asyncio, id="kubernetes-asyncio"),
    pytest.param(kubernetes.aio, id="kubernetes.aio"),
]


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> Any:
    return request.param


def pod_of(library: Any) -> Any:
    models = library.client
    return models.V1PodSpec(restart_policy="Never", containers=[models.V1Container(name="main", image="busybox")])


def template_of(library: Any) -> Any:
    models = library.client
    return models.V1PodTemplateSpec(metadata=models.V1ObjectMeta(labels={"app": "web"}), spec=pod_of(library))


def job_of(library: Any, name: str = "pi", **fields: Any) -> Any:
    models = library.client
    metadata = models.V1ObjectMeta(name=name, namespace="default")
    spec = models.V1JobSpec(**{"template": template_of(library), "suspend": True, **fields})
    return models.V1Job(api_version="batch/v1", kind="Job", metadata=metadata, spec=spec)


async def create(api_client: Any, library: Any) -> None:
    await library.client.BatchV1Api(api_client).create_namespaced_job("default", job_of(library))


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


async def test_jobs_are_created_read_listed_and_deleted(client: Client, library: Any) -> None:
    jobs = library.client.BatchV1Api(api_client_of(client))
    created = await jobs.create_namespaced_job("default", job_of(library))
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


async def test_deployment_is_scaled_through_its_subresource(client: Client, library: Any) -> None:
    apps = library.client.AppsV1Api(api_client_of(client))
    pods = template_of(library)
    pods.spec.restart_policy = None
    selector = library.client.V1LabelSelector(match_labels={"app": "web"})
    spec = library.client.V1DeploymentSpec(replicas=1, selector=selector, template=pods)
    web = library.client.V1Deployment(metadata=library.client.V1ObjectMeta(name="web"), spec=spec)
    await apps.create_namespaced_deployment("default", web)
    await apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}})
    assert (await apps.read_namespaced_deployment("web", "default")).spec.replicas == 3


class Color(kcr.Resource, api_version="example.dev/v1", plural="colors"):
    """A kind that the library has no model of."""

    spec: Mapping[str, str] = {}


async def test_custom_objects_are_mappings(client: Client, library: Any) -> None:
    custom = library.client.CustomObjectsApi(api_client_of(client))
    where: dict[str, Any] = {"group": "example.dev", "version": "v1", "namespace": "default", "plural": "colors"}
    manifest = {"apiVersion": "example.dev/v1", "kind": "Color", "metadata": {"name": "sky"}, "spec": {"hue": "blue"}}
    created = await custom.create_namespaced_custom_object(body=manifest, **where)
    assert created["spec"] == {"hue": "blue"}
    # kubernetes-asyncio says of any patch here that it is a JSON patch, kubernetes.aio that it is a merge patch.
    operations = [{"op": "replace", "path": "/spec/hue", "value": "grey"}]
    body = operations if library is kubernetes_asyncio else {"spec": {"hue": "grey"}}
    patched = await custom.patch_namespaced_custom_object(name="sky", body=body, **where)
    assert patched["spec"] == {"hue": "grey"}
    found = await custom.list_namespaced_custom_object(**where)
    assert [color["metadata"]["name"] for color in found["items"]] == ["sky"]
    assert (await client.get(Color, kcr.Key("default", "sky"))).spec == {"hue": "grey"}


async def test_dynamic_client_reads_writes_and_watches(client: Client, library: Any, tmp_path: Path) -> None:
    dynamic = await library.dynamic.DynamicClient(api_client_of(client), cache_file=str(tmp_path / "kinds"))
    colors = await dynamic.resources.get(api_version="example.dev/v1", kind="Color")
    manifest = {"apiVersion": "example.dev/v1", "kind": "Color", "metadata": {"name": "sky"}, "spec": {"hue": "blue"}}
    await colors.create(body=manifest, namespace="default")
    grey = {**manifest, "spec": {"hue": "grey"}}
    patched = await colors.patch(body=grey, namespace="default", content_type="application/merge-patch+json")
    assert patched.spec.hue == "grey"
    assert [color.metadata.name for color in (await colors.get(namespace="default")).items] == ["sky"]
    # It does not end before the watch is read.
    watcher = library.watch.Watch()
    async for event in colors.watch(namespace="default", watcher=watcher):
        assert (event["type"], event["object"].spec.hue) == ("ADDED", "grey")
        watcher.stop()
    with pytest.raises(library.dynamic.exceptions.NotFoundError):
        await colors.get(name="night", namespace="default")


async def test_headers_and_whole_answers_are_the_librarys(client: Client, library: Any) -> None:
    async with api_client_of(client) as api:
        api.set_default_header("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
        answer = await library.client.CoreV1Api(api).list_namespace_with_http_info()
        raw = answer.raw_data if library is kubernetes.aio else api.last_response.data
        assert json.loads(raw)["kind"] == "PartialObjectMetadataList"
    assert await client.list(Job) == ()


async def test_refusal_is_the_librarys_exception_with_the_status_as_its_body(client: Client, library: Any) -> None:
    with pytest.raises(library.client.exceptions.ApiException) as caught:
        await library.client.BatchV1Api(api_client_of(client)).read_namespaced_job("absent", "default")
    assert (caught.value.status, caught.value.reason) == (404, "Not Found")
    assert json.loads(caught.value.body or "")["message"] == 'jobs.batch "absent" not found'
    assert caught.value.headers is not None
    assert caught.value.headers["Content-Type"] == "application/json"
    assert isinstance(caught.value.__cause__, kcr.NotFoundError)


async def test_watch_yields_models_until_it_is_stopped(client: Client, library: Any) -> None:
    jobs = library.client.BatchV1Api(api_client_of(client))
    await client.create(job_of(library))
    seen = []
    async with library.watch.Watch() as watch:
        async for event in watch.stream(jobs.list_namespaced_job, "default"):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 1:
                await jobs.delete_namespaced_job("pi", "default", propagation_policy="Background")
            if event["type"] == "DELETED":
                watch.stop()
    assert seen[0] == ("ADDED", "pi")
    assert seen[-1] == ("DELETED", "pi")


async def test_refused_watch_is_the_librarys_exception(client: Client, library: Any) -> None:
    jobs = library.client.BatchV1Api(api_client_of(client))
    with pytest.raises(library.client.exceptions.ApiException) as caught:
        async with library.watch.Watch() as watch:
            async for _ in watch.stream(jobs.list_namespaced_job, "default", label_selector="=="):
                pass
    assert caught.value.status == 400


MODELS = [*LIBRARIES, pytest.param(kubernetes, id="kubernetes")]


@pytest.mark.parametrize("library", MODELS)
async def test_client_creates_models_and_answers_with_their_class(client: Client, library: Any) -> None:
    created = await client.create(job_of(library))
    assert type(created) is library.client.V1Job
    assert created.spec.completions == 1
    assert created.metadata.creation_timestamp.tzinfo is not None
    assert created.spec.template.spec.containers[0].image == "busybox"
    metadata = library.client.V1ObjectMeta(name="blue")
    assert (await client.create(library.client.V1Namespace(api_version="v1", kind="Namespace", metadata=metadata))).kind
    assert (await client.get(Job, kcr.Key("default", "pi"))).spec.suspend


@pytest.mark.parametrize("library", MODELS)
async def test_client_applies_models_as_their_field_manager(client: Client, library: Any) -> None:
    first = await client.apply(job_of(library), field_owner="me")
    assert type(first) is library.client.V1Job
    changed = job_of(library, suspend=False)
    with pytest.raises(kcr.ConflictError, match="me"):
        await client.apply(changed, field_owner="another")
    forced = await client.apply(changed, field_owner="another", force=True)
    assert forced.spec.suspend is False
    assert forced.metadata.uid == first.metadata.uid


@pytest.mark.parametrize("library", MODELS)
async def test_client_patches_the_difference_of_two_models(client: Client, library: Any) -> None:
    old = await client.create(job_of(library, active_deadline_seconds=60))
    new = copy.deepcopy(old)
    new.spec.suspend, new.spec.active_deadline_seconds, new.metadata.labels = False, None, {"app": "web"}
    patched = await client.patch(old, new)
    assert type(patched) is library.client.V1Job
    assert (patched.spec.suspend, patched.spec.active_deadline_seconds) == (False, None)
    other = job_of(library, suspend=True)
    other.status = old.status
    with pytest.raises(kcr.ConflictError):
        await client.patch(old, other)
    ready = copy.deepcopy(patched)
    ready.status.active = 1
    assert (await client.patch_status(patched, ready)).status.active == 1
    with pytest.raises(ValueError, match="the server would drop metadata and spec"):
        await client.patch_status(old, patched)


@pytest.mark.parametrize("library", MODELS)
async def test_lease_of_a_whole_second_is_written(client: Client, library: Any) -> None:
    second = datetime(2026, 1, 1, tzinfo=UTC)
    spec = library.client.V1LeaseSpec(holder_identity="me", renew_time=second)
    metadata = library.client.V1ObjectMeta(name="lock", namespace="default")
    lease = library.client.V1Lease(api_version="coordination.k8s.io/v1", kind="Lease", metadata=metadata, spec=spec)
    created = await client.create(lease)
    assert created.spec.renew_time == second
    renewed = copy.deepcopy(created)
    renewed.spec.renew_time += timedelta(seconds=10)
    assert (await client.patch(created, renewed)).spec.renew_time == second + timedelta(seconds=10)


@pytest.mark.parametrize("library", MODELS)
async def test_read_modify_write_of_a_model_loses_nothing(client: Client, library: Any) -> None:
    models, job = library.client, job_of(library)
    pod, kind = job.spec.template.spec, kcr.unstructured("batch/v1", "Job", plural="jobs")
    pod.volumes = [models.V1Volume(name="scratch", empty_dir=models.V1EmptyDirVolumeSource())]
    pod.containers[0].resources = models.V1ResourceRequirements(limits={}, requests={"cpu": "100m"})
    pod.containers[0].liveness_probe = models.V1Probe(http_get=models.V1HTTPGetAction(path="/", port="http"))
    pod.containers[0].readiness_probe = models.V1Probe(http_get=models.V1HTTPGetAction(path="/", port=8080))
    old = await client.create(job)
    before = await client.get(kind, kcr.Key("default", "pi"))
    sent = before.get("spec")["template"]["spec"]
    assert sent["volumes"] == [{"name": "scratch", "emptyDir": {}}]
    container = sent["containers"][0]
    assert [container[probe]["httpGet"]["port"] for probe in ("livenessProbe", "readinessProbe")] == ["http", 8080]
    # As of a client that does not know these fields.
    old.spec.pod_replacement_policy = old.spec.template.spec.dns_policy = None
    new = copy.deepcopy(old)
    new.metadata.labels = {"app": "web"}
    await client.patch(old, new)
    after = await client.get(kind, kcr.Key("default", "pi"))
    assert (after.fields["spec"], after.metadata.labels) == (before.fields["spec"], {"app": "web"})
    metadata = models.V1ObjectMeta(name="empty", namespace="default")
    empty = await client.create(models.V1ConfigMap(api_version="v1", kind="ConfigMap", metadata=metadata, data={}))
    filled = copy.deepcopy(empty)
    filled.data = {"a": "1"}
    assert (await client.patch(empty, filled)).data == {"a": "1"}


class NamedJob(kubernetes_asyncio.client.V1Job):
    """A user's own class."""


async def test_answer_is_of_a_class_of_the_users(client: Client) -> None:
    job = job_of(kubernetes_asyncio)
    named = NamedJob(api_version="batch/v1", kind="Job", metadata=job.metadata, spec=job.spec)
    assert type(await client.create(named)) is NamedJob


REFUSED: list[Any] = [
    pytest.param(V1Job(metadata=V1ObjectMeta(name="pi")), ValueError, "this V1Job states no api_version", id="no-kind"),
    pytest.param(
        V1Job(api_version="batch/v9", kind="Job"),
        ValueError,
        "serves no Job in batch/v9: it serves Job in batch/v1$",
        id="unknown",
    ),
    pytest.param({"kind": "Job"}, TypeError, r"Client\.create: obj is .* create_manifest", id="mapping"),
    pytest.param(
        V1ObjectMeta(name="pi"), TypeError, r"Client\.create: obj is .*: give it an object, .* or a model", id="part"
    ),
]


@pytest.mark.parametrize(("obj", "error", "said"), REFUSED)
async def test_what_cannot_be_created_is_named_with_the_remedy(obj: Any, error: type[Exception], said: str) -> None:
    async with EmbeddedCluster(runtime=None, gc=False) as cluster:
        with pytest.raises(error, match=said):
            await cluster.client.create(obj)


@pytest.mark.kcr_virtual
async def test_kinds_of_models_are_asked_for_once(kcr_clock: VirtualClock, library: Any) -> None:
    async with virtual_cluster(kcr_clock) as cluster:
        faults = FaultyTransport(cluster.transport)
        client = Client(faults)
        for name in ("a", "b"):
            await client.with_options(field_manager=name).create(job_of(library, name))
        assert [call.verb for call in faults.calls] == ["get", "create", "create"]


@pytest.mark.kcr_virtual
async def test_calls_keep_to_the_limit_are_retried_and_counted(kcr_clock: VirtualClock, library: Any) -> None:
    async with virtual_cluster(kcr_clock) as cluster:
        faults, counted = FaultyTransport(cluster.transport), HostRequests()
        faults.on("list", nth=1).fail(TooManyRequestsError, retry_after_seconds=5)
        client = Client(faults, limiter=RateLimit(qps=1, burst=1), observer=counted)
        began = kcr_clock.now()
        assert (await library.client.BatchV1Api(api_client_of(client)).list_namespaced_job("default")).items == []
        assert (kcr_clock.now() - began).total_seconds() >= 5
        assert counted.counts == {(429, "GET"): 1, (200, "GET"): 1}
        assert counted.retries == {(200, "GET"): 1}


@pytest.mark.kcr_virtual
async def test_call_without_an_answer_has_the_status_zero(kcr_clock: VirtualClock, library: Any) -> None:
    async with virtual_cluster(kcr_clock) as cluster:
        faults = FaultyTransport(cluster.transport)
        faults.on("create").lose_reply()
        with pytest.raises(library.client.exceptions.ApiException, match="lost") as caught:
            await create(api_client_of(Client(faults)), library)
        assert caught.value.status == 0
        assert isinstance(caught.value.__cause__, kcr.TransportError)


@pytest.mark.kcr_virtual
async def test_watch_that_is_cut_raises_what_aiohttp_raises(kcr_clock: VirtualClock, library: Any) -> None:
    async with virtual_cluster(kcr_clock) as cluster:
        await cluster.client.create(job_of(library))
        faults = FaultyTransport(cluster.transport)
        faults.on("watch").cut(after=1)
        jobs, seen = library.client.BatchV1Api(api_client_of(Client(faults))), []
        with pytest.raises(aiohttp.ClientPayloadError):
            async with library.watch.Watch() as watch:
                async for event in watch.stream(jobs.list_namespaced_job, "default", timeout_seconds=60):
                    seen.append(event["type"])
        assert seen == ["ADDED"]


class Conflicting:
    """Writes with the typed API, on a version that is outdated at first."""

    def __init__(self, manager: kcr.Manager, library: Any) -> None:
        self.jobs = library.client.BatchV1Api(manager.api_client)
        self.versions = ["1", ""]

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        metadata = {"resourceVersion": version} if (version := self.versions.pop(0)) else {}
        await self.jobs.patch_namespaced_job(key.name, key.namespace, {"metadata": metadata, "spec": {"suspend": True}})
        return kcr.Result()


@pytest.mark.kcr_virtual
async def test_conflict_in_a_reconcile_requeues_without_a_traceback(kcr_clock: VirtualClock, library: Any) -> None:
    async with virtual_cluster(kcr_clock) as cluster, asyncio.TaskGroup() as group:
        await cluster.client.create(job_of(library))
        manager = kcr.Manager(cluster.client, clock=kcr_clock, random=Random(0))
        reconciler = Conflicting(manager, library)
        manager.add_controller("test", reconciler, watches=[kcr.watch(Job, predicate=kcr.generation_changed)])
        with capture_logs() as logs:
            running = group.create_task(manager.run())
            await kcr_clock.advance(5)
        running.cancel()
    assert reconciler.versions == []
    assert [line["event"] for line in logs if "requeuing" in line["event"]] == ["conflict, requeuing"]
    assert not [line for line in logs if line["log_level"] == "error"]


@pytest.mark.kcr_virtual
async def test_fake_manager_has_the_typed_apis_too(kcr_clock: VirtualClock, library: Any) -> None:
    manager = FakeManager(clock=kcr_clock)
    await create(manager.api_client, library)
    assert (await manager.client.get(Job, kcr.Key("default", "pi"))).metadata.name == "pi"


@pytest.mark.kcr_virtual
async def test_logs_are_read_as_text(kcr_clock: VirtualClock, library: Any) -> None:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), gc=False) as cluster:
        core = library.client.CoreV1Api(api_client_of(cluster.client))
        pod = library.client.V1Pod(metadata=library.client.V1ObjectMeta(name="a"), spec=pod_of(library))
        await core.create_namespaced_pod("default", pod)
        await kcr_clock.advance(60)
        assert isinstance(await core.read_namespaced_pod_log("a", "default"), str)
