from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api import codec
from kcr.api.core import ConfigMap, Pod
from kcr.api.meta import Key, controller_of, is_controlled_by
from kcr.client import Client
from kcr.dependents import claim, set_controller
from kcr.errors import ConflictError, KcrError, NotFoundError
from kcr.testing import FaultyTransport, build
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual

LABELS = {"app": "shop"}


def wanted(obj: ConfigMap) -> bool:
    return obj.metadata.labels == LABELS


async def made(cluster: EmbeddedCluster, name: str, **metadata: Any) -> ConfigMap:
    fresh: dict[str, Any] = {"uid": "", "resource_version": "", "creation_timestamp": None}
    return await cluster.client.create(build.config_map(name, **fresh | metadata))


async def test_what_is_wanted_is_adopted_and_the_rest_released(
    kcr_cluster: EmbeddedCluster,
) -> None:  # EX-24, EX-26, EX-27
    owner = await made(kcr_cluster, "owner")
    kept = await made(kcr_cluster, "kept", labels=LABELS, owner=owner)
    stray = await made(kcr_cluster, "stray", labels=LABELS)
    strange = await made(kcr_cluster, "strange", owner=owner, finalizers=("kcr.dev/x", "a.b/c"))
    claimed = await claim(kcr_cluster.client, owner, (kept, stray, strange, owner), wanted, finalizer="kcr.dev/x")
    assert [obj.metadata.name for obj in claimed.mine] == ["kept", "stray"]
    assert claimed.released == (strange.key,)
    assert claimed.errors == ()
    adopted = await kcr_cluster.client.get(ConfigMap, Key("default", "stray"))
    assert is_controlled_by(adopted, owner)
    assert adopted.metadata.finalizers == ("kcr.dev/x",)
    released = await kcr_cluster.client.get(ConfigMap, Key("default", "strange"))
    assert controller_of(released.metadata) is None
    assert released.metadata.finalizers == ("a.b/c",)


async def test_owner_is_read_once_and_only_for_adoptions(kcr_cluster: EmbeddedCluster) -> None:  # EX-25
    faults = FaultyTransport(kcr_cluster.transport)
    owner = await made(kcr_cluster, "owner")
    kept = await made(kcr_cluster, "kept", labels=LABELS, owner=owner)
    strays = [await made(kcr_cluster, f"stray-{number}", labels=LABELS) for number in range(3)]
    await claim(Client(faults), owner, [kept], wanted)
    assert faults.calls == []
    await claim(Client(faults), owner, strays, wanted)
    assert [call.verb for call in faults.calls] == ["get", "patch", "patch", "patch"]


async def test_owner_that_was_made_anew_adopts_nothing(kcr_cluster: EmbeddedCluster) -> None:  # EX-25
    old = await made(kcr_cluster, "owner")
    stray = await made(kcr_cluster, "stray", labels=LABELS)
    await kcr_cluster.client.delete(ConfigMap, old.key)
    await made(kcr_cluster, "owner")
    claimed = await claim(kcr_cluster.client, old, [stray], wanted)
    assert claimed.mine == ()
    assert [str(error) for error in claimed.errors] == [
        "configmaps default/owner: its name belongs to another object now, adopts nothing"
    ]
    assert (await kcr_cluster.client.get(ConfigMap, Key("default", "stray"))).metadata.owner_references == ()


async def test_owner_that_is_being_deleted_adopts_nothing(kcr_cluster: EmbeddedCluster) -> None:  # EX-25
    old = await made(kcr_cluster, "owner", finalizers=("a.b/c",))
    stray = await made(kcr_cluster, "stray", labels=LABELS)
    await kcr_cluster.client.delete(ConfigMap, old.key)
    claimed = await claim(kcr_cluster.client, old, [stray], wanted)
    assert [str(error) for error in claimed.errors] == ["configmaps default/owner: is being deleted, adopts nothing"]


async def test_owner_that_is_gone_adopts_nothing(kcr_cluster: EmbeddedCluster) -> None:  # EX-25
    old = await made(kcr_cluster, "owner")
    await kcr_cluster.client.delete(ConfigMap, old.key)
    claimed = await claim(kcr_cluster.client, old, [await made(kcr_cluster, "stray", labels=LABELS)], wanted)
    assert claimed.mine == ()
    assert [type(error) for error in claimed.errors] == [NotFoundError]


async def test_object_that_is_gone_is_not_adopted_and_no_error(kcr_cluster: EmbeddedCluster) -> None:  # EX-26
    owner, stray = await made(kcr_cluster, "owner"), await made(kcr_cluster, "stray", labels=LABELS)
    await kcr_cluster.client.delete(ConfigMap, stray.key)
    assert await claim(kcr_cluster.client, owner, [stray], wanted) == ((), (), (), ())


async def test_object_made_anew_is_an_error_of_its_own(kcr_cluster: EmbeddedCluster) -> None:  # EX-26
    owner, other = await made(kcr_cluster, "owner"), await made(kcr_cluster, "other", labels=LABELS)
    stray = await made(kcr_cluster, "stray", labels=LABELS)
    stale = replace(stray, metadata=replace(stray.metadata, uid="of-an-older-one"))
    claimed = await claim(kcr_cluster.client, owner, [stale, other], wanted)
    assert [obj.metadata.name for obj in claimed.adopted] == ["other"]
    assert len(claimed.errors) == 1
    assert (await kcr_cluster.client.get(ConfigMap, Key("default", "stray"))).metadata.owner_references == ()


async def test_conflict_concerns_one_object_alone(kcr_cluster: EmbeddedCluster) -> None:  # EX-26
    faults = FaultyTransport(kcr_cluster.transport)
    owner = await made(kcr_cluster, "owner")
    strays = [await made(kcr_cluster, name, labels=LABELS) for name in ("a", "b", "c")]
    faults.on("patch", name="b").fail(ConflictError)
    claimed = await claim(Client(faults), owner, strays, wanted)
    assert [obj.metadata.name for obj in claimed.adopted] == ["a", "c"]
    assert [type(error) for error in claimed.errors] == [ConflictError]


@pytest.mark.parametrize("uid", ["", "of-an-older-one"], ids=["gone", "made-anew"])
async def test_release_of_what_is_gone_is_done(kcr_cluster: EmbeddedCluster, uid: str) -> None:  # EX-27
    owner = await made(kcr_cluster, "owner")
    strange = await made(kcr_cluster, "strange", owner=owner)
    if uid:
        strange = replace(strange, metadata=replace(strange.metadata, uid=uid))
    else:
        await kcr_cluster.client.delete(ConfigMap, strange.key)
    claimed = await claim(kcr_cluster.client, owner, [strange], wanted)
    assert (claimed.released, claimed.errors) == ((strange.key,), ())


async def test_failed_release_is_an_error_of_its_own(kcr_cluster: EmbeddedCluster) -> None:  # EX-27
    faults = FaultyTransport(kcr_cluster.transport)
    faults.on("patch").lose_reply()
    owner = await made(kcr_cluster, "owner")
    strange = await made(kcr_cluster, "strange", owner=owner)
    claimed = await claim(Client(faults), owner, [strange], wanted)
    assert claimed.released == ()
    assert all(isinstance(error, KcrError) for error in claimed.errors)


async def test_pods_are_claimed_as_well(kcr_cluster: EmbeddedCluster) -> None:  # EX-26
    owner = await made(kcr_cluster, "owner")
    fresh = build.pod("p", uid="", resource_version="", creation_timestamp=None)
    pod = await kcr_cluster.client.create_manifest(Pod, codec.encode(fresh), "default")
    claimed = await claim(kcr_cluster.client, owner, [pod], lambda _: True)
    assert is_controlled_by(await kcr_cluster.client.get(Pod, Key("default", "p")), owner)
    assert set_controller(claimed.mine[0], owner) is claimed.mine[0]
