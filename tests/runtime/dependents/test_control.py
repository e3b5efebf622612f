import asyncio
from random import Random

import pytest
from msgspec.structs import replace

from kcr.api.core import ConfigMap, Namespace
from kcr.api.meta import Key, ObjectMeta, is_controlled_by
from kcr.dependents import DependentControl, UnconfirmedCreateError, set_controller
from kcr.errors import ForbiddenError, NotFoundError
from kcr.testing import VirtualClock, build
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.shop import Shop

pytestmark = pytest.mark.kcr_virtual

TEMPLATE = build.config_map("", {"x": "1"}, labels={"app": "shop"}, annotations={"a": "b"}, finalizers=("kcr.dev/x",))


async def test_objects_are_made_after_the_template_and_owned(kcr_cluster: EmbeddedCluster) -> None:  # EX-30
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    attempts = await shop.control.create(owner, TEMPLATE)
    (made,) = attempts.done
    assert made.metadata.name.startswith("shop-")
    assert (made.metadata.labels, made.metadata.annotations) == ({"app": "shop"}, {"a": "b"})
    assert made.metadata.finalizers == ("kcr.dev/x",)
    assert made.data == {"x": "1"}
    assert is_controlled_by(made, owner)
    assert made.metadata.owner_references[0].block_owner_deletion
    assert shop.told() == [f"Normal SuccessfulCreate Created configmap: {made.metadata.name}"]


async def test_long_names_are_cut_to_fit_a_label(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    template = replace(TEMPLATE, metadata=replace(TEMPLATE.metadata, generate_name="x" * 70))
    (made,) = (await shop.control.create(await shop.owner(), template)).done
    assert made.metadata.name.startswith("x" * 58)
    assert len(made.metadata.name) == 63


async def test_each_object_may_have_a_template_of_its_own(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    attempts = await shop.control.create(await shop.owner(), lambda n: replace(TEMPLATE, data={"n": str(n)}), 3)
    assert [made.data["n"] for made in attempts.done] == ["0", "1", "2"]


async def test_generated_names_may_begin_otherwise(kcr_cluster: EmbeddedCluster) -> None:  # EX-30
    shop = Shop(kcr_cluster)
    template = replace(TEMPLATE, metadata=replace(TEMPLATE.metadata, generate_name="page-"))
    attempts = await shop.control.create(await shop.owner(), template)
    assert attempts.done[0].metadata.name.startswith("page-")


async def test_template_without_labels_is_refused(kcr_cluster: EmbeddedCluster) -> None:  # EX-30
    shop = Shop(kcr_cluster)
    with pytest.raises(ValueError, match="configmaps default/shop: unable to create configmaps, no labels"):
        await shop.control.create(await shop.owner(), build.config_map(""))


async def test_many_creations_are_three_events_and_a_summary(kcr_cluster: EmbeddedCluster) -> None:  # EX-18, EX-30
    shop = Shop(kcr_cluster)
    attempts = await shop.control.create(await shop.owner(), TEMPLATE, 10)
    assert len(attempts.done) == 10
    assert len(shop.told()) == 4
    assert shop.told()[-1].startswith("Normal SuccessfulCreate Created 7 more configmaps: shop-")


async def test_skipped_and_failed_creations_are_counted(kcr_cluster: EmbeddedCluster) -> None:  # EX-18, EX-19
    shop = Shop(kcr_cluster)
    shop.faults.on("create", ConfigMap, nth=2).fail(ForbiddenError)
    attempts = await shop.control.create(await shop.owner(), TEMPLATE, 10)
    assert (len(attempts.done), attempts.skipped) == (2, 7)
    assert {type(failure.error) for failure in attempts.failures} == {ForbiddenError}
    assert len(await shop.objects()) == 2
    assert sum("FailedCreate" in event for event in shop.told()) == 1


async def test_refused_create_is_not_sent_again(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    shop.faults.on("create", ConfigMap).fail(ForbiddenError)
    await shop.control.create(owner, TEMPLATE)
    shop.faults.heal()
    assert (await shop.control.resolve(owner, wanted=True)).done == ()
    assert await shop.objects() == ()


async def test_create_whose_reply_is_lost_makes_one_object(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    shop.faults.on("create", ConfigMap, nth=1).lose_reply()
    attempts = await shop.control.create(owner, TEMPLATE)
    assert attempts.done == await shop.objects()
    assert shop.told() == [f"Normal SuccessfulCreate Created configmap: {attempts.done[0].metadata.name}"]
    assert not shop.own_writes.of(owner).creates


async def test_unconfirmed_create_is_sent_again_under_its_name(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    shop.faults.on("create", ConfigMap).lose_reply()
    shop.faults.on("get", ConfigMap).lose_request()
    attempts = await shop.control.create(owner, TEMPLATE)
    assert [type(failure.error) for failure in attempts.failures] == [UnconfirmedCreateError]
    assert (len(shop.own_writes.of(owner).creates), attempts.undone, shop.told()) == (1, 0, [])
    shop.faults.heal()
    # Of the three that are missing in the store, one is there.
    attempts = await shop.control.create(owner, replace(TEMPLATE, data={"x": "2"}), 3)
    assert len(attempts.done) == len(await shop.objects()) == 3
    assert not shop.own_writes.of(owner).creates


@pytest.mark.parametrize(
    ("wanted", "exists", "there"),
    [
        pytest.param(True, False, 1, id="sent-again"),
        pytest.param(False, False, 0, id="not-sent-again"),
        pytest.param(False, True, 1, id="found"),
    ],
)
async def test_unconfirmed_creates_are_resolved(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock, *, wanted: bool, exists: bool, there: int
) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    fault = shop.faults.on("create", ConfigMap)
    fault.lose_reply() if exists else fault.lose_request()
    shop.faults.on("get", ConfigMap).lose_request()
    await shop.control.create(owner, TEMPLATE)
    with pytest.raises(UnconfirmedCreateError):
        await shop.control.resolve(owner, wanted=wanted)
    shop.faults.heal()
    attempts = await shop.control.resolve(owner, wanted=wanted)
    assert attempts.done == await shop.objects()
    assert len(attempts.done) == there
    assert not shop.own_writes.of(owner).creates


async def test_unconfirmed_create_is_confirmed_by_the_store(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    shop.faults.on("create", ConfigMap).lose_reply()
    shop.faults.on("get", ConfigMap).lose_request()
    await shop.control.create(owner, TEMPLATE)
    (made,) = await shop.objects()
    assert shop.control.confirm(owner) == ()
    shop.informer.add(made)
    assert shop.control.confirm(owner) == (made,)
    assert shop.told() == [f"Normal SuccessfulCreate Created configmap: {made.metadata.name}"]
    shop.faults.heal()
    (second,) = (await shop.control.create(owner, TEMPLATE)).done
    assert second.metadata.name != made.metadata.name


async def test_object_of_another_owner_confirms_no_create(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    shop.faults.on("create", ConfigMap).lose_reply()
    shop.faults.on("get", ConfigMap).lose_request()
    await shop.control.create(owner, TEMPLATE)
    (made,) = await shop.objects()
    shop.informer.add(replace(made, metadata=replace(made.metadata, owner_references=())))
    assert shop.control.confirm(owner) == ()
    assert len(shop.own_writes.of(owner).creates) == 1
    assert shop.told() == []


async def test_create_that_is_cancelled_stays_unconfirmed(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    shop.faults.on("create", ConfigMap).delay(10)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await shop.control.create(owner, TEMPLATE)
    assert len(shop.own_writes.of(owner).creates) == 1


async def test_name_that_is_taken_is_drawn_again(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    (first,) = (await shop.control.create(owner, TEMPLATE)).done
    again = DependentControl(
        kcr_cluster.client, shop.recorder, ConfigMap,
        store=shop.informer.store, own_writes=shop.own_writes, random=Random(0),
    )  # fmt: skip
    (second,) = (await again.create(owner, TEMPLATE)).done
    assert second.metadata.name != first.metadata.name
    assert not shop.own_writes.of(owner).creates


async def test_namespace_that_ends_stops_creation_without_an_event(kcr_cluster: EmbeddedCluster) -> None:  # EX-20
    shop = Shop(kcr_cluster)
    await kcr_cluster.client.create(
        Namespace(metadata=build.metadata("going", namespace="", uid="", resource_version=""))
    )
    held = build.config_map("shop", namespace="going", uid="", resource_version="", finalizers=("kcr.dev/x",))
    owner = await kcr_cluster.client.create(held)
    await kcr_cluster.client.delete(Namespace, Key("", "going"))
    attempts = await shop.control.create(owner, TEMPLATE, 10)
    assert (len(attempts.done), attempts.skipped) == (0, 9)
    assert shop.told() == []


async def test_deletions_go_out_together_and_are_told(kcr_cluster: EmbeddedCluster) -> None:  # EX-22, EX-31
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    template = replace(TEMPLATE, metadata=replace(TEMPLATE.metadata, finalizers=()))
    made = (await shop.control.create(owner, template, 4)).done
    shop.recorder.events.clear()
    await kcr_cluster.client.delete(ConfigMap, made[0].key)
    shop.faults.on("delete", name=made[1].metadata.name).fail(ForbiddenError)
    attempts = await shop.control.delete(owner, made)
    assert attempts.done == made[2:]
    assert [(failure.number, type(failure.error)) for failure in attempts.failures] == [
        (0, NotFoundError),
        (1, ForbiddenError),
    ]
    assert [event.reason for event in shop.recorder.events] == ["SuccessfulDelete", "SuccessfulDelete", "FailedDelete"]


async def test_object_of_the_same_name_survives_a_late_deletion(kcr_cluster: EmbeddedCluster) -> None:  # EX-31
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    stale = replace(owner, metadata=replace(owner.metadata, uid="of-an-older-one"))
    assert len((await shop.control.delete(owner, [stale])).failures) == 1
    assert await kcr_cluster.client.get(ConfigMap, Key("default", "shop")) == owner


async def test_owner_is_deferred_until_the_store_shows_what_was_created(kcr_cluster: EmbeddedCluster) -> None:  # EX-32
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    made = (await shop.control.create(owner, TEMPLATE, 2)).done
    assert shop.own_writes.defer_if_stale(owner.key, lambda: None)
    shop.informer.store.advance(max(obj.metadata.resource_version for obj in made))
    assert not shop.own_writes.defer_if_stale(owner.key, lambda: None)


async def test_deleted_objects_are_pending_until_the_store_shows_it(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    made = (await shop.control.create(owner, TEMPLATE, 2)).done
    for obj in made:
        shop.informer.add(obj)
    await shop.control.delete(owner, made)
    assert shop.own_writes.of(owner).deleted == {obj.metadata.uid for obj in made}
    for obj in made:
        shop.informer.delete(obj)
    assert shop.own_writes.of(owner).deleted == frozenset()


async def test_object_that_is_still_shown_is_deleted_once(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    made = (await shop.control.create(owner, TEMPLATE, 2)).done
    for obj in made:
        shop.informer.add(obj)
    await shop.control.delete(owner, made[:1])
    shop.recorder.events.clear()
    again = await shop.control.delete(owner, made)
    assert (again.done, again.skipped) == (made[1:], 1)
    assert [event.reason for event in shop.recorder.events] == ["SuccessfulDelete"]


async def test_object_deleted_in_the_foreground_stays_until_its_dependents_are_deleted(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    shop, client = Shop(kcr_cluster), kcr_cluster.client
    owner = await shop.owner()
    template = replace(TEMPLATE, metadata=replace(TEMPLATE.metadata, finalizers=()))
    (made,) = (await shop.control.create(owner, template)).done
    metadata = ObjectMeta(name="held", namespace="default", finalizers=("example.dev/held",))
    held = await client.create(set_controller(ConfigMap(metadata=metadata), made))
    await shop.control.delete(owner, [made], propagation="Foreground")
    await kcr_clock.advance(60)
    assert (await client.get(ConfigMap, made.key)).metadata.deletion_timestamp is not None
    await client.merge_patch(ConfigMap, held.key, {"metadata": {"finalizers": None}})
    await kcr_clock.advance(60)
    with pytest.raises(NotFoundError):
        await client.get(ConfigMap, made.key)


async def test_object_that_was_gone_already_is_pending_as_well(kcr_cluster: EmbeddedCluster) -> None:  # EX-31
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    template = replace(TEMPLATE, metadata=replace(TEMPLATE.metadata, finalizers=()))
    (made,) = (await shop.control.create(owner, template)).done
    shop.informer.add(made)
    await kcr_cluster.client.delete(ConfigMap, made.key)
    assert len((await shop.control.delete(owner, [made])).failures) == 1
    # The store does not know it yet, and shows an object that is none any more.
    assert shop.own_writes.of(owner).deleted == {made.metadata.uid}
    shop.informer.delete(made)
    assert shop.own_writes.of(owner).deleted == frozenset()
