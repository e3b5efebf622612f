"""The controller: what it decides, one reconcile, its whole life in virtual time, and with a fault at every write."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

import kcr
from examples.website.api import Website, WebsiteSpec
from examples.website.controller import FINALIZER, SITES, WebsiteReconciler, compute_status, deployment, setup
from kcr.api.core import ConfigMap
from kcr.api.full.apps_v1 import Deployment, DeploymentStatus
from kcr.api.meta import is_controlled_by
from kcr.testing import FakeManager, VirtualClock, build, eventually, explore, namespace_ends
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.explore import World

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = kcr.Key("default", "hello")


def website(html: str = "<h1>Hello</h1>", *, replicas: int = 2) -> Website:
    """Return a website that is not stored yet."""
    metadata = kcr.ObjectMeta(name=KEY.name, namespace=KEY.namespace)
    return Website(metadata=metadata, spec=WebsiteSpec(title="A greeting", html=html, replicas=replicas))


def stored(html: str = "<h1>Hello</h1>") -> Website:
    """Return a website as a server would return it."""
    return replace(website(html), metadata=build.metadata(KEY.name, generation=3))


# What it decides.


@pytest.mark.parametrize(
    ("observed", "updated", "available", "ready"),
    [
        pytest.param(1, 2, 2, "True", id="all-serve"),
        pytest.param(1, 2, 1, "False", id="one-is-not-available"),
        pytest.param(1, 1, 2, "False", id="one-has-the-old-page"),
        pytest.param(0, 2, 2, "False", id="change-not-observed"),
        pytest.param(None, None, None, "False", id="no-status-yet"),
    ],
)
def test_website_is_ready_when_all_pods_serve_the_present_page(
    observed: int | None, updated: int | None, available: int | None, ready: str
) -> None:
    status = DeploymentStatus(observed_generation=observed, updated_replicas=updated, available_replicas=available)
    desired = deployment(stored())
    found = replace(desired, metadata=replace(desired.metadata, generation=1), status=status)
    (condition,) = compute_status(stored(), found, NOW).conditions
    assert (condition.type, condition.status, condition.observed_generation) == ("Ready", ready, 3)


def test_new_page_makes_new_pods() -> None:
    before, after = deployment(stored("<p>One</p>")), deployment(stored("<p>Two</p>"))
    assert before.spec.template != after.spec.template


# One reconcile, on a manager whose stores hold what the test says.


@pytest.mark.kcr_virtual
async def test_reconcile_applies_what_belongs_to_a_website() -> None:
    manager = FakeManager(kinds=[Website], follow_writes=True)
    reconciler, client = WebsiteReconciler(manager), manager.client
    created = await client.create(website())
    await reconciler.reconcile(KEY)  # the finalizer comes first
    await reconciler.reconcile(KEY)
    assert (await client.get(Website, KEY)).metadata.finalizers == (FINALIZER,)
    page = await client.get(ConfigMap, KEY)
    assert page.data["html"] == "<h1>Hello</h1>"
    assert is_controlled_by(page, created)
    assert (await client.get(Deployment, KEY)).spec.replicas == 2


# Its whole life, with Deployments and pods.


@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(kinds=[Website])
async def test_website_lives_and_is_cleaned_up(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    client = kcr_cluster.client
    manager = kcr.Manager(client, clock=kcr_clock)
    setup(manager)

    async def is_ready(replicas: int) -> bool:
        found = await client.get(Website, KEY)
        is_current = found.status.observed_generation == found.metadata.generation
        return is_current and found.status.ready == replicas and kcr.is_condition_true(found.status.conditions, "Ready")

    async def is_gone() -> bool:
        return not [*await client.list(Website), *await client.list(Deployment)]

    async with manager.running():
        await client.create(website())
        await eventually(lambda: is_ready(2))
        await client.merge_patch(Website, KEY, {"spec": {"replicas": 3, "html": "<h1>Hi</h1>"}})
        await eventually(lambda: is_ready(3))
        sites = kcr.Key(KEY.namespace, SITES)
        assert (await client.get(ConfigMap, sites)).data == {"hello": "A greeting"}
        await client.delete(Website, KEY)
        await eventually(is_gone)
        assert (await client.get(ConfigMap, sites)).data == {}


@pytest.mark.kcr_virtual
@pytest.mark.kcr_cluster(kinds=[Website])
async def test_namespace_with_live_websites_ends(kcr_cluster: EmbeddedCluster) -> None:
    await namespace_ends(kcr_cluster, setup, [website(replicas=1)])


# Every write with a crash, a lost reply and other faults, as far as the seconds suffice; Deployments stay as applied.


async def life(world: World) -> None:
    """Create a website, change it, and delete it."""
    await world.client.create(website())
    await world.settled()
    await world.client.merge_patch(Website, KEY, {"spec": {"html": "<h1>Hi</h1>"}})
    await world.settled()
    await world.client.delete(Website, KEY)


def test_website_survives_every_fault() -> None:
    explore(life, setup, kinds=[Website], deployments=False, seconds=2)
