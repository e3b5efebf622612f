"""Which shards a replica takes and which it hands over: a pure decision, the same in every replica.

The shards are spread so that two replicas differ by one at most. Replicas that hold most keep the larger shares, so
only as many shards move as must. Free shards are assigned to the replicas below their share, in the order of their
identities: replicas that see the same Leases never want the same shard. A replica that does not take its free shards is
passed over, so no shard waits for it.
"""

from collections.abc import Collection, Mapping
from itertools import islice
from typing import NamedTuple

# How long a free shard waits for the replica that it is assigned to. Live ones take theirs within milliseconds.
RESERVED_SECONDS = 0.5


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
    return Moves(take=tuple(shard for shard, taker in assigned(view).items() if taker == identity))


def assigned(view: LeaseView) -> dict[int, str]:
    """Return the free shards, in order, each with the replica that is to take it; no replica gets above its share."""
    wanted = shares(view)
    free = iter(shard for shard in range(view.shards) if shard not in view.holders)
    takers: dict[int, str] = {}
    for replica in sorted(view.replicas):
        missing = max(wanted[replica] - len(view.held_by(replica)), 0)
        takers.update(dict.fromkeys(islice(free, missing), replica))
    return takers


class Reservations:
    """How long free shards have waited for other replicas, and which of these are passed over.

    A replica may have a sign of life and take nothing: it was killed, or it has just begun and cannot know yet that a
    Lease has expired. A shard waits for it for `RESERVED_SECONDS`, and for several in turn twice as long. Then they get
    no share for the duration of a Lease: by its end that of a killed one has expired, and a live one is given its share
    by hand-over.
    """

    def __init__(self, identity: str, lease_seconds: float) -> None:
        """Reserve nothing yet.

        Args:
            identity: The replica that asks.
            lease_seconds: The duration of the Leases.
        """
        self._identity = identity
        self._lease_seconds = lease_seconds
        # The free shards that are assigned to other replicas, each with the replica and until when it waits for it.
        self._waiting: dict[int, tuple[str, float]] = {}
        # Until when each free shard waits for any.
        self._ends: dict[int, float] = {}
        # The replicas that are passed over, and until when.
        self._passed_over: dict[str, float] = {}

    @property
    def ends_at(self) -> float:
        """When the first reservation ends; infinite without any."""
        return min((until for _, until in self._waiting.values()), default=float("inf"))

    def took(self, replica: str) -> None:
        """Note that a replica has taken a shard: it gets its share, and its other shards wait for it again."""
        self._passed_over.pop(replica, None)
        self._waiting = {shard: waits for shard, waits in self._waiting.items() if waits[0] != replica}

    def without_passed_over(self, view: LeaseView, now: float) -> LeaseView:
        """Return the view with the replicas that have a share.

        Args:
            view: The Leases as they are now.
            now: The time of the campaign's loop.
        """
        self._passed_over = {replica: until for replica, until in self._passed_over.items() if now < until}
        free = (shard for shard in range(view.shards) if shard not in view.holders)
        self._ends = {shard: self._ends.get(shard, now + 2 * RESERVED_SECONDS) for shard in free}
        while True:
            counted = view._replace(replicas=view.replicas - self._passed_over.keys())
            self._wait(counted, now)
            late = {replica for replica, until in self._waiting.values() if now >= until}
            if not late:
                return counted
            # Those without a shard would have taken one, too: killed ones are not waited for in turn.
            late |= counted.replicas - {self._identity, *counted.holders.values()}
            self._passed_over.update(dict.fromkeys(late, now + self._lease_seconds))

    def _wait(self, view: LeaseView, now: float) -> None:
        waiting: dict[int, tuple[str, float]] = {}
        for shard, replica in assigned(view).items():
            known, until = self._waiting.get(shard, ("", now))
            if replica != self._identity:
                until = until if known == replica else now + RESERVED_SECONDS
                waiting[shard] = replica, min(until, self._ends[shard])
        self._waiting = waiting
