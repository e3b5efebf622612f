"""The copier by itself: the test says what the store holds, and looks at what was written."""

import pytest
from msgspec.structs import replace

import kcr
from examples.configmap_copier.copier import COPY, FROM, PATIENCE, TO, Copier, keys, setup
from kcr.api.core import ConfigMap
from kcr.testing import FakeManager, build, namespace_ends
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual

SOURCE = build.config_map(
    "colors", {"sky": "blue"}, labels={COPY: "true"}, annotations={TO: "kube-public, kube-system"}
)


class World:
    """A copier, the store it reads, and the server it writes to."""

    def __init__(self) -> None:
        self.manager = FakeManager()
        self.store = self.manager.informer(ConfigMap)
        self.copier = Copier(self.manager)

    async def reconcile(self) -> kcr.Result:
        """Reconcile the source, and let the store see what came of it, as the watch would."""
        result = await self.copier.reconcile(SOURCE.key)
        await self.manager.relist()
        return result

    async def copies(self) -> dict[str, str]:
        """The namespaces that have a copy, and the color of its sky."""
        return {obj.metadata.namespace: obj.data["sky"] for obj in await self.manager.client.list(ConfigMap)}


async def test_source_is_copied_into_the_namespaces_it_names() -> None:
    world = World()
    world.store.add(SOURCE)
    assert await world.reconcile() == kcr.Result()
    assert await world.copies() == {"kube-public": "blue", "kube-system": "blue"}


async def test_copies_follow_their_source() -> None:
    world = World()
    world.store.add(SOURCE)
    await world.reconcile()
    world.store.modify(replace(SOURCE, data={"sky": "grey"}))
    await world.reconcile()
    assert await world.copies() == {"kube-public": "grey", "kube-system": "grey"}


@pytest.mark.parametrize(
    ("labels", "annotations", "left"),
    [
        pytest.param({COPY: "true"}, {TO: "kube-public"}, {"kube-public"}, id="one-namespace-less"),
        pytest.param({COPY: "no"}, {TO: "kube-public"}, set(), id="no-longer-asks"),
        pytest.param({COPY: "true"}, {TO: "default,"}, set(), id="only-its-own-namespace"),
    ],
)
async def test_copies_that_are_not_asked_for_go(
    labels: dict[str, str], annotations: dict[str, str], left: set[str]
) -> None:
    world = World()
    world.store.add(SOURCE)
    await world.reconcile()
    world.store.modify(replace(SOURCE, metadata=replace(SOURCE.metadata, labels=labels, annotations=annotations)))
    await world.reconcile()
    assert set(await world.copies()) == left


async def test_copies_of_a_source_that_is_gone_go() -> None:
    world = World()
    world.store.add(SOURCE)
    await world.reconcile()
    world.store.delete(SOURCE)
    await world.reconcile()
    assert await world.copies() == {}


async def test_namespace_that_is_missing_does_not_hold_up_the_others() -> None:
    world = World()
    source = replace(SOURCE, metadata=replace(SOURCE.metadata, annotations={TO: "absent,kube-public"}))
    world.store.add(source)
    assert await world.reconcile() == kcr.Result(requeue_after=PATIENCE)
    assert await world.copies() == {"kube-public": "blue"}
    assert world.manager.recorder("configmap-copier").find("NotCopied", about=SOURCE.key)


async def test_config_map_of_somebody_else_is_left_alone() -> None:
    world = World()
    world.store.add(SOURCE)
    theirs = build.config_map("colors", {"sky": "red"}, namespace="kube-public", uid="", resource_version="")
    world.store.add(await world.manager.client.create(theirs))
    await world.reconcile()
    assert await world.copies() == {"kube-public": "red", "kube-system": "blue"}
    assert world.manager.recorder("configmap-copier").find("NameTaken")


async def test_change_of_a_copy_wakes_its_source() -> None:
    copy = build.config_map("colors", namespace="kube-public", annotations={FROM: "default/colors"})
    assert list(keys(copy)) == [SOURCE.key]
    assert list(keys(SOURCE)) == [SOURCE.key]


def config_map(name: str, to: str) -> ConfigMap:
    """Return a ConfigMap that is not stored yet, with the namespaces of its copies."""
    metadata = kcr.ObjectMeta(name=name, namespace="default", labels={COPY: "true"}, annotations={TO: to})
    return ConfigMap(metadata=metadata, data={"sky": "blue"})


async def test_namespace_with_a_source_ends(kcr_cluster: EmbeddedCluster) -> None:
    await namespace_ends(kcr_cluster, setup, [config_map("colors", "kube-public"), config_map("shapes", "kube-public")])
    assert await kcr_cluster.client.list(ConfigMap, "kube-public") == ()


async def test_namespace_with_a_copy_ends(kcr_cluster: EmbeddedCluster) -> None:
    await kcr_cluster.client.create(config_map("colors", "ending,kube-public"))
    await namespace_ends(kcr_cluster, setup, [config_map("other", "")])
    assert len(await kcr_cluster.client.list(ConfigMap, "kube-public")) == 1
