"""Objects that a mutating webhook or policy changes on their creation."""

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.core import ConfigMap
from kcr.api.meta import Key
from kcr.client import Client
from kcr.controller import OwnWrites
from kcr.dependents import AlteredObjectError, Attempts, DependentControl
from kcr.testing import FakeInformer, FakeRecorder, FaultyTransport, VirtualClock, build
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.transports import disown, of_metadata, unfinalize

pytestmark = pytest.mark.kcr_virtual

TEMPLATE = build.config_map("", {"x": "1"}, labels={"app": "shop", "tier": "a"}, finalizers=("kcr.dev/x",))


def selects(owner: ConfigMap, obj: ConfigMap) -> bool:
    return obj.metadata.labels.get("app") == owner.metadata.name


class Shop:
    """An owner that finds its ConfigMaps by a label, and a webhook on their creation."""

    def __init__(self, cluster: EmbeddedCluster, mutate: Any, *, by_labels: bool = True) -> None:
        self.client = cluster.client
        webhooks = FaultyTransport(cluster.transport)
        self.webhook = webhooks.on("create", ConfigMap)
        self.webhook.change(of_metadata(mutate))
        self.faults = FaultyTransport(webhooks)
        self.recorder = FakeRecorder()
        self.own_writes = OwnWrites()
        self.control = DependentControl(
            Client(self.faults), self.recorder, ConfigMap, store=FakeInformer(ConfigMap).store,
            own_writes=self.own_writes, random=Random(0), selects=selects if by_labels else None,
        )  # fmt: skip

    async def create(self, count: int = 1) -> Attempts[ConfigMap]:
        if not hasattr(self, "owner"):
            self.owner = await self.client.create(build.config_map("shop", uid="", resource_version=""))
            self.faults.calls.clear()
        return await self.control.create(self.owner, TEMPLATE, count)

    async def left(self) -> list[str]:
        return [found.key.name for found in await self.client.list(ConfigMap, "default") if found.key.name != "shop"]

    def verbs(self) -> list[str]:
        return [call.verb for call in self.faults.calls]


def relabel(metadata: dict[str, Any]) -> None:
    metadata["labels"]["app"] = "other"


def unlabel(metadata: dict[str, Any]) -> None:
    del metadata["labels"]["app"]


@pytest.mark.parametrize(
    ("mutate", "change"),
    [
        pytest.param(relabel, "its label app is 'other'", id="label-changed"),
        pytest.param(unlabel, "its label app is missing", id="label-removed"),
        pytest.param(disown, "its owner reference is missing", id="owner-removed"),
        pytest.param(unfinalize, "its finalizer kcr.dev/x is missing", id="finalizer-removed"),
    ],
)
async def test_altered_object_is_deleted_and_counts_as_refused(
    kcr_cluster: EmbeddedCluster, mutate: Any, change: str
) -> None:
    shop = Shop(kcr_cluster, mutate)
    attempts = await shop.create(7)
    assert (attempts.done, attempts.skipped) == ((), 6)
    (failure,) = attempts.failures
    assert isinstance(failure.error, AlteredObjectError)
    assert await shop.left() == []
    (event,) = map(str, shop.recorder.events)
    assert event.startswith("Warning FailedCreate Error creating: configmap default/shop-")
    assert f"was changed when it was created, and is deleted again: {change}: " in event


async def test_change_that_the_owner_does_not_need_is_no_failure(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster, lambda metadata: metadata.update(labels={"app": "shop", "tier": "b", "by": "a-policy"}))
    assert len((await shop.create(3)).done) == 3


async def test_labels_do_not_count_without_a_selector(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster, relabel, by_labels=False)
    assert len((await shop.create(3)).done) == 3


async def test_next_creates_wait_twice_as_long_each_time(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    shop = Shop(kcr_cluster, relabel)
    sent = list[float]()
    while kcr_clock.boottime() < 200:
        (failure,) = (await shop.create()).failures
        assert isinstance(failure.error, AlteredObjectError)
        if not failure.error.is_repeated:
            sent.append(kcr_clock.boottime())
        await kcr_clock.advance(0.5)
    assert sent == [0, 1, 3, 7, 15, 31, 63, 123, 183]
    # What is repeated is no news.
    assert len(shop.recorder.events) == len(sent)


async def test_backoff_ends_with_the_first_object_that_is_as_asked_for(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    shop = Shop(kcr_cluster, relabel)
    for _ in range(4):
        await shop.create()
        await kcr_clock.advance(10)
    shop.webhook.change(lambda obj: None)
    await kcr_clock.advance(60)
    assert len((await shop.create(2)).done) == 2
    shop.webhook.change(of_metadata(relabel))
    await shop.create()
    await kcr_clock.advance(1)
    assert not getattr((await shop.create()).failures[0].error, "is_repeated", True)


async def test_other_owners_do_not_wait(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster, relabel)
    await shop.create()
    shop.webhook.change(lambda obj: None)
    other = await kcr_cluster.client.create(build.config_map("shop2", uid="", resource_version=""))
    template = replace(TEMPLATE, metadata=replace(TEMPLATE.metadata, labels={"app": "shop2"}))
    assert len((await shop.control.create(other, template)).done) == 1


@pytest.mark.parametrize("verb", ["patch", "delete"])
async def test_lost_reply_leaves_nothing_behind(kcr_cluster: EmbeddedCluster, verb: Any) -> None:
    shop = Shop(kcr_cluster, relabel)
    await shop.create(0)
    shop.faults.on(verb, ConfigMap, nth=1).lose_reply()
    attempts = await shop.create()
    assert isinstance(attempts.failures[0].error, AlteredObjectError)
    assert await shop.left() == []
    # A deletion without an answer is not promised.
    assert ("is deleted again" in str(attempts.failures[0].error)) is (verb != "delete")


async def test_altered_object_that_another_client_writes_to_is_freed(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster, relabel)
    await shop.create(0)

    async def label() -> None:
        (name,) = await shop.left()
        await shop.client.merge_patch(ConfigMap, Key("default", name), {"metadata": {"labels": {"by": "a-scheduler"}}})

    shop.faults.on("patch", ConfigMap, nth=1).then(label)
    await shop.create()
    assert await shop.left() == []


async def test_object_that_is_relabelled_before_its_create_is_confirmed_stays(kcr_cluster: EmbeddedCluster) -> None:
    # A user took it from its owner, to debug it: `claim` releases it. No webhook has altered it.
    shop = Shop(kcr_cluster, lambda metadata: None)
    await shop.create(0)
    shop.faults.on("create", ConfigMap).lose_reply()
    shop.faults.on("get", ConfigMap).lose_request()
    await shop.create()
    assert len(shop.own_writes.of(shop.owner).creates) == 1
    (name,) = await shop.left()
    await shop.client.merge_patch(ConfigMap, Key("default", name), {"metadata": {"labels": {"app": "other"}}})
    shop.faults.heal()
    attempts = await shop.control.resolve(shop.owner, wanted=False)
    assert ([made.metadata.name for made in attempts.done], attempts.failures) == ([name], ())
    assert await shop.left() == [name]
    assert not shop.own_writes.of(shop.owner).creates
    assert len((await shop.create()).done) == 1


async def test_pause_outlasts_a_batch_with_one_altered_object(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    shop, created = Shop(kcr_cluster, lambda metadata: None), list[str]()

    def alter_third(metadata: dict[str, Any]) -> None:
        created.append(metadata["name"])
        if len(created) == 3:
            relabel(metadata)

    shop.webhook.change(of_metadata(alter_third))
    attempts = await shop.create(3)
    assert len(attempts.done) == 2
    assert getattr((await shop.create()).failures[0].error, "is_repeated", False)
