"""Which shards a replica takes and which it hands over: a pure decision, the same in every replica.

The shards are spread so that two replicas differ by one at most. Replicas that hold most keep the larger shares, so
only as many shards move as must. Free shards are assigned to the replicas below their share, in the order of their
identities: replicas that see the same Leases never want the same shard.
"""

from collections.abc import Collection, Mapping
from itertools import islice
from typing import NamedTuple


class LeaseView(NamedTuple):
    """The Leases as one replica sees them.

    Attributes:
        shards: How many shards there are.
        holders: The identity of the holder of each shard whose Lease has not expired.
        replicas: The identities of the replicas that are alive.
    """

    shards: int
    holders: Mapping[int, str]
    replicas: frozenset[str]

    def held_by(self, identity: str) -> tuple[int, ...]:
        """Return the shards of a replica, in order."""
        return tuple(sorted(shard for shard, holder in self.holders.items() if holder == identity))


class Moves(NamedTuple):
    """The shards that a replica takes and those that it begins to hand over, now."""

    take: tuple[int, ...] = ()
    release: tuple[int, ...] = ()


def shares(view: LeaseView) -> dict[str, int]:
    """Return how many shards each live replica is to hold: `ceil(shards / replicas)`, or one fewer."""
    base, extra = divmod(view.shards, max(len(view.replicas), 1))
    # Replicas that hold most keep most.
    ranked = sorted(view.replicas, key=lambda replica: (-len(view.held_by(replica)), replica))
    return {replica: base + (rank < extra) for rank, replica in enumerate(ranked)}


def plan_moves(view: LeaseView, identity: str, leaving: Collection[int] = ()) -> Moves:
    """Return the moves of one replica.

    Args:
        view: The Leases; `identity` is one of the live replicas.
        identity: The replica.
        leaving: Its shards that it is handing over already.
    """
    wanted = shares(view)
    held = view.held_by(identity)
    surplus = len(held) - wanted[identity]
    if surplus > 0:
        staying = [shard for shard in reversed(held) if shard not in leaving]
        return Moves(release=tuple(staying[: max(surplus - len(leaving), 0)]))
    free = iter(shard for shard in range(view.shards) if shard not in view.holders)
    for replica in sorted(view.replicas):
        missing = max(wanted[replica] - len(view.held_by(replica)), 0)
        taken = tuple(islice(free, missing))
        if replica == identity:
            return Moves(take=taken)
    return Moves()
