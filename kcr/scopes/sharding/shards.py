"""The shards of this replica: which it holds, in which phase each is, and whether it may write in a shard's name.

All replicas hold the Lease of leader election together, under one identity. A replica without sharding is a candidate
for this Lease, whichever version of kcr it runs. So it stands by while a sharded replica lives, and sharded replicas
take no shard while it leads: a rolling update turns sharding on and off. The identity names the number of shards, so
replicas that were started with another number wait in the same way.
"""

import dataclasses
from collections.abc import Callable, Iterable
from enum import Enum
from random import Random

from msgspec.structs import replace

from kcr.api.coordination import Lease
from kcr.api.slots import shard_of, slots_of
from kcr.client import Client
from kcr.client.context import WRITE_CONTEXT
from kcr.clock import Clock
from kcr.errors import ConfigError, ConflictError, LeadershipLostError, NotFoundError
from kcr.log import get_logger
from kcr.metrics.components import HANDOVER_BUCKETS
from kcr.metrics.table import Histogram
from kcr.scopes.gate import ScopePhase
from kcr.scopes.leaderelection.config import JITTER_FACTOR, LeaderElectionConfig, released
from kcr.scopes.leaderelection.elector import LeaderElector
from kcr.scopes.leaderelection.leadership import SAFETY_SECONDS, TOLERATED_SECONDS, Fence, Reading
from kcr.scopes.sharding.leases import LeaseNames

_log = get_logger()

# The shard of controllers and components that are not sharded.
UNSHARDED = 0

_NO_OWNER = (
    "a write outside of a reconcile has no owner, and under --shards each replica would make it: write in a reconcile, "
    "in a component of `manager.add`, or in one of `manager.add(…, needs_leader_election=False)` if every replica may"
)


class GroupLease(LeaderElector):
    """The membership of one replica in the group: it renews the Lease of the group, and its fence closes without it.

    Contract: a replica takes its first shard after a renewal of its own (`renew_now`), which it begins when its sign of
    life exists. The last replica releases the Lease on the version that it read before it saw no other sign of life, so
    a replica that joins meanwhile makes the release fail.
    """

    def __init__(
        self,
        client: Client,
        names: LeaseNames,
        *,
        clock: Clock,
        random: Random,
        is_blocked: Callable[[], bool],
    ) -> None:
        """Make a membership; it begins when the Lease is held, while `run` runs.

        Args:
            client: Reaches the server.
            names: The Leases of the program.
            clock: For the times in the Lease, and for the fence.
            random: For pauses.
            is_blocked: Returns whether the process does no work any more: then it does not renew.
        """
        super().__init__(client, group_config(names), clock=clock, random=random, is_blocked=is_blocked, is_shared=True)
        self._client = client
        self._names = names

    async def release_if_last(self) -> None:
        """Release the Lease unless another replica lives or may write; after `run`, which would renew it.

        Raises:
            ApiError: The server refuses; the Lease expires.
            TransportError: The server cannot be reached; the Lease expires.
        """
        try:
            lease = await self._client.get(Lease, self.config.key)
        except NotFoundError:
            return
        if lease.spec.holder_identity != self.config.identity or not self._is_last(
            await self._client.list(Lease, self.config.namespace, labels=self._names.selector)
        ):
            return
        try:
            await self._client.update(replace(lease, spec=released(lease.spec, self.clock.now())))
        except ConflictError:
            # Another replica has just joined.
            return
        _log.info("released lease", lease=str(self.config.key))

    def _is_last(self, leases: tuple[Lease, ...]) -> bool:
        """Return whether no Lease of a replica or of a shard has a holder but the sign of life of this replica.

        Those of killed replicas count as well: their writes may be on the way.
        """
        return not any(lease.spec.holder_identity and lease.metadata.name != self._names.replica for lease in leases)


def group_config(names: LeaseNames) -> LeaderElectionConfig:
    """Return the options of the group: its identity, and half as many renewals as for a Lease of one holder."""
    config = names.config
    return dataclasses.replace(
        config,
        identity=names.group_identity,
        retry_period=min(2 * config.retry_period, config.renew_deadline / JITTER_FACTOR * 0.99),
        release_on_cancel=False,
    )


class Move(Enum):
    """A news of the campaign about some shards.

    Attributes:
        TAKEN: Their Leases were taken: open their caches.
        RELEASE: They are to be handed over: drain them.
        DROPPED: They are no longer held: their Leases were released or are over.
    """

    TAKEN = "taken"
    RELEASE = "release"
    DROPPED = "dropped"


class HeldShard:
    """A shard whose Lease this replica holds.

    Attributes:
        phase: Its phase; only the program's loop changes it.
        since: The version of the Lease with which it was taken.
        taken_at: When, in the time of the campaign's loop.
        fence: How long ago the Lease was renewed.
    """

    __slots__ = ("fence", "phase", "since", "taken_at")

    def __init__(self, fence: Fence, since: int, taken_at: float) -> None:
        self.phase: ScopePhase = ScopePhase.OPENING
        self.since: int = since
        self.taken_at: float = taken_at
        self.fence: Fence = fence


class Shards:
    """The shards that this replica holds. The campaign takes and drops them, on its loop; every thread may read.

    Contract: `check` refuses each write in the name of a shard whose Lease may be another replica's. A key is
    reconciled only while its shard is active, so no two replicas reconcile one key.

    Attributes:
        config: The base name of the Leases, the identity and the durations.
        count: How many shards there are.
        clock: For the times in the Leases, and for the fences.
        moves: How many shards were taken and given up.
        last_handover_seconds: How long the last shard that was taken waited for its caches.
        handover_seconds: How long all of them did.
    """

    def __init__(self, config: LeaderElectionConfig, count: int, clock: Clock) -> None:
        self.config = config
        self.count = count
        self.clock = clock
        self.moves: dict[str, int] = {"taken": 0, "released": 0, "abandoned": 0}
        self.last_handover_seconds: float = 0.0
        self.handover_seconds: Histogram = Histogram(HANDOVER_BUCKETS)
        # Replaced and never changed: other threads read it.
        self._held: dict[int, HeldShard] = {}
        # This replica's membership in the group; None before the campaign begins.
        self._group: GroupLease | None = None
        # Whether the campaign has ended: nothing is written any more.
        self._over = False

    @property
    def held(self) -> dict[int, HeldShard]:
        """The shards whose Leases this replica holds; a new mapping after each change."""
        return self._held

    def phase(self, shard: int) -> ScopePhase | None:
        """Return the phase of a shard; None when it is not held."""
        held = self._held.get(shard)
        return None if held is None else held.phase

    def set_phase(self, shards: Iterable[int], phase: ScopePhase) -> None:
        """Note the next phase of some shards, those that are no longer held left out."""
        for shard in shards:
            if (held := self._held.get(shard)) is not None:
                held.phase = phase

    def phases(self) -> dict[str, int]:
        """Return how many held shards are in each phase."""
        held = self._held.values()
        return {phase.value: sum(one.phase is phase for one in held) for phase in ScopePhase}

    def shard_of(self, slot: int) -> int:
        """Return the shard that has a slot."""
        return shard_of(slot, self.count)

    def slots_of(self, shards: Iterable[int]) -> frozenset[int]:
        """Return the slots of some shards."""
        return slots_of(shards, self.count)

    @property
    def leading_since(self) -> int:
        """The version with which the shard of the running reconcile was taken; outside of one, the highest of all."""
        shard = WRITE_CONTEXT.get().shard
        if shard is not None and (held := self._held.get(shard)) is not None:
            return held.since
        return max((held.since for held in self._held.values()), default=0)

    def check(self) -> None:
        """Raise if another replica may hold the shard in whose name the caller writes (fencing).

        Raises:
            ConfigError: It writes in no shard's name: every replica would, each beside the others.
            LeadershipLostError: The shard is not held, or its Lease was not renewed in time, or this replica ends.
        """
        shard = WRITE_CONTEXT.get().shard
        if self._over:
            raise LeadershipLostError(f"sharding of {self.config.key} has ended: this replica no longer holds a shard")
        if shard is None:
            raise ConfigError(_NO_OWNER)
        held = self._held.get(shard)
        if held is None or held.phase is ScopePhase.CLOSED or held.fence.is_closed:
            raise LeadershipLostError(f"shard {shard} of {self.config.key} may be another replica's")
        if self._group is not None:
            self._group.check()

    def overdue(self) -> str:
        """Return an empty string, or that Leases have not been renewed for too long: a liveness check."""
        if self._group is not None and (reason := self._group.overdue()):
            return reason
        tolerated = int(self.config.lease_duration) + TOLERATED_SECONDS
        late = [shard for shard, held in self._held.items() if held.fence.age > tolerated]
        return f"failed to renew the leases of shards {shown(late)} of {self.config.name}" if late else ""

    def remark(self) -> str:
        """Return the remark of `/readyz?verbose`: the shards that this replica holds, or which leader it waits for."""
        if self._held:
            return f"holds shards {shown(self._held)} of {self.count}"
        waits = self._group.standby_remark() if self._group is not None else ""
        return waits or f"holds none of {self.count} shards"

    # The methods below are the campaign's.

    def join(self, client: Client, names: LeaseNames, *, random: Random, is_blocked: Callable[[], bool]) -> GroupLease:
        """Return this replica's membership in the group, which the campaign runs."""
        self._group = GroupLease(client, names, clock=self.clock, random=random, is_blocked=is_blocked)
        return self._group

    def make_fence(self, loop_time: Callable[[], float]) -> Fence:
        """Return the fence of a Lease; `loop_time` is the time of the campaign's loop."""
        safety = min(SAFETY_SECONDS, (self.config.lease_duration - self.config.renew_deadline) / 2)
        return Fence(self.clock, loop_time, int(self.config.lease_duration) - safety)

    def take(self, shard: int, fence: Fence, sent: Reading, version: int, now: float) -> None:
        """Note that this replica holds a shard from this version of its Lease on."""
        fence.renewed(sent)
        self._held = {**self._held, shard: HeldShard(fence, version, now)}
        self.moves["taken"] += 1

    def drop(self, shard: int, *, released: bool) -> None:
        """Note that a shard is no longer held: its Lease was released, or is left to expire."""
        self._held = {other: held for other, held in self._held.items() if other != shard}
        self.moves["released" if released else "abandoned"] += 1

    def end(self) -> None:
        """Note that the campaign has ended: from here on `check` refuses all writes."""
        self._over = True


def shown(shards: Iterable[int]) -> str:
    """Return shards as messages name them: `0-3, 7`."""
    ranges: list[list[int]] = []
    for shard in sorted(shards):
        if ranges and ranges[-1][-1] == shard - 1:
            ranges[-1] = [ranges[-1][0], shard]
        else:
            ranges.append([shard])
    return ", ".join("-".join(map(str, ends)) for ends in ranges)
