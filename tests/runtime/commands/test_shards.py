"""`kcr shards` on a cluster with Leases, and on one without."""

from datetime import UTC, datetime

import msgspec
import pytest

from kcr.api.coordination import Lease, LeaseSpec
from kcr.api.meta import MicroTime, ObjectMeta
from tests.kit.served_cluster import ServedCluster
from tests.runtime.commands.conftest import Command

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


def test_leases_become_a_table_and_json(kcr: Command, served: ServedCluster) -> None:
    time = MicroTime.of(datetime.now(UTC))  # noqa: TID251  # the command has the system's clock
    for number, holder in enumerate(("a", "")):
        labels = {"kcr.dev/sharding": "web", "kcr.dev/shard": str(number)}
        spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=3600, acquire_time=time, renew_time=time)
        made = Lease(metadata=ObjectMeta(name=f"web-shard-{number}", namespace="default", labels=labels), spec=spec)
        served.call(served.cluster.client.create(made))
    printed = kcr("shards", "--name", "web")
    assert printed.code == 0
    rows = [line.split() for line in printed.lines[1:3]]
    assert [(*row[:3], row[-1]) for row in rows] == [("0", "0-31", "a", "held"), ("1", "32-63", "-", "free")]
    found = msgspec.json.decode(kcr("shards", "--name", "web", "-o", "json").out)
    assert [one["holder"] for one in found["shards"]] == ["a", ""]


def test_leader_without_sharding_is_named(kcr: Command, served: ServedCluster) -> None:
    time = MicroTime.of(datetime.now(UTC))  # noqa: TID251  # the command has the system's clock
    for name, holder, labels in (
        ("db", "old", {}),
        ("db-shard-0", "a", {"kcr.dev/sharding": "db", "kcr.dev/shard": "0"}),
    ):
        spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=3600, acquire_time=time, renew_time=time)
        made = Lease(metadata=ObjectMeta(name=name, namespace="default", labels=labels), spec=spec)
        served.call(served.cluster.client.create(made))
    printed = kcr("shards", "--name", "db")
    assert printed.lines[-1] == "old leads without sharding: replicas with --shards wait until it ends"


def test_program_without_leases_is_one_line(kcr: Command) -> None:
    printed = kcr("shards", "-n", "kube-system")
    assert (printed.code, printed.out) == (1, "")
    assert printed.err == (
        "kcr: no leases of sharding named kcr-controller-manager in namespace kube-system: name another namespace "
        "with -n, another program with --name, or start replicas with --shards\n"
    )
