"""The Leases of sharding: one for each shard, and one for each replica as its sign of life."""

from typing import NamedTuple

from kcr.api.coordination import Lease
from kcr.api.meta import ObjectMeta
from kcr.api.slots import COUNTS, hash_of
from kcr.errors import ConfigError
from kcr.scopes.leaderelection.config import LeaderElectionConfig
from kcr.scopes.leaderelection.record import Observation
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
