"""What the Leases of sharding show of a program."""

from datetime import UTC, datetime, timedelta

import pytest

from kcr.api.coordination import Lease, LeaseSpec
from kcr.api.meta import MicroTime, ObjectMeta
from kcr.scopes.sharding.leases import LeaseState, overview, state_of

NOW = datetime(2026, 1, 1, 12, microsecond=1, tzinfo=UTC)


def lease(name: str, holder: str, *, renewed: float = 1, **labels: str) -> Lease:
    time = MicroTime.of(NOW - timedelta(seconds=renewed))
    spec = LeaseSpec(holder_identity=holder, lease_duration_seconds=15, acquire_time=time, renew_time=time)
    names = {f"kcr.dev/{label}": value for label, value in {"sharding": "web", **labels}.items()}
    return Lease(metadata=ObjectMeta(name=name, namespace="default", labels=names), spec=spec)


def shard(number: int, holder: str, *, renewed: float = 1) -> Lease:
    return lease(f"web-shard-{number}", holder, renewed=renewed, shard=str(number))


def replica(identity: str, count: int, *, renewed: float = 1) -> Lease:
    return lease(f"web-replica-{identity}", identity, renewed=renewed, shards=str(count))


def test_every_shard_has_its_slots_holder_and_state() -> None:
    found = overview([shard(0, "a"), shard(1, "b", renewed=15), shard(2, ""), replica("a", 4)], NOW)
    assert [(one.first_slot, one.last_slot) for one in found.shards] == [(0, 15), (16, 31), (32, 47), (48, 63)]
    assert [one.holder for one in found.shards] == ["a", "b", "", ""]
    held, expired, free = LeaseState.HELD, LeaseState.EXPIRED, LeaseState.FREE
    assert [one.state for one in found.shards] == [held, expired, free, free]
    assert found.shards[3].since is None


def test_replicas_are_listed_with_the_shards_they_hold() -> None:
    found = overview([shard(0, "b"), shard(1, "a"), replica("a", 2), replica("b", 2, renewed=60)], NOW)
    assert [(one.identity, one.shards, one.state.value) for one in found.replicas] == [
        ("a", (1,), "held"),
        ("b", (0,), "expired"),
    ]


def test_holder_without_a_sign_of_life_is_listed() -> None:
    (only,) = overview([shard(0, "a")], NOW).replicas
    assert (only.identity, only.shards, only.renewed, only.state) == ("a", (0,), None, LeaseState.EXPIRED)


def test_leases_of_an_earlier_number_of_shards_are_left_out() -> None:
    leases = [shard(number, "a" if number < 4 else "") for number in range(16)]
    assert len(overview([*leases, replica("a", 4)], NOW).shards) == 4


def test_without_replicas_the_highest_shard_tells_the_number() -> None:
    assert len(overview([shard(0, ""), shard(5, "")], NOW).shards) == 8


def test_live_replicas_decide_the_number_of_shards() -> None:
    assert len(overview([replica("a", 4), replica("b", 8, renewed=60)], NOW).shards) == 4


def test_no_lease_shows_nothing() -> None:
    assert overview([], NOW) == ((), ())


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(LeaseSpec(), LeaseState.FREE, id="no-holder"),
        pytest.param(LeaseSpec(holder_identity="a"), LeaseState.EXPIRED, id="never-renewed"),
        pytest.param(
            LeaseSpec(holder_identity="a", renew_time=MicroTime.of(NOW)), LeaseState.EXPIRED, id="no-duration"
        ),
        pytest.param(
            LeaseSpec(holder_identity="a", renew_time=MicroTime.of(NOW), lease_duration_seconds=1),
            LeaseState.HELD,
            id="a-second-left",
        ),
    ],
)
def test_state_of_a_lease_follows_from_its_last_renewal(spec: LeaseSpec, expected: LeaseState) -> None:
    assert state_of(Lease(spec=spec), NOW) is expected
