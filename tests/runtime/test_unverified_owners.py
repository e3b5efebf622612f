"""An owner is read live, once, when its store may show less of it than was written."""

import pytest

from kcr.api.core import ConfigMap
from kcr.client import Client
from kcr.controller import OwnWrites
from kcr.errors import ServerError
from kcr.informer import Store
from kcr.testing import FaultyTransport, build
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual

SENT = build.config_map("a", uid="", resource_version="")


async def test_owner_is_read_live_once_after_an_election(kcr_cluster: EmbeddedCluster) -> None:
    live = await kcr_cluster.client.create(SENT)
    version = int(live.metadata.resource_version)
    store, own_writes = Store[ConfigMap](), OwnWrites(leading_since=lambda: version - 1)
    assert own_writes.must_verify(live, store)
    await own_writes.verify(kcr_cluster.client, live, store)
    assert not own_writes.must_verify(live, store)
    assert own_writes.is_stale(live.key)
    assert own_writes.defer_if_stale(live.key, lambda: None)
    store.advance(live.metadata.resource_version)
    assert not own_writes.is_stale(live.key)
    assert not own_writes.defer_if_stale(live.key, lambda: None)
    # The store shows all that the leader before wrote of any other owner.
    assert not own_writes.must_verify(build.config_map("b"), store)


async def test_unconfirmed_status_is_verified_until_there_is_an_answer(
    kcr_cluster: EmbeddedCluster, kcr_faults: FaultyTransport
) -> None:
    live = await kcr_cluster.client.create(SENT)
    store, own_writes, client = Store[ConfigMap](), OwnWrites(), Client(kcr_faults)
    assert not own_writes.must_verify(live, store)
    own_writes.of(live).unconfirmed_status = True
    kcr_faults.on("get", ConfigMap, nth=1).fail(ServerError(500, "InternalError", "no"))
    with pytest.raises(ServerError):
        await own_writes.verify(client, live, store)
    assert own_writes.must_verify(live, store)
    await own_writes.verify(client, live, store)
    assert not own_writes.must_verify(live, store)
