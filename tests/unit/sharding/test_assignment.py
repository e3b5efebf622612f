"""The shares of replicas, and the moves towards them (CM-66)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.sharding.assignment import LeaseView, Moves, plan_moves, shares


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
