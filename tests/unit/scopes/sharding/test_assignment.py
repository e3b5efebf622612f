"""The shares of replicas, and the moves towards them (CM-66)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.scopes.sharding.assignment import (
    RESERVED_SECONDS,
    LeaseView,
    Moves,
    Reservations,
    assigned,
    plan_moves,
    shares,
)


@pytest.mark.parametrize(
    ("holders", "replicas", "identity", "expected"),
    [
        pytest.param({}, "a", "a", Moves(take=(0, 1, 2, 3)), id="alone"),
        pytest.param({}, "ab", "a", Moves(take=(0, 1)), id="first-of-two"),
        pytest.param({}, "ab", "b", Moves(take=(2, 3)), id="second-of-two"),
        pytest.param(dict.fromkeys(range(4), "a"), "ab", "a", Moves(release=(3, 2)), id="surplus"),
        pytest.param(dict.fromkeys(range(4), "a"), "ab", "b", Moves(), id="nothing-is-free"),
        pytest.param({0: "a", 1: "a"}, "ab", "b", Moves(take=(2, 3)), id="released"),
        pytest.param({0: "a", 1: "a", 2: "b"}, "abc", "c", Moves(take=(3,)), id="one-each-and-one-more"),
        pytest.param({0: "a", 1: "b", 2: "c", 3: "d"}, "abcdefg", "a", Moves(), id="more-replicas-than-shards"),
        pytest.param({0: "dead", 1: "a"}, "a", "a", Moves(take=(2, 3)), id="unexpired-lease-of-a-dead-replica"),
    ],
)
def test_replica_moves_towards_its_share(
    holders: dict[int, str], replicas: str, identity: str, expected: Moves
) -> None:
    assert plan_moves(LeaseView(4, holders, frozenset(replicas)), identity) == expected


def test_shard_that_is_being_handed_over_counts_as_surplus_once() -> None:
    view = LeaseView(4, dict.fromkeys(range(4), "a"), frozenset("ab"))
    assert plan_moves(view, "a", {3}) == Moves(release=(2,))
    assert plan_moves(view, "a", {3, 2}) == Moves()


_HOLDERS = st.dictionaries(st.integers(0, 7), st.sampled_from("abcdefg"))


@given(_HOLDERS, st.sets(st.sampled_from("abcdefg"), min_size=1))
def test_no_two_replicas_take_one_shard(holders: dict[int, str], replicas: set[str]) -> None:
    view = LeaseView(8, holders, frozenset(replicas))
    taken = [shard for replica in sorted(replicas) for shard in plan_moves(view, replica).take]
    assert len(taken) == len(set(taken))
    assert not set(taken) & set(holders)


@given(_HOLDERS, st.sets(st.sampled_from("abcdefg"), min_size=1))
def test_replicas_come_to_differ_by_one_shard_at_most(holders: dict[int, str], replicas: set[str]) -> None:
    # The Leases of replicas that are gone have expired.
    held = {shard: holder for shard, holder in holders.items() if holder in replicas}
    moved = 0
    for _ in range(3):
        view = LeaseView(8, dict(held), frozenset(replicas))
        moves = {replica: plan_moves(view, replica) for replica in replicas}
        for replica, (take, release) in moves.items():
            held.update(dict.fromkeys(take, replica))
            moved += len(release)
            for shard in release:
                del held[shard]
    counts = [list(held.values()).count(replica) for replica in replicas]
    assert sum(counts) == 8
    assert max(counts) - min(counts) <= 1
    wanted = shares(LeaseView(8, {s: h for s, h in holders.items() if h in replicas}, frozenset(replicas)))
    surplus = sum(max(list(holders.values()).count(replica) - wanted[replica], 0) for replica in replicas)
    assert moved == surplus


LEASE_SECONDS = 15.0
# Replica `a` decides; `n` has a sign of life and takes nothing.
VIEW = LeaseView(4, {0: "a", 1: "b"}, frozenset("abn"))


def planned(reservations: Reservations, view: LeaseView, now: float) -> Moves:
    return plan_moves(reservations.without_passed_over(view, now), "a")


def test_free_shard_waits_shortly_for_the_replica_that_is_to_take_it() -> None:
    reservations = Reservations("a", LEASE_SECONDS)
    assert planned(reservations, VIEW, 10.0) == Moves(take=(2,))
    view = VIEW._replace(holders={**VIEW.holders, 2: "a"})
    assert planned(reservations, view, 10.0) == Moves()
    assert reservations.ends_at == 10.0 + RESERVED_SECONDS
    assert planned(reservations, view, reservations.ends_at - 0.01) == Moves()
    # `a` has its share of two now, so the shard is for `b`, from which it is expected at once.
    assert planned(reservations, view, reservations.ends_at) == Moves()
    assert planned(reservations, view, reservations.ends_at) == Moves(take=(3,))


def test_replica_that_was_passed_over_gets_its_share_after_a_lease() -> None:
    reservations = Reservations("a", LEASE_SECONDS)
    alone = LeaseView(4, {0: "a", 1: "a"}, frozenset("an"))
    assert planned(reservations, alone, 0.0) == Moves()
    assert planned(reservations, alone, RESERVED_SECONDS) == Moves(take=(2, 3))
    held = alone._replace(holders=dict.fromkeys(range(4), "a"))
    assert planned(reservations, held, RESERVED_SECONDS + LEASE_SECONDS - 0.1) == Moves()
    # It lives still: its sign of life would have expired.
    assert planned(reservations, held, RESERVED_SECONDS + LEASE_SECONDS) == Moves(release=(3, 2))


def test_replica_that_takes_a_shard_is_not_passed_over() -> None:
    reservations = Reservations("a", LEASE_SECONDS)
    view = LeaseView(4, {0: "a", 1: "a"}, frozenset("an"))
    assert planned(reservations, view, 0.0) == Moves()
    reservations.took("n")
    taken = view._replace(holders={**view.holders, 2: "n"})
    assert planned(reservations, taken, RESERVED_SECONDS) == Moves()
    # It takes one after the other.
    assert reservations.ends_at == 2 * RESERVED_SECONDS
    assert planned(reservations, taken, 2 * RESERVED_SECONDS) == Moves(take=(3,))
    reservations.took("n")
    held = taken._replace(holders={0: "a", 1: "a", 2: "n", 3: "a"})
    assert planned(reservations, held, 2 * RESERVED_SECONDS) == Moves(release=(3,))


@given(_HOLDERS, st.sets(st.sampled_from("abcdefg"), min_size=1), st.sampled_from("abcdefg"))
def test_no_free_shard_waits_longer_than_two_reservations(
    holders: dict[int, str], replicas: set[str], identity: str
) -> None:
    view = LeaseView(8, holders, frozenset({*replicas, identity}))
    reservations, held, now = Reservations(identity, LEASE_SECONDS), dict(holders), 0.0
    # All others are dead.
    while now < 2 * RESERVED_SECONDS:
        seen = reservations.without_passed_over(view._replace(holders=held), now)
        assert identity in seen.replicas
        held.update(dict.fromkeys(plan_moves(seen, identity).take, identity))
        now = min(reservations.ends_at, 2 * RESERVED_SECONDS)
    seen = reservations.without_passed_over(view._replace(holders=held), now)
    held.update(dict.fromkeys(plan_moves(seen, identity).take, identity))
    assert set(held) == set(range(8))


def test_free_shard_does_not_wait_for_one_newcomer_after_the_other() -> None:
    reservations, newcomers = Reservations("b", LEASE_SECONDS), frozenset("bcd")
    # `d` holds a shard, but was killed; the others take nothing.
    holders = {0: "b", 1: "b", 2: "d"}
    for number in range(4):
        now = number * 0.4 * 2 * RESERVED_SECONDS
        newcomers |= {f"a{number}"}
        seen = reservations.without_passed_over(LeaseView(4, holders, newcomers), now)
        taken = plan_moves(seen, "b").take
        assert taken == ((3,) if now >= 2 * RESERVED_SECONDS else ())


@given(_HOLDERS, st.sets(st.sampled_from("abcdefg"), min_size=1))
def test_replicas_that_take_their_shards_are_never_passed_over(holders: dict[int, str], replicas: set[str]) -> None:
    view = LeaseView(8, holders, frozenset(replicas))
    of_all = {replica: Reservations(replica, LEASE_SECONDS) for replica in replicas}
    held = dict(holders)
    for now in (0.0, RESERVED_SECONDS, 2 * RESERVED_SECONDS):
        current = view._replace(holders=dict(held))
        for reservations in of_all.values():
            assert reservations.without_passed_over(current, now) == current
        for shard, replica in assigned(current).items():
            held[shard] = replica
            for reservations in of_all.values():
                reservations.took(replica)
