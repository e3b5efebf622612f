"""The deletion of a namespace with live objects: controllers that let it end, and those that do not."""

import asyncio
from contextlib import suppress
from random import Random

import pytest
from msgspec.structs import replace

import kcr
from kcr.api.core import ConfigMap, Namespace
from kcr.testing import namespace_ends
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.namespaces import orders_of

FINALIZER = "example.dev/list"
PAGE = ConfigMap(metadata=kcr.ObjectMeta(name="page", namespace="default"))


class Pages:
    """Lists pages in a ConfigMap, from which a page is removed before it is deleted."""

    def __init__(self, manager: kcr.Manager, *, ignores_missing: bool = True, ignores_ending: bool = True) -> None:
        self._client, self._pages = manager.client, manager.store(ConfigMap)
        self._ignored: tuple[type[Exception], ...] = (kcr.NotFoundError,) if ignores_missing else ()
        self._ignores_ending = ignores_ending

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        page = self._pages.get(key)
        if page is None:
            return kcr.Result()
        if not await kcr.finalized(self._client, page, FINALIZER, lambda: self._remove(page)):
            return kcr.Result()
        pages = ConfigMap(metadata=kcr.ObjectMeta(name="list", namespace=key.namespace))
        try:
            await kcr.create_or_patch(self._client, pages, lambda found: replace(found, data={key.name: "here"}))
        except kcr.ForbiddenError as error:
            if not (self._ignores_ending and kcr.is_namespace_ending(error)):
                raise
        return kcr.Result()

    async def _remove(self, page: ConfigMap) -> None:
        with suppress(*self._ignored):
            pages = kcr.Key(page.metadata.namespace, "list")
            await self._client.merge_patch(ConfigMap, pages, {"data": {page.metadata.name: None}})


class Hasty(Pages):
    """Fails if the list is deleted a while before the page; the namespace controller deletes both at once."""

    _seen: float | None = None

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        now = asyncio.get_running_loop().time()
        if self._pages.get(kcr.Key(key.namespace, "list")) is not None:
            self._seen = now
        elif self._seen is not None and now > self._seen + 0.5:
            self._ignored = ()
        await super().reconcile(key)
        return kcr.Result(requeue_after=0.2)


def attach(manager: kcr.Manager, pages: kcr.Reconciler) -> None:
    def page_of(obj: ConfigMap) -> list[kcr.Key]:
        return [kcr.Key(obj.metadata.namespace, "page")] if obj.metadata.namespace != "kube-system" else []

    manager.add_controller("pages", pages, watches=[kcr.watch(ConfigMap, map_to=page_of)])


@pytest.mark.kcr_virtual
async def test_namespace_ends_in_every_order(kcr_cluster: EmbeddedCluster) -> None:
    await namespace_ends(kcr_cluster, lambda manager: attach(manager, Pages(manager)), [PAGE])
    assert "ending" not in {one.metadata.name for one in await kcr_cluster.client.list(Namespace)}


@pytest.mark.kcr_virtual
async def test_cleanup_that_needs_a_deleted_object_is_reported_with_the_order(kcr_cluster: EmbeddedCluster) -> None:
    with pytest.raises(AssertionError) as failed:
        await namespace_ends(kcr_cluster, lambda manager: attach(manager, Hasty(manager)), [PAGE])
    assert str(failed.value).splitlines() == [
        "namespace ending: it has not ended after 300 s",
        "order of the deletions: configmaps list, configmaps page",
        f"left: configmaps page, finalizers: {FINALIZER}",
        'controller pages, key ending/page: NotFoundError: configmaps "list" not found',
    ]


@pytest.mark.kcr_virtual
async def test_cleanup_that_needs_a_deleted_object_fails_on_every_cluster(kcr_cluster: EmbeddedCluster) -> None:
    with pytest.raises(AssertionError, match="order of the deletions: that of the namespace controller"):
        await namespace_ends(
            kcr_cluster, lambda manager: attach(manager, Pages(manager, ignores_missing=False)), [PAGE]
        )


@pytest.mark.kcr_virtual
async def test_create_that_is_retried_in_a_terminating_namespace_is_reported(kcr_cluster: EmbeddedCluster) -> None:
    with pytest.raises(AssertionError) as failed:
        await namespace_ends(kcr_cluster, lambda manager: attach(manager, Pages(manager, ignores_ending=False)), [PAGE])
    words, _, *failures = str(failed.value).splitlines()
    assert words.endswith("fails because it is terminating: return where kcr.is_namespace_ending(error)")
    assert failures[0].startswith("controller pages, key ending/page: ForbiddenError: configmaps ")


class Forever:
    """Fails for each page that no longer exists."""

    def __init__(self, manager: kcr.Manager) -> None:
        self._client, self._pages = manager.client, manager.store(ConfigMap)

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        if self._pages.get(key) is None and key.namespace == "ending":
            await self._client.get(ConfigMap, key)
        return kcr.Result()


@pytest.mark.kcr_virtual
async def test_key_that_fails_after_the_end_is_reported(kcr_cluster: EmbeddedCluster) -> None:
    with pytest.raises(AssertionError) as failed:
        await namespace_ends(kcr_cluster, lambda manager: attach(manager, Forever(manager)), [PAGE])
    assert str(failed.value).splitlines() == [
        "namespace ending: it has ended, and keys still fail after 300 s",
        "order of the deletions: that of the namespace controller",
        'controller pages, key ending/page: NotFoundError: configmaps "page" not found',
    ]


@pytest.mark.kcr_virtual
@pytest.mark.parametrize(
    ("objects", "words"),
    [
        pytest.param([], "no objects: name those that live in the namespace", id="none"),
        pytest.param(
            [PAGE, Namespace(metadata=kcr.ObjectMeta(name="team"))],
            "Namespace team is in no namespace: create it before", id="cluster-scoped",
        ),
    ],
)  # fmt: skip
async def test_objects_that_live_in_no_namespace_are_refused(
    kcr_cluster: EmbeddedCluster, objects: list[kcr.Resource], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        await namespace_ends(kcr_cluster, lambda manager: attach(manager, Pages(manager)), objects)


@pytest.mark.asyncio
async def test_real_time_is_refused() -> None:
    async with EmbeddedCluster(runtime=None) as cluster:
        with pytest.raises(RuntimeError, match="mark the test kcr_virtual"):
            await namespace_ends(cluster, "job", [PAGE])


def test_few_objects_are_deleted_in_all_orders() -> None:
    assert sorted(orders_of(3, 6, Random(0))) == [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]


def test_each_of_many_objects_is_deleted_before_and_after_every_other() -> None:
    drawn = orders_of(9, 6, Random(0))
    first, second = next(drawn), next(drawn)
    assert sorted(first) == list(range(9))
    assert second == first[::-1]
    assert next(drawn) not in (first, second)
