"""The options of leader election, and the record of a leader by them (LeaderElectionRecord), the spec of a Lease."""

import os
import socket
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec.structs import replace

from kcr.api.coordination import Lease, LeaseSpec
from kcr.api.meta import Key, MicroTime
from kcr.api.resources import object_name
from kcr.arguments import checked
from kcr.errors import ConfigError

# Source: client-go/tools/leaderelection/leaderelection.go, JitterFactor.
JITTER_FACTOR = 1.2
_LEAST_REQUEST_SECONDS = 1.0


def default_identity() -> str:
    """Return a name that no other process has: the machine's, and something random.

    Source: controller-runtime/pkg/leaderelection/leader_election.go, NewResourceLock.
    """
    return f"{os.environ.get('HOSTNAME') or socket.gethostname()}_{uuid.uuid4()}"


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionConfig:
    """The options of leader election: the Lease, the identity of the candidate, and the durations.

    ```python
    LeaderElectionConfig(name="website-controller", namespace="websites")
    ```

    Attributes:
        name: The name of the Lease; the same in all replicas, another one for each program.
        namespace: Its namespace.
        identity: The name of this replica; unique.
        lease_duration: Seconds that the others wait after the last renewal that they have seen.
        renew_deadline: Seconds that the leader tries to renew before it gives up.
        retry_period: Seconds between two tries.
        release_on_cancel: Whether a leader that is cancelled gives up the Lease, so that another one need not wait.

    Source: client-go/tools/leaderelection/leaderelection.go, LeaderElectionConfig, NewLeaderElector.
    """

    name: str
    namespace: str = "default"
    identity: str = field(default_factory=default_identity)
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    release_on_cancel: bool = True

    def __post_init__(self) -> None:
        for wrong, what in (
            (not self.name, "the Lease needs a name, the same in all replicas: set --leader-elect-resource-name"),
            (not self.namespace, "the Lease needs a namespace"),
            (not self.identity, "the identity is empty: give each replica one of its own"),
            (self.retry_period <= 0, f"the retry period of {self.retry_period:g} s must be more than 0"),
            (
                self.lease_duration < 1,
                f"the lease duration of {self.lease_duration:g} s must be at least 1 s, for a Lease counts seconds",
            ),
            (
                int(self.lease_duration) <= self.renew_deadline,
                f"the lease duration of {int(self.lease_duration)} s must be more than the renew deadline of "
                f"{self.renew_deadline:g} s: else two replicas may lead at once",
            ),
            (
                self.renew_deadline <= JITTER_FACTOR * self.retry_period,
                f"the renew deadline of {self.renew_deadline:g} s must be more than {JITTER_FACTOR:g} times the retry "
                f"period of {self.retry_period:g} s",
            ),
        ):
            if wrong:
                raise ConfigError(f"leader election: {what}")
        for named, text in (("Lease", self.name), ("namespace of the Lease", self.namespace)):
            try:
                object_name(text)
            except ValueError as error:
                raise ConfigError(f"leader election: {named}: {error}") from None

    @property
    def key(self) -> Key:
        """Namespace and name of the Lease."""
        return Key(self.namespace, self.name)

    @property
    def request_timeout(self) -> float:
        """Seconds that one request may take, so that a second one fits into the renew deadline."""
        return max(self.renew_deadline / 2, _LEAST_REQUEST_SECONDS)


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
