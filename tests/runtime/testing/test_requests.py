"""`requests`: what a manager sends, by verb, kind, key and reconcile; and what its metrics count in process."""

from random import Random

import pytest

import kcr
from kcr.api.core import ConfigMap, Secret
from kcr.client import Request
from kcr.scopes.leaderelection import LeaderElectionConfig, LeaderElector
from kcr.testing import FakeManager, FaultyTransport, VirtualClock, eventually, requests
from kcr_devcluster.cluster import EmbeddedCluster

pytestmark = pytest.mark.kcr_virtual

KEY = kcr.Key("default", "colors")
COPY = kcr.Key("default", "colors-copy")


def colors(name: str = KEY.name) -> ConfigMap:
    return ConfigMap(metadata=kcr.ObjectMeta(name=name, namespace="default"), data={"sky": "blue"})


class Copier:
    """Applies a copy of a ConfigMap, and touches it twice."""

    def __init__(self, manager: kcr.Manager) -> None:
        self.client = manager.client

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        if key == KEY:
            await self.client.apply(colors(COPY.name))
            for value in ("1", "2"):
                await self.client.merge_patch(ConfigMap, COPY, {"data": {"touched": value}})
        return kcr.Result()


def copier(manager: kcr.Manager) -> kcr.Manager:
    manager.add_controller("copier", Copier(manager), watches=[kcr.watch(ConfigMap, predicate=is_source)])
    return manager


def is_source(old: ConfigMap | None, new: ConfigMap | None) -> bool:
    return new is not None and new.key == KEY


async def test_requests_of_a_reconcile_are_counted_and_those_of_the_test_are_not(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client = kcr_cluster.client
    manager = copier(kcr.Manager(client, clock=kcr_clock, random=Random(1)))
    with requests(manager) as seen:
        async with manager.running():
            await client.create(colors())
            await eventually(lambda: seen.count("patch", ConfigMap) == 3)
            await client.merge_patch(ConfigMap, KEY, {"data": {"sky": "red"}})
            await kcr_clock.advance(60)
    await client.get(ConfigMap, KEY)
    assert seen.count() == 1 + 3 * 2, f"the watch, and two reconciles:\n{seen}"
    assert (seen.count("watch"), seen.count("create"), seen.count("get")) == (1, 0, 0)
    assert seen.count(kind=ConfigMap, key=KEY) == seen.count("patch") == 6
    assert seen.count("patch", ConfigMap, key=COPY) == seen.count("patch", Secret) == 0
    assert seen.per_reconcile("patch", ConfigMap) == seen.per_reconcile() == 3
    assert seen.per_reconcile("patch", ConfigMap, subresource="status") == 0
    one = next(request for request in seen.all if request.attributes.verb == "patch")
    assert (one.controller, one.key, one.resource, one.status) == ("copier", KEY, "configmaps", 201)
    assert one.sent > len('{"data":{"sky":"blue"}}')
    assert one.received > one.sent
    assert seen.bytes(key=KEY) > seen.bytes("patch", subresource="status") == 0


async def test_table_has_a_line_for_each_verb_and_kind_of_a_reconcile(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager = copier(kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(1)))
    with requests(manager) as seen:
        async with manager.running():
            await kcr_cluster.client.create(colors())
            await kcr_clock.advance(60)
    head, watch, patches = (line.split() for line in str(seen).splitlines())
    assert head == ["controller", "key", "reconcile", "verb", "resource", "count", "sent", "received"]
    assert watch == ["-", "-", "-", "watch", "configmaps", "1", "0", "0"]
    assert patches[:2] == ["copier", "default/colors"]
    assert patches[3:6] == ["patch", "configmaps", "3"]
    assert int(patches[7]) > int(patches[6]) > 100


async def test_long_table_names_what_it_leaves_out(kcr_clock: VirtualClock) -> None:
    manager = FakeManager()
    with requests(manager) as seen:
        await manager.client.list(ConfigMap)
    seen.all *= 2
    seen.all += [seen.all[0]._replace(reconcile=f"{number:016x}") for number in range(80)]
    *_, last = str(seen).splitlines()
    assert last == "… 21 more lines"


async def test_retry_is_a_request_and_one_without_an_answer_has_the_status_zero(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    faults = FaultyTransport(kcr_cluster.transport)
    faults.on("patch", ConfigMap, nth=1).lose_reply()
    manager = copier(kcr.Manager(kcr.Client(faults), clock=kcr_clock, random=Random(1)))
    with requests(manager) as seen:
        async with manager.running():
            await kcr_cluster.client.create(colors())
            await kcr_clock.advance(60)
    assert [one.status for one in seen.all if one.attributes.verb == "patch"].count(0) == 1


async def test_requests_of_leader_election_and_of_two_managers_are_told_apart(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    client, config = kcr_cluster.client, LeaderElectionConfig(name="copier", namespace="default")
    elector = LeaderElector(client, config, clock=kcr_clock, random=Random(1))
    leader = copier(kcr.Manager(client, clock=kcr_clock, random=Random(1), leader_election=elector))
    other = copier(kcr.Manager(client, clock=kcr_clock, random=Random(2)))
    with requests(leader) as seen, requests(other) as seen_of_other:
        async with leader.running(), other.running():
            await kcr_clock.advance(60)
    resources = {one.resource for one in seen.all}
    assert resources == {"configmaps", "leases.coordination.k8s.io", "events"}
    assert [one.resource for one in seen_of_other.all] == ["configmaps"]


class Checked:
    """A webhook that reads a Secret."""

    def __init__(self, manager: kcr.Manager) -> None:
        self.client = manager.client

    async def validate_create(self, obj: ConfigMap, request: kcr.WebhookRequest) -> None:
        if obj.metadata.name == COPY.name:
            await self.client.list(Secret, "default")


async def test_requests_of_a_webhook_belong_to_its_manager_and_to_no_reconcile(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    serving = kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(1))
    serving.add_webhook(ConfigMap, Checked(serving))
    writing = copier(kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(2)))
    with requests(serving) as seen, requests(writing) as seen_of_writer:
        async with serving.running(), writing.running():
            await kcr_cluster.client.create(colors())
            await kcr_clock.advance(60)
    (read,) = [one for one in seen.all if one.resource == "secrets"]
    assert (read.attributes.verb, read.controller, read.key, read.reconcile) == ("list", "", None, "")
    assert seen_of_writer.count("patch") == 3
    assert seen_of_writer.count("list", Secret) == 0


async def test_fake_manager_shows_the_requests_of_the_test_as_one_reconcile() -> None:
    manager = FakeManager()
    await manager.client.create(colors())
    with requests(manager) as seen:
        await Copier(manager).reconcile(KEY)
    await manager.client.list(ConfigMap)
    assert seen.count() == seen.per_reconcile("patch", ConfigMap) == 3, seen


async def test_discovery_has_a_path(kcr_clock: VirtualClock) -> None:
    manager = FakeManager()
    with requests(manager) as seen:
        await manager.client.request("GET", "/version")
    (one,) = seen.all
    assert (one.resource, one.attributes.verb) == ("/version", "get")


class Heard:
    """An observer of a client's own."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    def answered(self, request: Request, code: int, seconds: float) -> None:
        self.methods.append(request.method)

    def received(self, request: Request, size: int) -> None:
        return None


async def test_metrics_of_a_manager_count_its_requests_in_process(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    manager = copier(kcr.Manager(kcr_cluster.client, clock=kcr_clock, random=Random(1)))
    async with manager.running():
        await kcr_cluster.client.create(colors())
        await kcr_clock.advance(60)

    def value(code: str, method: str) -> float | None:
        labels = {"code": code, "method": method, "host": "in-process"}
        return manager.metrics.registry.get_sample_value("rest_client_requests_total", labels)

    assert (value("200", "GET"), value("201", "PATCH"), value("200", "PATCH")) == (1, 1, 2)
    assert value("201", "POST") is None, "the test's own"


async def test_client_with_an_observer_of_its_own_is_seen_as_well(
    kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock
) -> None:
    heard = Heard()
    client = kcr.Client(kcr_cluster.transport, observer=heard)
    manager = copier(kcr.Manager(client, clock=kcr_clock, random=Random(1)))
    with requests(manager) as seen:
        async with manager.running():
            await kcr_cluster.client.create(colors())
            await kcr_clock.advance(60)
    assert seen.count("patch", ConfigMap) == heard.methods.count("PATCH") == 3
