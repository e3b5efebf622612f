"""What operators see of a running manager: its ports, probes and metrics."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

import kcr
from kcr.api.core import ConfigMap, Namespace
from kcr.client import Transport
from kcr.errors import ForbiddenError
from kcr.metrics import Metrics
from kcr.serving.ports import SecureServing
from kcr.testing import CrashingTransport, FaultyTransport, eventually
from kcr_devcluster.apiserver.authentication.users import user_named
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.connections import closed_first

pytestmark = [pytest.mark.asyncio]


class Idle:
    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        return kcr.Result()


class Ports:
    """Reads from the ports of a manager."""

    def __init__(self, lines: list[dict[str, str]]) -> None:
        self._lines = lines

    def address(self, what: str) -> str:
        return next(line["address"] for line in self._lines if line["event"] == "listening" and line["what"] == what)

    async def get(self, what: str, path: str) -> tuple[int, str]:
        url = f"http://{self.address(what)}{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status, await answer.text()


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(runtime=None) as cluster:
        yield cluster


def manager_on(transport: Transport) -> kcr.Manager:
    metrics = Metrics()
    client = kcr.Client(transport, observer=metrics.requests("api"))
    manager = kcr.Manager(client, random=random.Random(0), metrics=metrics)
    manager.expose(metrics="127.0.0.1:0", probes="127.0.0.1:0")
    return manager


@asynccontextmanager
async def running(manager: kcr.Manager) -> AsyncIterator[Ports]:
    with capture_logs() as lines:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(manager.run())
            await eventually(lambda: sum(line["event"] == "listening" for line in lines) == 2)
            yield Ports(lines)  # type: ignore[arg-type]  # structlog's lines are mappings of anything
            task.cancel()


async def test_ports_open_before_the_stores_and_tell_what_they_lack(cluster: EmbeddedCluster) -> None:
    # CM-20, CM-53, IN-8
    faults = FaultyTransport(cluster.transport)
    faults.on("list", Namespace).fail(ForbiddenError)
    faults.on("watch", Namespace).fail(ForbiddenError)
    manager = manager_on(faults)
    manager.add_controller("idle", Idle(), watches=[kcr.watch(ConfigMap), kcr.watch(Namespace)])
    async with running(manager) as ports:

        async def told() -> bool:
            status, text = await ports.get("probes", "/readyz")
            return status == 500 and "[-]informer-namespaces failed: namespaces: forbidden" in text

        await eventually(told)
        _, text = await ports.get("probes", "/readyz")
        assert "[-]controllers failed: they do not run" in text
        assert "[+]informer-configmaps ok" in text
        assert await ports.get("probes", "/livez") == (200, "ok")


class NamespacePhase(kcr.Object):
    phase: str = ""


class Phases(kcr.Resource, api_version="v1", kind="Namespace", plural="namespaces", namespaced=False):
    """What one controller needs of a Namespace."""

    status: NamespacePhase = NamespacePhase()


async def test_two_classes_of_a_kind_have_names_of_their_own(cluster: EmbeddedCluster) -> None:
    manager = manager_on(cluster.transport)
    phases = manager.open_informer(Phases)
    manager.store(Namespace)
    async with manager.running():
        names = ("namespaces", "namespaces-Namespace")
        readiness = manager.health.answer("/readyz", {"verbose": [""]})
        assert readiness is not None
        assert [f"informer-{name} ok" in readiness.text for name in names] == [True, True]
        count = manager.metrics.registry.get_sample_value
        labels = {"group": "", "version": "v1", "resource": "namespaces"}
        assert [count("kcr_cache_objects", {**labels, "name": name}) for name in names] == [4, 4]
        phases.close()
        assert [count("kcr_cache_objects", {**labels, "name": name}) for name in names] == [None, 4]
        # The name is free again, and the other informer keeps its own.
        async with manager.open_informer(Phases):
            assert [count("kcr_cache_objects", {**labels, "name": name}) for name in names] == [4, 4]


async def test_ready_manager_says_so(cluster: EmbeddedCluster) -> None:  # CM-52
    manager = manager_on(cluster.transport)
    manager.add_controller("idle", Idle(), watches=[kcr.watch(Namespace)])
    async with running(manager) as ports:
        await manager.wait_ready()
        status, text = await ports.get("probes", "/readyz?verbose")
        assert (status, text) == (200, "[+]controllers ok\n[+]informer-namespaces ok\nreadyz check passed\n")
        assert await ports.get("probes", "/livez/event-loop") == (200, "ok")
        address = ports.address("probes")
    with pytest.raises(aiohttp.ClientConnectionError):
        async with aiohttp.ClientSession() as session:
            await session.get(f"http://{address}/livez")


async def test_lost_api_server_restarts_nobody(cluster: EmbeddedCluster) -> None:  # CM-53
    transport = CrashingTransport(cluster.transport)
    manager = manager_on(transport)
    manager.add_controller("idle", Idle(), watches=[kcr.watch(Namespace)])
    async with running(manager) as ports:
        await manager.wait_ready()
        transport.crash_after(0)
        assert await ports.get("probes", "/livez") == (200, "ok")
        assert await ports.get("probes", "/readyz") == (200, "ok")


async def test_metrics_tell_of_queues_controllers_requests_and_stores(cluster: EmbeddedCluster) -> None:
    # WQ-39, CM-50, CM-56, CM-59, RF-36, RF-37, CM-62
    manager = manager_on(cluster.transport)
    manager.add_controller("idle", Idle(), watches=[kcr.watch(Namespace)], workers=2)
    async with running(manager) as ports:
        await manager.wait_ready()

        async def told() -> str:
            _, text = await ports.get("metrics", "/metrics")
            return text if 'controller_runtime_reconcile_total{controller="idle",result="success"} 4.0' in text else ""

        text = await eventually(told)
        assert 'workqueue_adds_total{controller="idle",name="idle"} 4.0' in text
        assert 'workqueue_depth{controller="idle",name="idle",priority="0"} 0.0' in text
        assert 'controller_runtime_max_concurrent_reconciles{controller="idle"} 2.0' in text
        assert 'rest_client_requests_total{code="200",host="api",method="GET"}' in text
        assert 'kcr_cache_objects{group="",name="namespaces",resource="namespaces",version="v1"} 4.0' in text
        memory = next(one for one in text.splitlines() if one.startswith('kcr_cache_bytes{group="",name="namespaces"'))
        assert 1_000 < float(memory.rpartition(" ")[2]) < 20_000
        assert "kcr_event_loop_lag_seconds_count" in text
        assert "process_resident_memory_bytes" in text
        assert (await ports.get("metrics", "/"))[0] == 404
        assert (await ports.get("probes", "/metrics"))[0] == 404


async def test_protected_metrics_ask_the_api_server_and_probes_do_not(cluster: EmbeddedCluster) -> None:
    manager = kcr.Manager(kcr.Client(cluster.transport), random=random.Random(0))
    manager.expose(metrics="127.0.0.1:0", probes="127.0.0.1:0", metrics_secure=SecureServing())
    cluster.server.users["t0p"] = user_named("prometheus")
    async with running(manager) as ports, aiohttp.ClientSession() as session:
        url = f"https://{ports.address('metrics')}"
        for token, status, text in (("t0p", 200, "workqueue_depth"), ("wrong", 401, "Unauthorized")):
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(f"{url}/metrics", headers=headers, ssl=False) as answer:
                assert (answer.status, text in await answer.text()) == (status, True)
        async with session.get(f"{url}/other", ssl=False) as answer:
            assert answer.status == 404
        async with session.post(f"{url}/metrics", ssl=False) as answer:
            assert answer.status == 405
        assert (await ports.get("probes", "/livez"))[0] == 200


async def test_protected_metrics_need_an_address(cluster: EmbeddedCluster) -> None:
    with pytest.raises(kcr.ConfigError, match="metrics are served nowhere"):
        kcr.Manager(kcr.Client(cluster.transport)).expose(metrics_secure=SecureServing())


async def test_taken_port_ends_the_manager_with_one_error(cluster: EmbeddedCluster) -> None:
    first = manager_on(cluster.transport)
    async with running(first) as ports:
        second = kcr.Manager(kcr.Client(cluster.transport))
        second.expose(metrics=ports.address("metrics"))
        with pytest.raises(kcr.ConfigError, match=r"metrics: cannot listen on 127\.0\.0\.1:"):
            await second.run()


async def test_number_of_connections_is_an_option_of_both_ports(cluster: EmbeddedCluster) -> None:
    manager = kcr.Manager(kcr.Client(cluster.transport))
    manager.expose(metrics="127.0.0.1:0", probes="127.0.0.1:0", max_connections=2)
    async with running(manager) as ports:
        for what in ("metrics", "probes"):
            assert await closed_first(int(ports.address(what).rpartition(":")[2]))


async def test_address_that_makes_no_sense_is_refused(cluster: EmbeddedCluster) -> None:
    with pytest.raises(kcr.ConfigError, match="'8080' is not an address to listen on"):
        kcr.Manager(kcr.Client(cluster.transport)).expose(probes="8080")


async def test_ports_are_named_once_and_before_the_start(cluster: EmbeddedCluster) -> None:
    manager = manager_on(cluster.transport)
    with pytest.raises(RuntimeError, match="expose a manager once, and before it runs"):
        manager.expose()
    late = kcr.Manager(kcr.Client(cluster.transport))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(late.run())
        await late.wait_ready()
        with pytest.raises(RuntimeError, match="before it runs"):
            late.expose(metrics="127.0.0.1:0")
        task.cancel()
