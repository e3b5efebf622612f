"""Deployments on the embedded cluster, in virtual time: rollouts, their conditions, and what disturbs them."""

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio

import kcr
from kcr.api.apps import Deployment, ReplicaSet
from kcr.api.core import Event, Namespace, Pod
from kcr.api.meta import controller_of
from kcr.api.pods import is_active, is_ready
from kcr.testing import CrashingTransport, VirtualClock, eventually
from kcr_devcluster.cluster import EmbeddedCluster, workloads
from kcr_devcluster.cluster.workloads.revisions import REVISION, REVISION_HISTORY, History, new_replica_set
from tests.kit.cluster_controllers import running_controllers
from tests.kit.workloads import LABELS, deployment, replica_set, said

pytestmark = pytest.mark.kcr_virtual

KEY = kcr.Key("default", "web")


def template(image: str, **annotations: str) -> dict[str, Any]:
    """The template of a pod; annotations are those of the simulation, such as `ready_after`."""
    simulated = {f"sim.kcr.dev/{name.replace('_', '-')}": text for name, text in annotations.items()}
    spec = {"containers": [{"name": "web", "image": image}]}
    return {"template": {"metadata": {"labels": LABELS, "annotations": simulated}, "spec": spec}}


def labelled(image: str, **labels: str) -> dict[str, Any]:
    """A template with labels of its own."""
    return {"template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": image}]}}}


class Web:
    """A Deployment named web, and those who look at it."""

    def __init__(self, client: kcr.Client) -> None:
        self.client = client

    async def create(self, **spec: Any) -> None:
        await self.client.create_manifest(Deployment, deployment(**spec), "default")

    async def change(self, **spec: Any) -> None:
        await self.client.merge_patch(Deployment, KEY, {"spec": spec})

    async def get(self) -> Deployment:
        return await self.client.get(Deployment, KEY)

    async def replica_sets(self) -> dict[str, ReplicaSet]:
        """The ReplicaSets by revision."""
        return {one.metadata.annotations[REVISION]: one for one in await self.client.list(ReplicaSet, "default")}

    async def pods(self) -> list[Pod]:
        return [pod for pod in await self.client.list(Pod, "default") if is_active(pod)]

    async def images(self) -> set[str]:
        return {pod.spec.containers[0].image for pod in await self.pods()}

    async def reason(self) -> str:
        """The reason of the condition Progressing."""
        return said((await self.get()).status.conditions).get("Progressing", ("", ""))[1]

    async def is_complete(self) -> bool:
        found = await self.get()
        counts = {found.status.replicas, found.status.updated_replicas, found.status.available_replicas}
        is_observed = found.status.observed_generation == found.metadata.generation
        return counts == {found.spec.replicas} and is_observed and len(await self.pods()) == found.spec.replicas

    async def completed(self) -> None:
        await eventually(self.is_complete, seconds=300)


@pytest.fixture
def web(kcr_cluster: EmbeddedCluster) -> Web:
    return Web(kcr_cluster.client)


async def test_deployment_becomes_available(web: Web) -> None:
    await web.create(replicas=3)
    await web.completed()
    found = await web.get()
    assert found.metadata.annotations[REVISION] == "1"
    assert said(found.status.conditions) == {
        "Progressing": ("True", "NewReplicaSetAvailable"), "Available": ("True", "MinimumReplicasAvailable"),
    }  # fmt: skip
    (only,) = (await web.replica_sets()).values()
    assert only.status.fully_labeled_replicas == only.status.available_replicas == 3


async def test_rolling_update_keeps_its_bounds(web: Web, kcr_clock: VirtualClock) -> None:
    await web.create(replicas=8, **template("v1", ready_after="5"))
    await web.completed()
    await web.change(**template("v2", ready_after="5"))
    while not await web.is_complete():
        pods = await web.pods()
        # 25% of 8 are two more, and two that are not ready.
        assert len(pods) <= 10
        assert sum(map(is_ready, pods)) >= 6
        await kcr_clock.advance(0.25)
    assert await web.images() == {"v2"}
    assert (await web.replica_sets())["1"].spec.replicas == 0


async def test_recreate_ends_all_old_pods_before_the_first_new_one(web: Web, kcr_clock: VirtualClock) -> None:
    slow = {"ignore_sigterm": "true"}
    await web.create(replicas=2, strategy={"type": "Recreate"}, **template("v1", **slow))
    await web.completed()
    await web.change(**template("v2", **slow))
    images = set()
    for _ in range(70):
        await kcr_clock.advance(0.5)
        images.add(frozenset(pod.spec.containers[0].image for pod in await web.client.list(Pod, "default")))
    assert images == {frozenset({"v1"}), frozenset({"v2"})}
    await web.completed()


async def test_rolling_back_takes_the_old_replica_set_up_again(web: Web) -> None:
    for image in ("v1", "v2", "v1"):
        await (web.change(**template(image)) if image == "v2" or await web.pods() else web.create(**template(image)))
        await web.completed()
    found = await web.replica_sets()
    assert (sorted(found), found["3"].metadata.annotations[REVISION_HISTORY]) == (["2", "3"], "1")
    assert (await web.get()).metadata.annotations[REVISION] == "3"
    assert await web.images() == {"v1"}


async def test_history_is_as_long_as_its_limit(web: Web, kcr_clock: VirtualClock) -> None:
    await web.create(revisionHistoryLimit=2, **template("v0"))
    for number in range(1, 5):
        await web.completed()
        await web.change(**template(f"v{number}"))
    await web.completed()
    await kcr_clock.advance(1)
    assert sorted(await web.replica_sets()) == ["3", "4", "5"]


async def test_rollout_without_progress_times_out_and_recovers(web: Web, kcr_clock: VirtualClock) -> None:
    await web.create(replicas=4, progressDeadlineSeconds=60)
    await web.completed()
    await web.change(**template("v2", image_error="ImagePullBackOff"))
    await kcr_clock.advance(59)
    assert await web.reason() == "ReplicaSetUpdated"
    await kcr_clock.advance(5)
    assert await web.reason() == "ProgressDeadlineExceeded"
    # Most old pods are still there.
    assert said((await web.get()).status.conditions)["Available"] == ("True", "MinimumReplicasAvailable")
    await web.change(**template("v3", image_error=""))
    await web.completed()
    assert await web.reason() == "NewReplicaSetAvailable"


async def test_paused_deployment_is_scaled_and_not_rolled_out(web: Web, kcr_clock: VirtualClock) -> None:
    await web.create(replicas=2, **template("v1"))
    await web.completed()
    await web.change(paused=True, replicas=3, **template("v2"))
    await kcr_clock.advance(5)
    assert (await web.reason(), await web.images(), len(await web.pods())) == ("DeploymentPaused", {"v1"}, 3)
    await web.change(paused=False)
    await web.completed()
    assert await web.images() == {"v2"}


async def test_scaling_during_a_rollout_is_shared_out(web: Web, kcr_clock: VirtualClock) -> None:
    await web.create(replicas=4, **template("v1"))
    await web.completed()
    await web.change(**template("v2", ready_after="3600"), strategy={"rollingUpdate": {"maxUnavailable": 0}})
    await kcr_clock.advance(5)
    await web.change(replicas=12)
    await kcr_clock.advance(5)
    sizes = {number: one.spec.replicas for number, one in (await web.replica_sets()).items()}
    assert sizes == {"1": 12, "2": 3}


async def test_name_that_is_taken_counts_as_a_collision(web: Web) -> None:
    await web.create(paused=True)
    taken = new_replica_set(await web.get(), History(None, ())).metadata.name
    other = replica_set(replicas=0, selector={"matchLabels": {"tier": "front"}}, **labelled("v1", tier="front"))
    await web.client.create_manifest(ReplicaSet, {**other, "metadata": {"name": taken}}, "default")
    await web.change(paused=False)
    await web.completed()
    assert (await web.get()).status.collision_count == 1


async def test_orphaned_replica_set_is_adopted(web: Web, kcr_clock: VirtualClock) -> None:
    await web.create(replicas=2)
    await web.completed()
    before = {pod.metadata.uid for pod in await web.pods()}
    await web.client.delete(Deployment, KEY, propagation="Orphan")
    await kcr_clock.advance(5)
    await web.create(replicas=2)
    await web.completed()
    assert {pod.metadata.uid for pod in await web.pods()} == before
    assert await web.reason() == "NewReplicaSetAvailable"


async def test_deleted_deployment_takes_all_along(web: Web) -> None:
    await web.create(replicas=2)
    await web.completed()
    await web.client.delete(Deployment, KEY)

    async def is_empty() -> bool:
        return not [*await web.client.list(Pod), *await web.client.list(ReplicaSet)]

    await eventually(is_empty, seconds=60)


async def test_namespace_that_ends_gets_no_new_replica_sets(web: Web) -> None:
    await web.client.create(Namespace(metadata=kcr.ObjectMeta(name="team")))
    for name in ("web", "shop"):
        made = {**deployment(replicas=2), "metadata": {"name": name}}
        await web.client.create_manifest(Deployment, made, "team")

    async def has_pods(count: int) -> bool:
        return len(await web.client.list(Pod, "team")) == count

    await eventually(lambda: has_pods(4))
    await web.client.delete(Namespace, kcr.Key("", "team"))

    async def is_gone() -> bool:
        return "team" not in {one.metadata.name for one in await web.client.list(Namespace)}

    await eventually(is_gone, seconds=120)
    assert await has_pods(0)


async def test_refused_pods_are_a_condition_of_the_deployment(web: Web, kcr_clock: VirtualClock) -> None:
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "1"}}}
    await web.client.create_manifest(kcr.unstructured("v1", "ResourceQuota", plural="resourcequotas"), quota, "default")
    await web.create(replicas=2)
    await kcr_clock.advance(60)
    assert said((await web.get()).status.conditions)["ReplicaFailure"] == ("True", "FailedCreate")
    # One event for all attempts, though each names another pod.
    (told,) = [event for event in await web.client.list(Event, "default") if event.reason == "FailedCreate"]
    assert told.count > 3
    await web.change(replicas=1)
    await web.completed()
    assert "ReplicaFailure" not in said((await web.get()).status.conditions)


@pytest_asyncio.fixture
async def bare(kcr_clock: VirtualClock) -> AsyncIterator[EmbeddedCluster]:
    """A cluster whose workload controllers the test runs itself."""
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), deployments=False) as cluster:
        yield cluster


async def test_nothing_acts_on_deployments_when_switched_off(bare: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    web = Web(bare.client)
    await web.create()
    await kcr_clock.advance(60)
    assert (await web.replica_sets(), await web.pods()) == ({}, [])


@pytest.mark.parametrize("write", [2, 8, *(pytest.param(write, marks=pytest.mark.soak) for write in (1, 3, 5, 13))])
async def test_crash_after_any_write_loses_nothing(bare: EmbeddedCluster, kcr_clock: VirtualClock, write: int) -> None:
    web, dying = Web(bare.client), CrashingTransport(bare.transport)
    await web.create(replicas=3, **template("v1"))
    dying.crash_after(write)
    async with running_controllers(kcr_clock, dying, workloads.setup):
        await kcr_clock.advance(5)
        await web.change(**template("v2"))
        await kcr_clock.advance(30)
    async with running_controllers(kcr_clock, bare.transport, workloads.setup):
        await web.completed()
        await kcr_clock.advance(60)
    assert await web.images() == {"v2"}
    assert all((owner := controller_of(pod.metadata)) and owner.kind == "ReplicaSet" for pod in await web.pods())


@pytest.mark.parametrize(
    "loss", ["cut", *(pytest.param(loss, marks=pytest.mark.soak) for loss in ("silence", "garbage", "502"))]
)
async def test_lost_replies_make_nothing_twice(bare: EmbeddedCluster, kcr_clock: VirtualClock, loss: Any) -> None:
    web, lossy = Web(bare.client), CrashingTransport(bare.transport)
    for write in range(1, 6):
        lossy.lose_reply(write, loss)
    async with running_controllers(kcr_clock, lossy, workloads.setup):
        await web.create(replicas=3)
        await kcr_clock.advance(120)
        await web.completed()
    assert len(await web.replica_sets()) == 1


IMAGES = ("v1", "v2", "v3")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 40))])
async def test_whatever_happens_it_ends_as_the_spec_says(web: Web, kcr_clock: VirtualClock, seed: int) -> None:
    random = Random(seed)
    await web.create(replicas=3, **template("v1", ready_after="2"))
    for _ in range(12):
        await kcr_clock.advance(random.choice((0.01, 0.5, 3, 20)))
        pods = await web.pods()
        match random.randrange(6):
            case 0:
                await web.change(replicas=random.randrange(8))
            case 1 | 2:
                await web.change(**template(random.choice(IMAGES), ready_after=random.choice(("0", "2", "9"))))
            case 3:
                await web.change(paused=random.random() < 0.5)
            case 4 if pods:
                await web.client.delete(Pod, random.choice(pods).key)
            case _:
                strategy = random.choice(("RollingUpdate", "Recreate"))
                await web.change(strategy={"type": strategy, "rollingUpdate": None})
    await web.change(paused=False, **template("v9", ready_after="0"))
    await web.completed()
    assert await web.images() <= {"v9"}
    assert await web.reason() == "NewReplicaSetAvailable"
    numbers = sorted(map(int, await web.replica_sets()))
    assert (await web.get()).metadata.annotations[REVISION] == str(numbers[-1])
    assert len(set(numbers)) == len(numbers)
