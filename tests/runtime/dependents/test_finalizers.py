import pytest

from kcr.api.core import ConfigMap
from kcr.api.meta import Key
from kcr.client import Client
from kcr.dependents import finalized
from kcr.errors import ConflictError, ServerError
from kcr.testing import FaultyTransport, build
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual

NAME = "kcr.dev/cleanup"


class Site:
    """An object with something to clean up."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster
        self.faults = FaultyTransport(cluster.transport)
        self.cleanups = 0
        self.broken = False

    async def make(self, *finalizers: str) -> ConfigMap:
        fresh = build.config_map("site", uid="", resource_version="", finalizers=finalizers)
        return await self.cluster.client.create(fresh)

    async def read(self) -> ConfigMap:
        return await self.cluster.client.get(ConfigMap, Key("default", "site"))

    async def reconcile(self, site: ConfigMap | None = None) -> bool:
        return await finalized(Client(self.faults), site or await self.read(), NAME, self._clean_up)

    async def _clean_up(self) -> None:
        self.cleanups += 1
        if self.broken:
            raise RuntimeError("not yet")


@pytest.mark.parametrize("others", [(), ("a.b/c",)], ids=["alone", "beside-others"])
async def test_finalizer_is_written_before_anything_else(kcr_cluster: EmbeddedCluster, others: tuple[str, ...]) -> None:
    site = Site(kcr_cluster)  # EX-38
    await site.make(*others)
    assert not await site.reconcile()
    assert (await site.read()).metadata.finalizers == (*others, NAME)
    assert await site.reconcile()
    assert site.cleanups == 0


async def test_cleanup_comes_before_the_object_goes(kcr_cluster: EmbeddedCluster) -> None:  # EX-38
    site = Site(kcr_cluster)
    await site.make("a.b/c", NAME, "d.e/f")
    await kcr_cluster.client.delete(ConfigMap, (await site.read()).key)
    assert not await site.reconcile()
    assert site.cleanups == 1
    assert (await site.read()).metadata.finalizers == ("a.b/c", "d.e/f")
    assert not await site.reconcile()
    assert site.cleanups == 1


async def test_cleanup_may_be_a_plain_function(kcr_cluster: EmbeddedCluster) -> None:
    site, cleaned = Site(kcr_cluster), list[str]()
    await site.make(NAME)
    await kcr_cluster.client.delete(ConfigMap, (await site.read()).key)
    assert not await finalized(kcr_cluster.client, await site.read(), NAME, lambda: cleaned.append("site"))
    assert cleaned == ["site"]


async def test_finalizer_stays_while_cleanup_fails(kcr_cluster: EmbeddedCluster) -> None:  # EX-38
    site = Site(kcr_cluster)
    await site.make(NAME)
    await kcr_cluster.client.delete(ConfigMap, (await site.read()).key)
    site.broken = True
    with pytest.raises(RuntimeError, match="not yet"):
        await site.reconcile()
    site.broken = False
    assert not await site.reconcile()
    assert await kcr_cluster.client.list(ConfigMap, "default") == ()


async def test_lost_answer_to_the_removal_does_no_harm(kcr_cluster: EmbeddedCluster) -> None:  # EX-38
    site = Site(kcr_cluster)
    await site.make(NAME)
    await kcr_cluster.client.delete(ConfigMap, (await site.read()).key)
    held = await site.read()
    assert not await site.reconcile(held)
    assert not await site.reconcile(held)
    assert site.cleanups == 2


async def test_proxys_404_leaves_no_finalizer(kcr_cluster: EmbeddedCluster) -> None:
    site = Site(kcr_cluster)
    await site.make(NAME)
    await kcr_cluster.client.delete(ConfigMap, (await site.read()).key)
    site.faults.on("patch", nth=1).lose_request(page=404)
    with pytest.raises(ServerError, match="HTTP 404"):
        await site.reconcile()
    assert not await site.reconcile()
    assert await kcr_cluster.client.list(ConfigMap, "default") == ()


@pytest.mark.parametrize("deleted", [False, True])
async def test_stale_object_is_not_written_to(kcr_cluster: EmbeddedCluster, deleted: bool) -> None:  # EX-38
    site = Site(kcr_cluster)
    old = await site.make(*(("x.y/z", NAME) if deleted else ()))
    if deleted:
        await kcr_cluster.client.delete(ConfigMap, old.key)
        old = await site.read()
    changed = ["other.dev/first"] if not deleted else [NAME]
    await kcr_cluster.client.merge_patch(ConfigMap, old.key, {"metadata": {"finalizers": changed}})
    with pytest.raises(ConflictError, match=r"configmaps default/.*: it has changed: the patch tests /metadata/uid, "):
        await site.reconcile(old)
    assert (await site.read()).metadata.finalizers == tuple(changed)
