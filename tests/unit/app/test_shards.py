"""Sharding at the start: the rights on Leases, and the filter of the server."""

from random import Random

import pytest

from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.app.permissions import Permissions
from kcr.app.shards import check_shard_leases, filter_finding
from kcr.client import Client
from kcr.errors import ForbiddenError
from kcr.informer import Selection
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.scripted_transport import Say, Script, failure

pytestmark = pytest.mark.kcr_virtual


def rules(*verbs: str) -> Say:
    rule = {"verbs": verbs, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    return Say({"status": {"resourceRules": [rule], "incomplete": False}}, status=201)


def refusal() -> Say:
    return Say({"status": {"allowed": False}}, status=201)


async def test_lease_rights_that_are_missing_are_named_together() -> None:
    script = Script(rules("get", "update"), refusal(), refusal(), refusal())
    words = '^cannot create, list, watch leases.coordination.k8s.io in the namespace "ops", and sharding needs it$'
    with pytest.raises(ForbiddenError, match=words):
        await check_shard_leases(Permissions(Client(script)), "ops")


async def test_right_to_delete_a_sign_of_life_is_not_needed() -> None:
    await check_shard_leases(Permissions(Client(Script(rules("list", "watch", "create", "update")))), "ops")


@pytest.mark.parametrize(("has_feature", "words"), [(True, "server filters"), (False, "does not filter")])
async def test_server_shows_whether_it_filters_by_shard(kcr_clock: VirtualClock, has_feature: bool, words: str) -> None:
    async with EmbeddedCluster(
        clock=kcr_clock, random=Random(0), runtime=None, sharded_list_and_watch=has_feature
    ) as cluster:
        finding = await filter_finding(cluster.client, [Selection(Job)])
    assert words in finding.text
    assert not finding.is_wrong


async def test_kind_that_cannot_be_listed_leaves_the_filter_unknown() -> None:
    script = Script(failure(403, "Forbidden"), failure(404, "NotFound"))
    finding = await filter_finding(Client(script), [Selection(Job), Selection(Pod)])
    assert finding.text.startswith("not told")
    assert all("shardSelector=" in target and "limit=1" in target for target in script.targets)
