"""The leader election record (LeaderElectionRecord), which is the spec of a Lease: values in, values out."""

from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from kcr.api.coordination import Lease, LeaseSpec
from kcr.api.meta import MicroTime
from kcr.scopes.leaderelection.config import LeaderElectionConfig


class Observation(NamedTuple):
    """A Lease as it was last read or written.

    Attributes:
        lease: The Lease.
        changed_at: When a change of its record was seen, in the loop's time. Clocks of machines are never compared.
    """

    lease: Lease
    changed_at: float

    def follow(self, lease: Lease, now: float) -> "Observation":
        """Return the observation that follows; the same record does not begin a new lease."""
        return Observation(lease, self.changed_at if lease.spec == self.lease.spec else now)

    @property
    def expires_at(self) -> float:
        """When the lease ends unless it is renewed, in the loop's time."""
        return self.changed_at + (self.lease.spec.lease_duration_seconds or 0)

    def is_held_by_other(self, identity: str, now: float) -> bool:
        """Return whether another candidate holds the lease, unexpired.

        An empty holder has released it. A Lease without a duration expires at once.

        Source: client-go/tools/leaderelection/leaderelection.go, tryAcquireOrRenew, isLeaseValid.
        """
        return self.lease.spec.holder_identity not in ("", identity) and now < self.expires_at


def claimed(spec: LeaseSpec | None, config: LeaderElectionConfig, moment: datetime) -> LeaseSpec:
    """Return the record of a leader that renews a lease it holds, or takes one over.

    Args:
        spec: The present record; None for a Lease that does not exist.
        config: Identity and duration.
        moment: The time.

    Returns:
        With the present `acquireTime` and transitions for the present holder; another one begins again and counts a
        transition. Fields that are not the holder's business stay as they are.

    Source: client-go/tools/leaderelection/leaderelection.go, tryAcquireOrRenew.
    """
    before = spec or LeaseSpec()
    # A record that does not change gets no new version, by which another holder of this identity sees the renewal.
    renewed = MicroTime.of(moment)
    if renewed == before.renew_time:
        renewed = MicroTime.of(moment + timedelta(microseconds=2))
    is_holder, transitions = before.holder_identity == config.identity, before.lease_transitions or 0
    return replace(
        before,
        holder_identity=config.identity,
        lease_duration_seconds=int(config.lease_duration),
        acquire_time=before.acquire_time if is_holder else renewed,
        renew_time=renewed,
        lease_transitions=transitions if is_holder or spec is None else transitions + 1,
    )


def released(spec: LeaseSpec, moment: datetime) -> LeaseSpec:
    """Return the record of a leader that gives the lease up: it may be taken at once.

    Source: client-go/tools/leaderelection/leaderelection.go, release.
    """
    time = MicroTime.of(moment)
    return replace(spec, holder_identity="", lease_duration_seconds=1, acquire_time=time, renew_time=time)
