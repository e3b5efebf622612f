from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from kcr.client.context import writing
from kcr.controller import Expectations, OwnWrites
from kcr.dependents import set_controller
from kcr.testing import VirtualClock, build

pytestmark = pytest.mark.kcr_virtual

A, NAMESAKE = build.config_map("a", uid="1"), build.config_map("a", uid="2")
OF_A = set_controller(build.config_map("x"), A)


# EX-1, EX-4
async def test_nothing_expected_is_met() -> None:
    own_writes = OwnWrites()
    expectations = Expectations(own_writes)
    assert expectations.expectations_met(A)
    assert expectations.time_left(A) is None
    expectations.creation_observed(OF_A)
    expectations.lower(A, creations=1)
    assert expectations.expectations_met(A)
    assert own_writes.find(A.key, "1") is None


# EX-3, EX-5
@pytest.mark.parametrize(
    ("expect", "observe", "failed"),
    [
        pytest.param(
            Expectations.expect_creations, Expectations.creation_observed, {"creations": 1}, id="creations"
        ),
        pytest.param(
            Expectations.expect_deletions, Expectations.deletion_observed, {"deletions": 1}, id="deletions"
        ),
    ],
)  # fmt: skip
async def test_writes_are_expected_until_all_are_seen(
    expect: Callable[..., None], observe: Callable[..., None], failed: dict[str, Any]
) -> None:
    expectations = Expectations(OwnWrites())
    expect(expectations, A, 3)
    observe(expectations, OF_A)
    expectations.lower(A, **failed)
    assert not expectations.expectations_met(A)
    observe(expectations, OF_A)
    assert expectations.expectations_met(A)


async def test_handler_finds_the_owner_in_a_member_by_its_local_key() -> None:
    expectations = Expectations(OwnWrites())
    for cluster, owner in (("east", A), ("west", NAMESAKE)):
        with writing(owner=A.key.in_cluster(cluster)):
            expectations.expect_creations(owner, 1)
    expectations.creation_observed(OF_A)
    with writing(owner=A.key.in_cluster("east")):
        assert expectations.expectations_met(A)
    with writing(owner=A.key.in_cluster("west")):
        assert not expectations.expectations_met(NAMESAKE)


async def test_deletions_do_not_stand_for_creations() -> None:
    expectations = Expectations(OwnWrites())
    expectations.expect_creations(A, 1)
    expectations.deletion_observed(OF_A)
    assert not expectations.expectations_met(A)


# EX-2
async def test_new_expectations_replace_the_old() -> None:
    expectations = Expectations(OwnWrites())
    expectations.expect_creations(A, 5)
    expectations.expect_deletions(A, 1)
    expectations.deletion_observed(OF_A)
    assert expectations.expectations_met(A)


# EX-2
async def test_observations_may_outnumber_expectations() -> None:
    expectations = Expectations(OwnWrites())
    expectations.expect_creations(A, 1)
    for _ in range(3):
        expectations.creation_observed(OF_A)
    assert expectations.expectations_met(A)
    expectations.expect_creations(A, 1)
    assert not expectations.expectations_met(A)


# EX-11
async def test_namesake_with_another_uid_inherits_nothing() -> None:
    expectations = Expectations(OwnWrites())
    expectations.expect_creations(A, 1)
    assert expectations.expectations_met(NAMESAKE)
    expectations.creation_observed(set_controller(build.config_map("x"), NAMESAKE))
    assert not expectations.expectations_met(A)


async def test_owner_without_a_namespace_observes_its_objects() -> None:
    expectations = Expectations(OwnWrites())
    owner = replace(A, metadata=replace(A.metadata, namespace=""))
    expectations.expect_creations(owner, 1)
    expectations.creation_observed(build.config_map("alone"))
    assert not expectations.expectations_met(owner)
    expectations.creation_observed(set_controller(build.config_map("x"), owner))
    assert expectations.expectations_met(owner)


# EX-4, EX-6
async def test_expectations_expire_after_five_minutes(kcr_clock: VirtualClock) -> None:
    expectations = Expectations(OwnWrites())
    expectations.expect_creations(A, 1)
    await kcr_clock.advance(299)
    assert not expectations.expectations_met(A)
    assert expectations.time_left(A) == timedelta(seconds=1)
    await kcr_clock.advance(1)
    assert expectations.time_left(A) == timedelta(0)
    assert expectations.expectations_met(A)
    assert expectations.time_left(A) is None


# EX-7
async def test_forgotten_key_is_met() -> None:
    own_writes = OwnWrites()
    expectations = Expectations(own_writes)
    expectations.expect_creations(A, 1)
    assert own_writes.unconfirmed(A.key) == ("1 creations and 0 deletions expected",)
    own_writes.forget(A.key)
    assert expectations.expectations_met(A)
    assert own_writes.unconfirmed(A.key) == ()
