import itertools
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from kcr.api.coordination import Lease, LeaseSpec
from kcr.api.meta import MicroTime, ObjectMeta
from kcr.scopes.leaderelection.config import LeaderElectionConfig, Observation, claimed, released

THEN = MicroTime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 1, 1, 0, 1, 2, 345678, tzinfo=UTC)
CONFIG = LeaderElectionConfig(name="web", identity="me")


def record(holder: str, transitions: int = 3) -> LeaseSpec:
    return LeaseSpec(
        holder_identity=holder, lease_duration_seconds=15, acquire_time=THEN, renew_time=THEN,
        lease_transitions=transitions, preferred_holder="kept",
    )  # fmt: skip


def seen(spec: LeaseSpec, at: float = 100.0) -> Observation:
    return Observation(Lease(metadata=ObjectMeta(name="web", namespace="default"), spec=spec), at)


def test_renewal_keeps_acquire_time_and_transitions() -> None:  # CM-33
    assert claimed(record("me"), CONFIG, NOW) == replace(record("me"), renew_time=MicroTime.of(NOW))


@pytest.mark.parametrize("microsecond", [0, 1, 999_998, 999_999])
def test_renewals_at_one_moment_differ_and_are_no_whole_seconds(microsecond: int) -> None:
    moment, spec, times = NOW.replace(microsecond=microsecond), record("me"), []
    for _ in range(4):
        spec = claimed(spec, CONFIG, moment)
        assert spec.renew_time is not None
        times.append(spec.renew_time)
    assert all(one != following for one, following in itertools.pairwise(times))
    assert all(time.microsecond and moment <= time <= moment + timedelta(microseconds=3) for time in times)


def test_another_holder_counts_a_transition() -> None:  # CM-33
    taken = claimed(record("other"), CONFIG, NOW)
    assert (taken.holder_identity, taken.lease_transitions) == ("me", 4)
    assert taken.acquire_time == taken.renew_time == NOW
    assert taken.preferred_holder == "kept"


def test_first_record_has_no_transition() -> None:  # CM-33
    first = claimed(None, CONFIG, NOW)
    assert (first.holder_identity, first.lease_transitions, first.lease_duration_seconds) == ("me", 0, 15)


def test_released_record_names_no_holder() -> None:  # CM-34
    free = released(record("me"), NOW)
    assert (free.holder_identity, free.lease_duration_seconds, free.lease_transitions) == ("", 1, 3)


@pytest.mark.parametrize(
    ("holder", "after", "held"),
    [
        pytest.param("other", 14.9, True, id="others-lease"),
        pytest.param("other", 15.0, False, id="expired"),
        pytest.param("me", 1.0, False, id="ours"),
        pytest.param("", 1.0, False, id="released"),
    ],
)
def test_lease_of_another_is_held_until_it_expires(holder: str, after: float, held: bool) -> None:  # CM-31
    assert seen(record(holder)).is_held_by_other("me", 100.0 + after) is held


def test_lease_without_duration_has_expired() -> None:
    spec = replace(record("other"), lease_duration_seconds=None)
    assert not seen(spec).is_held_by_other("me", 100.0)


def test_same_record_begins_no_new_lease() -> None:  # CM-31
    first = seen(record("other"))
    assert first.follow(first.lease, 110.0).changed_at == 100.0
    renewed = replace(first.lease, spec=replace(first.lease.spec, renew_time=THEN + timedelta(seconds=2)))
    assert first.follow(renewed, 110.0).changed_at == 110.0
