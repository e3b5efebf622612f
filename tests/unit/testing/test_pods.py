import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from msgspec.structs import replace

from kcr.api import codec
from kcr.api.batch import COMPLETION_INDEX
from kcr.api.conditions import find_condition, is_condition_true
from kcr.api.core import Pod
from kcr.api.meta import Key
from kcr.errors import NotFoundError
from kcr.testing import PodScript, VirtualClock, build
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual


class Stage:
    """A cluster without a node, three pods, and the script that moves them."""

    def __init__(self, cluster: EmbeddedCluster, clock: VirtualClock) -> None:
        self.client = cluster.client
        self.pods = PodScript(cluster.client, clock)

    async def read(self, name: str) -> Pod:
        return await self.client.get(Pod, Key("default", name))


@pytest_asyncio.fixture
async def stage(kcr_clock: VirtualClock) -> AsyncIterator[Stage]:
    async with EmbeddedCluster(clock=kcr_clock, random=random.Random(0), runtime=None) as cluster:
        for index, name in enumerate(("first", "second", "third")):
            fresh = build.pod(name, uid="", resource_version="", annotations={COMPLETION_INDEX: str(index)})
            whole = replace(fresh, metadata=replace(fresh.metadata, creation_timestamp=None))
            await cluster.client.create_manifest(Pod, codec.encode(whole), "default")
            await kcr_clock.advance(1)
        yield Stage(cluster, kcr_clock)


async def test_oldest_pod_that_has_not_ended_is_meant(stage: Stage) -> None:  # TK-9
    assert (await stage.pods.succeed()).metadata.name == "first"
    assert (await stage.pods.fail()).metadata.name == "second"
    assert (await stage.pods.succeed("third")).metadata.name == "third"
    with pytest.raises(AssertionError, match="no pod in default that has not ended"):
        await stage.pods.succeed()


async def test_pod_of_a_completion_index_is_meant(stage: Stage) -> None:  # TK-9
    pod = await stage.pods.succeed(index=2)
    assert (pod.metadata.name, pod.status.phase) == ("third", "Succeeded")


async def test_running_pod_is_scheduled_and_ready(stage: Stage) -> None:  # TK-9
    pod = await stage.pods.run("second")
    assert pod.spec.node_name
    assert pod.status.phase == "Running"
    assert is_condition_true(pod.status.conditions, "Ready")
    pod = await stage.pods.run("second", ready=False)
    assert not is_condition_true(pod.status.conditions, "Ready")


async def test_failed_pod_says_how_its_containers_ended(stage: Stage) -> None:  # TK-9
    pod = await stage.pods.fail(exit_code=42)
    (container,) = pod.status.container_statuses
    assert container.state.terminated is not None
    assert container.state.terminated.exit_code == 42
    assert pod.status.phase == "Failed"


async def test_evicted_pod_is_gone(stage: Stage) -> None:  # TK-9
    await stage.pods.run("first")
    pod = await stage.pods.evict("first")
    disrupted = find_condition(pod.status.conditions, "DisruptionTarget")
    assert disrupted is not None
    assert disrupted.reason == "EvictionByEvictionAPI"
    assert pod.status.phase == "Failed"
    with pytest.raises(NotFoundError):
        await stage.read("first")


async def test_evicted_pod_stays_while_a_finalizer_holds_it(stage: Stage) -> None:  # TK-9
    pod = await stage.pods.run("first")
    await stage.client.merge_patch(Pod, pod.key, {"metadata": {"finalizers": ["kcr.dev/x"]}})
    await stage.pods.evict("first")
    pod = await stage.read("first")
    assert pod.metadata.deletion_timestamp is not None
    assert pod.status.phase == "Failed"


async def test_pending_pod_is_evicted_without_ever_running(stage: Stage) -> None:  # TK-9
    await stage.pods.evict("second")
    with pytest.raises(NotFoundError):
        await stage.read("second")


async def test_pod_of_a_lost_node_never_ends(stage: Stage) -> None:  # TK-9
    await stage.pods.run("first")
    pod = await stage.pods.lose("first")
    assert pod.metadata.deletion_timestamp is not None
    assert pod.status.phase == "Running"
    assert is_condition_true(pod.status.conditions, "DisruptionTarget")
