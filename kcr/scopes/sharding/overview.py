"""The shards of a program as its Leases show them: holder, age and state of each, and the replicas with their shares.

A decision over the Leases alone, for readers outside of the program: `kcr shards`, `kcr explain`. Whether a Lease has
expired is judged by its own times, so clocks that are apart make it imprecise; replicas do not judge so.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from kcr.api.coordination import Lease
from kcr.api.slots import COUNTS, SLOTS
from kcr.scopes.sharding.leases import SHARDS_LABEL, shard_number


class LeaseState(StrEnum):
    """The state of a Lease: held, past its duration without a renewal, or released."""

    HELD = "held"
    EXPIRED = "expired"
    FREE = "free"


class ShardView(NamedTuple):
    """A shard as its Lease shows it.

    Attributes:
        number: The shard.
        shards: How many shards there are.
        first_slot: The first of its slots.
        last_slot: The last of its slots.
        holder: The identity of its holder; of an expired Lease the last one, empty for a free shard.
        since: When it was taken, or released; None without a Lease.
        renewed: When its Lease was last written; None without one.
        state: The state of its Lease.
    """

    number: int
    shards: int
    first_slot: int
    last_slot: int
    holder: str = ""
    since: datetime | None = None
    renewed: datetime | None = None
    state: LeaseState = LeaseState.FREE


class ReplicaView(NamedTuple):
    """A replica as the Leases show it.

    Attributes:
        identity: Its identity.
        shards: The shards that it holds.
        renewed: When its own Lease was last renewed; None where it has none.
        state: The state of its own Lease.
    """

    identity: str
    shards: tuple[int, ...]
    renewed: datetime | None
    state: LeaseState


class Overview(NamedTuple):
    """The shards and the replicas of a program.

    Attributes:
        shards: All shards in order; empty where no Lease tells how many there are.
        replicas: The replicas by identity.
    """

    shards: tuple[ShardView, ...]
    replicas: tuple[ReplicaView, ...]


def overview(leases: Iterable[Lease], now: datetime) -> Overview:
    """Return the shards and the replicas of a program.

    Args:
        leases: All Leases with the program's label `kcr.dev/sharding`.
        now: The moment to judge at.
    """
    of_shards: dict[int, Lease] = {}
    of_replicas: dict[str, Lease] = {}
    for lease in leases:
        if (number := shard_number(lease)) is not None:
            of_shards[number] = lease
        elif holder := lease.spec.holder_identity:
            of_replicas[holder] = lease
    live = [lease for lease in of_replicas.values() if state_of(lease, now) is LeaseState.HELD]
    counts = sorted({count for lease in live or of_replicas.values() if (count := _count(lease)) is not None})
    # A program that was started with more shards before has left their Leases behind.
    highest = max(of_shards, default=-1)
    count = counts[-1] if counts else next((count for count in COUNTS if count > highest), 0) if of_shards else 0
    shards = tuple(_shard(number, count, of_shards.get(number), now) for number in range(count))
    held = defaultdict(list)
    for shard in shards:
        if shard.state is LeaseState.HELD:
            held[shard.holder].append(shard.number)
    replicas = tuple(
        _replica(identity, tuple(held[identity]), of_replicas.get(identity), now)
        for identity in sorted(of_replicas.keys() | held.keys())
    )
    return Overview(shards, replicas)


def state_of(lease: Lease, now: datetime) -> LeaseState:
    """Return the state of a Lease at a moment."""
    spec = lease.spec
    if not spec.holder_identity:
        return LeaseState.FREE
    duration = timedelta(seconds=spec.lease_duration_seconds or 0)
    is_over = spec.renew_time is None or now >= spec.renew_time + duration
    return LeaseState.EXPIRED if is_over else LeaseState.HELD


def _count(lease: Lease) -> int | None:
    return next((count for count in COUNTS if lease.metadata.labels.get(SHARDS_LABEL) == str(count)), None)


def _shard(number: int, count: int, lease: Lease | None, now: datetime) -> ShardView:
    size = SLOTS // count
    first, last = number * size, (number + 1) * size - 1
    if lease is None:
        return ShardView(number, count, first, last)
    spec = lease.spec
    return ShardView(
        number, count, first, last, spec.holder_identity, spec.acquire_time, spec.renew_time, state_of(lease, now)
    )


def _replica(identity: str, shards: tuple[int, ...], lease: Lease | None, now: datetime) -> ReplicaView:
    if lease is None:
        return ReplicaView(identity, shards, None, LeaseState.EXPIRED)
    return ReplicaView(identity, shards, lease.spec.renew_time, state_of(lease, now))
