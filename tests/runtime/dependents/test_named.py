"""Dependents with stated names, such as `shop-0` and `shop-1`: `create` makes each of them once."""

from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.core import ConfigMap
from kcr.api.meta import Key, is_controlled_by
from kcr.dependents import Attempts, UnconfirmedCreateError
from kcr.errors import AlreadyExistsError
from kcr.testing import VirtualClock, build
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.shop import Shop

pytestmark = pytest.mark.kcr_virtual


def numbered(number: int, **data: str) -> ConfigMap:
    return build.config_map(f"shop-{number}", data, labels={"app": "shop"}, uid="", resource_version="")


def names_of(attempts: Attempts[ConfigMap]) -> list[str]:
    return [made.metadata.name for made in attempts.done]


async def test_object_is_created_under_the_name_of_its_template(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    (made,) = (await shop.control.create(owner, numbered(0, x="1"))).done
    assert (made.key, made.data) == (Key("default", "shop-0"), {"x": "1"})
    assert is_controlled_by(made, owner)
    assert shop.told() == ["Normal SuccessfulCreate Created configmap: shop-0"]


async def test_numbered_objects_are_created_once_each(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    assert names_of(await shop.control.create(owner, numbered, 3)) == ["shop-0", "shop-1", "shop-2"]
    # Again, as after a crash: a controller that has just started and knows nothing.
    again = Shop(kcr_cluster)
    assert names_of(await again.control.create(owner, numbered, 4)) == ["shop-0", "shop-1", "shop-2", "shop-3"]
    assert await shop.names() == ["shop-0", "shop-1", "shop-2", "shop-3"]
    # What was there before was told of then.
    assert again.told() == ["Normal SuccessfulCreate Created configmap: shop-3"]


async def test_found_object_defers_the_owner_until_the_store_shows_it(kcr_cluster: EmbeddedCluster) -> None:
    shop, late = Shop(kcr_cluster), Shop(kcr_cluster)
    owner = await shop.owner()
    await shop.control.create(owner, numbered(0))
    (found,) = (await late.control.create(owner, numbered(0))).done
    assert late.own_writes.defer_if_stale(owner.key, lambda: None)
    late.informer.store.advance(found.metadata.resource_version)
    assert not late.own_writes.defer_if_stale(owner.key, lambda: None)


async def test_name_of_another_owner_is_refused_with_a_remedy(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    owner, other = await shop.owner(), await shop.owner("other")
    await shop.control.create(other, numbered(0))
    shop.recorder.events.clear()
    (failure,) = (await shop.control.create(owner, numbered(0))).failures
    assert isinstance(failure.error, AlreadyExistsError)
    assert str(failure.error) == (
        "configmap default/shop-0 exists, and is not controlled by configmaps default/shop: "
        "delete it, or use another name"
    )
    assert shop.told() == [f"Warning FailedCreate Error creating: {failure.error}"]
    assert not shop.own_writes.of(owner).creates


async def test_name_of_an_object_that_is_being_deleted_is_not_free(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    held = numbered(0)
    held = replace(held, metadata=replace(held.metadata, finalizers=("kcr.dev/x",)))
    (made,) = (await shop.control.create(owner, held)).done
    await kcr_cluster.client.delete(ConfigMap, made.key)
    (failure,) = (await shop.control.create(owner, held)).failures
    assert "is being deleted: its name is free once it is gone" in str(failure.error)


async def test_one_name_for_several_objects_is_refused(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    with pytest.raises(ValueError, match=r"default/shop-0: 2 objects of one name: let a function return"):
        await shop.control.create(await shop.owner(), numbered(0), 2)


@pytest.mark.parametrize("loss", ["silence", "cut", "404", "502"])
async def test_lost_reply_makes_no_second_object(kcr_cluster: EmbeddedCluster, loss: Any) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    shop.faults.on("create", ConfigMap, nth=1).lose_reply(loss)
    assert names_of(await shop.control.create(owner, numbered, 2)) == ["shop-0", "shop-1"]
    assert await shop.names() == ["shop-0", "shop-1"]
    assert shop.told() == [f"Normal SuccessfulCreate Created configmap: shop-{number}" for number in (0, 1)]


async def test_unconfirmed_create_is_sent_again_for_its_own_name_only(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    shop.faults.on("create", ConfigMap).lose_request()
    (failure,) = (await shop.control.create(owner, numbered(1))).failures
    assert isinstance(failure.error, UnconfirmedCreateError)
    shop.faults.heal()
    assert names_of(await shop.control.create(owner, numbered(0))) == ["shop-0"]
    assert [key.name for key in shop.own_writes.of(owner).creates] == ["shop-1"]
    assert names_of(await shop.control.create(owner, numbered(1, x="new"))) == ["shop-1"]
    assert (await kcr_cluster.client.get(ConfigMap, Key("default", "shop-1"))).data == {"x": "new"}
    assert not shop.own_writes.of(owner).creates


async def test_lost_reply_deletes_no_object_that_was_there(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    await shop.control.create(owner, numbered(0))
    tracked = replace(numbered(0), metadata=replace(numbered(0).metadata, finalizers=("kcr.dev/x",)))
    shop.faults.on("create", ConfigMap, nth=1).lose_reply()
    assert names_of(await shop.control.create(owner, tracked)) == ["shop-0"]
    assert await shop.names() == ["shop-0"]


async def test_lost_reply_takes_no_object_that_is_terminating(kcr_cluster: EmbeddedCluster) -> None:
    shop = Shop(kcr_cluster)
    owner = await shop.owner()
    tracked = replace(numbered(0), metadata=replace(numbered(0).metadata, finalizers=("kcr.dev/x",)))
    await shop.control.create(owner, tracked)
    await shop.client.delete(ConfigMap, Key("default", "shop-0"))
    shop.faults.on("create", ConfigMap, nth=1).lose_reply()
    (failure,) = (await shop.control.create(owner, tracked)).failures
    assert isinstance(failure.error, AlreadyExistsError)
    assert "is being deleted" in str(failure.error)
