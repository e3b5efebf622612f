"""Volume protection beside faults: a finalizer is removed once, however the replies and watches fare.

Source: kubernetes/pkg/controller/volume/pvcprotection/pvc_protection_controller_test.go.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest
import pytest_asyncio

from kcr.api.full.core_v1 import Pod
from kcr.client import Client
from kcr.manager import Manager
from kcr_devcluster.apiserver.server import APIServer
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.cluster.volume_protection import Claim, setup
from kcr_devcluster.testing.faults import FaultyTransport
from kcr_devcluster.testing.loop import VirtualClock
from kcr_devcluster.transport import InProcessTransport
from tests.kit.api import Api, pod

pytestmark = pytest.mark.kcr_virtual
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
PODS = "/api/v1/namespaces/default/pods"
WANTED = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest_asyncio.fixture
async def server(kcr_clock: VirtualClock) -> APIServer:
    """Give a server that protects volumes, without controllers: a test runs its own."""
    return APIServer(Storage(clock=kcr_clock), clock=kcr_clock, random=random.Random(0), protects_volumes=True)


async def terminating_claim(api: Api, *finalizers: str) -> None:
    """Make a claim with the finalizer, and delete it."""
    metadata = {"name": "c", "finalizers": list(finalizers)}
    made: dict[str, Any] = await api.post(CLAIMS, {"metadata": metadata, "spec": WANTED})
    assert "kubernetes.io/pvc-protection" in made["metadata"]["finalizers"]
    await api.delete(f"{CLAIMS}/c")


async def run(server: APIServer, clock: VirtualClock, faulty: Callable[[FaultyTransport], object]) -> int:
    """Run the controllers for a minute on a wire with faults; return how many patches of claims they sent."""
    wire = FaultyTransport(InProcessTransport(server))
    faulty(wire)
    manager = Manager(Client(wire), clock=clock, random=random.Random(0))
    setup(manager)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(manager.run())
        await clock.advance(60)
        task.cancel()
    return sum(call.verb == "patch" for call in wire.calls)


async def test_lost_reply_of_the_last_write_is_no_trouble(server: APIServer, kcr_clock: VirtualClock) -> None:
    api = Api(server)
    await terminating_claim(api)
    assert await run(server, kcr_clock, lambda wire: wire.on("patch", Claim, nth=1).lose_reply()) <= 2
    assert (await api.call("GET", f"{CLAIMS}/c")).status == 404


async def test_lost_request_is_sent_again(server: APIServer, kcr_clock: VirtualClock) -> None:
    api = Api(server)
    await terminating_claim(api)
    assert await run(server, kcr_clock, lambda wire: wire.on("patch", Claim, nth=1).lose_request()) == 2
    assert (await api.call("GET", f"{CLAIMS}/c")).status == 404


async def test_finalizer_that_another_client_removes_meanwhile_stays_removed(
    server: APIServer, kcr_clock: VirtualClock
) -> None:
    api = Api(server)
    await terminating_claim(api, "a.io/b", "c.io/d")

    async def remove() -> None:
        kept = ["a.io/b", "kubernetes.io/pvc-protection"]
        await api.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": kept}})

    # The list of the pods, between the version at hand and the write.
    assert await run(server, kcr_clock, lambda wire: wire.on("list", Pod, nth=1).then(remove)) == 2
    assert (await api.get(f"{CLAIMS}/c"))["metadata"]["finalizers"] == ["a.io/b"]


async def test_controller_that_starts_late_releases_the_claim(server: APIServer, kcr_clock: VirtualClock) -> None:
    api = Api(server)
    used = pod("p")
    used["spec"] |= {"nodeName": "n", "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    await api.post(PODS, used)
    await terminating_claim(api)
    assert await run(server, kcr_clock, lambda wire: None) == 0
    # The pod ends while no controller runs.
    await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    await run(server, kcr_clock, lambda wire: None)
    assert (await api.call("GET", f"{CLAIMS}/c")).status == 404
