"""Leadership: whether this process leads, as the rest of the program asks in whatever thread.

The fence tells how long ago the lease was renewed, by every clock that tells, and whether the leader may still write.
The loop's time is CLOCK_MONOTONIC, which stands still on Linux while the machine is suspended, and in a virtual machine
that is paused; the candidates on other machines count on. So the fence reads three clocks, and the one that has moved
the furthest since the last renewal decides:

- the loop's time, which no one can set;
- CLOCK_BOOTTIME, which counts a suspension of the machine;
- the wall clock, which an agent of the hypervisor or NTP sets forward when a paused virtual machine is resumed.

A wall clock that is set back therefore changes nothing, and one that is set forward without a pause refuses writes
until the next renewal: within a retry period. A pause that no clock has counted is found by the next renewal alone.
"""

from abc import ABC, abstractmethod
from asyncio import Event
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NamedTuple

from kcr.api.coordination import Lease
from kcr.clock import Clock
from kcr.errors import LeadershipLostError
from kcr.events import EventRecorder
from kcr.informer.store import version_of
from kcr.log import get_logger
from kcr.scopes.leaderelection.config import LeaderElectionConfig

# Writes stop so long before the others may take the Lease: those on their way then still arrive in time.
SAFETY_SECONDS = 1.0
# How overdue a renewal may be before liveness fails. Source: cmd/kube-controller-manager/app/controllermanager.go,
# ControllersHealthzAdaptor's LeaderHealthzAdaptorTimeout.
TOLERATED_SECONDS = 20.0

_log = get_logger()


class Reading(NamedTuple):
    """The clocks at one moment: the loop's time, CLOCK_BOOTTIME and the wall clock."""

    loop: float
    boottime: float
    wall: datetime

    def seconds_until(self, later: "Reading") -> float:
        """Return the seconds from this reading to a later one, by the clock that has moved the furthest."""
        by_wall = (later.wall - self.wall).total_seconds()
        return max(later.loop - self.loop, later.boottime - self.boottime, by_wall)


class Fence:
    """Decides whether another process may hold the lease; all methods are thread-safe.

    It counts from the moment at which the last successful renewal was *sent*, so that its answer is never later than
    the count of the other candidates, which begins when they see the renewal.
    """

    def __init__(self, clock: Clock, loop_time: Callable[[], float], seconds: float) -> None:
        """Make a fence that is closed until the first renewal.

        Args:
            clock: For CLOCK_BOOTTIME and the wall clock.
            loop_time: The time of the elector's loop.
            seconds: How long after a renewal the leader may write.
        """
        self._clock = clock
        self._loop_time = loop_time
        self._seconds = seconds
        self._renewed: Reading | None = None
        # The readings at which the fence closes, whichever comes first: `is_closed` is asked before every write.
        self._closes_at: Reading | None = None

    def read(self) -> Reading:
        """Return the clocks' readings; called before a renewal is sent."""
        return Reading(self._loop_time(), self._clock.boottime(), self._clock.now())

    def renewed(self, sent: Reading) -> None:
        """Record a successful renewal with the clocks' readings from before it was sent."""
        self._renewed = sent
        wall = sent.wall + timedelta(seconds=self._seconds)
        self._closes_at = Reading(sent.loop + self._seconds, sent.boottime + self._seconds, wall)

    @property
    def age(self) -> float:
        """Seconds since the last successful renewal was sent; infinite before the first."""
        renewed = self._renewed
        return float("inf") if renewed is None else renewed.seconds_until(self.read())

    @property
    def is_closed(self) -> bool:
        """Whether the leader must not write: the lease may be another's."""
        end = self._closes_at
        if end is None or self._loop_time() >= end.loop:
            return True
        return self._clock.boottime() >= end.boottime or self._clock.now() >= end.wall


class Leadership(ABC):
    """Whether this process leads. A campaign writes it, on one loop; every thread may read it.

    Attributes:
        config: The Lease, the identity and the durations.
        clock: For the times in the Lease, and for the fence.
        elected: Set, on the program's loop, while this process leads.
        leads: Whether this process leads.
        lease: The Lease as it was last seen; None before the first contact.
        leading_since: The version of the Lease with which this process began to lead; 0 before.
        slow_renewals: How many renewals had to read the Lease first.
        is_retained: Whether the Lease is left to expire at the end; see `retain`.
    """

    def __init__(self, config: LeaderElectionConfig, clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self.elected: Event = Event()
        self.leads: bool = False
        self.lease: Lease | None = None
        self.leading_since: int = 0
        self.slow_renewals = 0
        # None before the campaign begins. Invariant: there is one while this process leads.
        self._fence: Fence | None = None
        # Whether it was logged that the fence is closed, since the last renewal.
        self._closed_logged = False
        # Whether the campaign has ended. It does not begin again: state that outlives a term is a source of bugs.
        self._over = False
        # Whether the Lease is left to expire at the end.
        self.is_retained: bool = False

    def retain(self) -> None:
        """Let the Lease expire at the end instead of releasing it: a write of this process may still be executed."""
        self.is_retained = True

    @abstractmethod
    async def run(self) -> None:
        """Campaign, then renew until cancelled; the lease is released then.

        Raises:
            LeadershipLostError: The lease could not be renewed in time, or another process has it.
        """

    def check(self) -> None:
        """Raise if another process may hold the lease; called before every write (fencing).

        A process that was stopped for longer than its lease lasts, or whose machine was suspended, continues as if
        nothing had happened; this check prevents its writes. It may be called from another thread.

        Raises:
            LeadershipLostError: This process has led, and does no longer; or not until the lease is renewed.
        """
        if not self._over:
            # A standby is not fenced: components that need no election write there, too.
            if not self.leads or self._fence is None or not self._fence.is_closed:
                return
            self._log_closed(self._fence)
        raise LeadershipLostError(f"leader election lost: lease {self.config.key} may be another process's")

    def _log_closed(self, fence: Fence) -> None:
        if not self._closed_logged:
            self._closed_logged = True
            age = round(fence.age, 1)
            _log.warning("writes refused until the lease is renewed", lease=str(self.config.key), unrenewed_seconds=age)

    def overdue(self) -> str:
        """Return an empty string, or that the leader has not renewed its lease for too long: a liveness check.

        Source: client-go/tools/leaderelection/healthzadaptor.go, Check.
        """
        tolerated = int(self.config.lease_duration) + TOLERATED_SECONDS
        if self.leads and self._fence is not None and self._fence.age > tolerated:
            return f"failed election to renew leadership on lease {self.config.name}"
        return ""

    def standby_remark(self) -> str:
        """Return the remark of `/readyz?verbose`: the leader's identity on a standby, empty on the leader."""
        if self.leads:
            return ""
        holder = self.lease and self.lease.spec.holder_identity
        return f"standing by, {holder} leads" if holder else "standing by, there is no leader"

    def record_event(self, recorder: EventRecorder) -> None:
        """Record that this process leads, as an event of the Lease.

        Source: client-go/tools/leaderelection/resourcelock/leaselock.go, RecordEvent.
        """
        if self.lease is not None:
            recorder.event(self.lease, "Normal", "LeaderElection", f"{self.config.identity} became leader")

    # The methods below are the campaign's.

    def begin(self, loop_time: Callable[[], float]) -> Fence:
        """Begin to campaign, and return the fence; `loop_time` is the time of the campaign's loop."""
        # With a short lease, half of the time between giving up and the others' claim.
        safety = min(SAFETY_SECONDS, (self.config.lease_duration - self.config.renew_deadline) / 2)
        self._fence = Fence(self.clock, loop_time, int(self.config.lease_duration) - safety)
        return self._fence

    def lead(self, lease: Lease) -> None:
        """Note that this process leads from this version of the Lease on."""
        # The version first: who sees that this process leads must find it.
        self.leading_since = version_of(lease.metadata.resource_version)
        self.leads = True

    def renew(self, fence: Fence, sent: Reading) -> None:
        """Record a renewal with the clocks' readings from before it was sent."""
        fence.renewed(sent)
        self._closed_logged = False

    def end(self) -> None:
        """Note that the campaign has ended: from here on `check` refuses writes."""
        self._over = True
        self.leads = False
        # In whatever thread: nothing waits for an event to be cleared.
        self.elected.clear()
