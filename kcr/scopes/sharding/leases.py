"""The Leases of sharding: one for each shard, and one for each replica as its sign of life.

`view_of` is what a replica reads in them. `overview` is for readers outside of the program, `kcr shards` and `kcr
explain`: it judges by a Lease's own times whether it has expired, so clocks that are apart make it imprecise.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from kcr.api.coordination import Lease
from kcr.api.meta import ObjectMeta
from kcr.api.slots import COUNTS, SLOTS, hash_of
from kcr.errors import ConfigError
from kcr.scopes.leaderelection.config import LeaderElectionConfig, Observation
from kcr.scopes.sharding.assignment import LeaseView

# On all Leases of a program: its name, and on those of shards the number.
GROUP_LABEL = "kcr.dev/sharding"
SHARD_LABEL = "kcr.dev/shard"
# On those of replicas: with how many shards they were started.
SHARDS_LABEL = "kcr.dev/shards"
# The identity under which all replicas hold the Lease of leader election, followed by the number of shards.
_GROUP_IDENTITY = "sharded-"
_MAX_NAME = 63 - len("-replica-0123456789abcdef")


class LeaseNames(NamedTuple):
    """The names of a program's Leases."""

    config: LeaderElectionConfig
    shards: int

    @property
    def selector(self) -> str:
        """The label selector of all of them."""
        return f"{GROUP_LABEL}={self.config.name}"

    def shard(self, number: int) -> str:
        """Return the name of a shard's Lease."""
        return f"{self.config.name}-shard-{number}"

    @property
    def replica(self) -> str:
        """The name of this replica's own Lease."""
        return f"{self.config.name}-replica-{hash_of(self.config.identity):016x}"

    @property
    def group_identity(self) -> str:
        """The holder of the Lease of leader election while replicas with this number of shards live."""
        return f"{_GROUP_IDENTITY}{self.shards}"

    def new(self, name: str, shard: int | None) -> Lease:
        """Return a Lease to create, without its spec.

        Args:
            name: Its name.
            shard: The shard; None for a replica's.
        """
        own = {SHARDS_LABEL: str(self.shards)} if shard is None else {SHARD_LABEL: str(shard)}
        labels = {GROUP_LABEL: self.config.name, **own}
        return Lease(metadata=ObjectMeta(name=name, namespace=self.config.namespace, labels=labels))


def check_name(name: str) -> None:
    """Check that Leases can be named after a program.

    Raises:
        ConfigError: It is too long to be a label.
    """
    if len(name) > _MAX_NAME:
        raise ConfigError(
            f"sharding: the name of the Leases, {name!r}, has {len(name)} characters and may have {_MAX_NAME}: "
            "set --leader-elect-resource-name"
        )


def is_group(holder: str) -> bool:
    """Return whether a holder of the Lease of leader election is a group of sharded replicas."""
    prefix, number = holder[: len(_GROUP_IDENTITY)], holder[len(_GROUP_IDENTITY) :]
    return prefix == _GROUP_IDENTITY and number in map(str, COUNTS)


def shard_number(lease: Lease) -> int | None:
    """Return the shard whose Lease this is; None for a replica's."""
    label = lease.metadata.labels.get(SHARD_LABEL, "")
    return int(label) if label.isdecimal() and label.isascii() else None


def view_of(
    observed: dict[str, Observation], shards: int, identity: str, held: frozenset[int], now: float
) -> LeaseView:
    """Return the view of a replica of all Leases.

    Args:
        observed: The Leases by name, each since when it has not changed, in the time of the campaign's loop.
        shards: How many shards there are.
        identity: The replica.
        held: The shards that it holds; a Lease of its own that it does not hold is free, as after a lost reply.
        now: The time of the campaign's loop.
    """
    holders, replicas = dict.fromkeys(held, identity), {identity}
    for one in observed.values():
        holder, number = one.lease.spec.holder_identity, shard_number(one.lease)
        if not one.is_held_by_other(identity, now):
            continue
        if number is None:
            replicas.add(holder)
        elif number < shards:
            holders[number] = holder
    return LeaseView(shards, holders, frozenset(replicas))


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
