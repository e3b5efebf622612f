"""The elector: campaigns for a Lease, renews it, and says when it is lost."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Literal

from msgspec.structs import replace

from kcr.api.coordination import Lease
from kcr.api.meta import ObjectMeta
from kcr.client import Client
from kcr.clock import Clock
from kcr.errors import ApiError, ConflictError, KcrError, LeadershipLostError, NotFoundError, TransportError
from kcr.events import EventRecorder
from kcr.informer.store import version_of
from kcr.leaderelection.config import LeaderElectionConfig
from kcr.leaderelection.fence import Fence
from kcr.leaderelection.record import Observation, claimed, released
from kcr.log import get_logger
from kcr.ratelimitedlog import RateLimitedLogger

# Writes stop so long before the others may take the Lease: what is on its way then still arrives in time.
SAFETY_SECONDS = 1.0
# A process has five seconds to end.
RELEASE_SECONDS = 2.0
# How overdue a renewal may be before liveness fails. Source: cmd/kube-controller-manager/app/controllermanager.go,
# ControllersHealthzAdaptor's LeaderHealthzAdaptorTimeout.
TOLERATED_SECONDS = 20.0
_FAILURES = (ApiError, TransportError, TimeoutError)

_log = get_logger()


class LeaderElector:
    """Holds a Lease, or waits for it; one per process and Lease. `run` once.

    Attributes:
        config: The Lease, the identity and the durations.
        elected: Set while this process leads.
        lease: The Lease as it was last seen; None before the first contact.
        leading_since: The version of the Lease with which this process began to lead; 0 before.
        slow_renewals: How many renewals had to read the Lease first.
    """

    def __init__(
        self,
        client: Client,
        config: LeaderElectionConfig,
        *,
        clock: Clock,
        random: Random,
        is_blocked: Callable[[], bool] = lambda: False,
        on_elected: Callable[[], object] = lambda: None,
    ) -> None:
        """Make an elector; it campaigns while `run` runs.

        Args:
            client: Reaches the server; with connections and a rate limit of its own, a busy program cannot delay it.
            config: The Lease, the identity and the durations.
            clock: For the times in the Lease, and for the fence.
            random: For pauses.
            is_blocked: Returns whether the process does no work any more: then its lease is not renewed.
            on_elected: Called once, when this process begins to lead.
        """
        self.config = config
        self.elected = asyncio.Event()
        self.leading_since = 0
        self.slow_renewals = 0
        self._client = client
        self._clock = clock
        self._random = random
        self._is_blocked = is_blocked
        self._on_elected = on_elected
        self._loop = asyncio.get_running_loop()
        self._seen: Observation | None = None
        safety = min(SAFETY_SECONDS, (config.lease_duration - config.renew_deadline) / 2)
        self._fence = Fence(clock, self._loop.time, int(config.lease_duration) - safety)
        # Whether it was logged that the fence is closed, since the last renewal.
        self._closed_logged = False
        # Whether a claim was sent, so that the Lease may be ours.
        self._has_claimed = False
        self._over = self._has_lost = False
        self._complaints = RateLimitedLogger(_log)

    @property
    def lease(self) -> Lease | None:
        """The Lease as it was last seen; None before the first contact."""
        return self._seen.lease if self._seen is not None else None

    @property
    def leads(self) -> bool:
        """Whether this process leads; it may be asked from another thread."""
        return self.elected.is_set()

    async def run(self) -> None:
        """Campaign, then renew until cancelled; the lease is released then.

        Raises:
            LeadershipLostError: The lease could not be renewed in time, or another process has it.
        """
        key = str(self.config.key)
        _log.info("attempting to acquire leader lease", lease=key, identity=self.config.identity)
        try:
            await self._acquire()
            assert self.lease is not None
            self.leading_since = version_of(self.lease.metadata.resource_version)
            self.elected.set()
            self._on_elected()
            _log.info("successfully acquired lease", lease=key, identity=self.config.identity)
            while True:
                await asyncio.sleep(self.config.retry_period)
                await self._renew()
        except LeadershipLostError as error:
            self._has_lost = True
            _log.error("failed to renew lease, leader election lost", lease=key, error=str(error))
            raise
        finally:
            # From here on `check` refuses writes.
            self._over = True
            self.elected.clear()
            if self.config.release_on_cancel and self._has_claimed:
                await self._release()

    def check(self) -> None:
        """Refuse to go on once the lease may be another's: to be called before every write (fencing).

        A process that was stopped for longer than its lease lasts, or whose machine was suspended, wakes up as if
        nothing had happened; this is what keeps it from writing. It may be called from another thread.

        Raises:
            LeadershipLostError: This process has led, and does no longer; or not until the lease is renewed.
        """
        if not self._over:
            if not self.leads or not self._fence.is_closed:
                return
            self._log_closed()
        raise LeadershipLostError(f"leader election lost: lease {self.config.key} may be another process's")

    def _log_closed(self) -> None:
        if not self._closed_logged:
            self._closed_logged = True
            age = round(self._fence.age, 1)
            _log.warning("writes refused until the lease is renewed", lease=str(self.config.key), unrenewed_seconds=age)

    def overdue(self) -> str:
        """Return an empty string, or that the leader has not renewed its lease for too long: a liveness check.

        Source: client-go/tools/leaderelection/healthzadaptor.go, Check.
        """
        if self.leads and self._fence.age > int(self.config.lease_duration) + TOLERATED_SECONDS:
            return f"failed election to renew leadership on lease {self.config.name}"
        return ""

    def standby_remark(self) -> str:
        """Return what `/readyz?verbose` adds: nothing on the leader, the identity of the leader on a standby."""
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

    async def _acquire(self) -> None:
        """Try until the lease is ours.

        Upstream pauses for one to 2.2 retry periods. Here it is at most one, so that a released lease is taken within
        one.

        Source: client-go/tools/leaderelection/leaderelection.go, acquire: JitterUntil.
        """
        while True:
            if await self._try():
                return
            await asyncio.sleep(self.config.retry_period * (1 - self._random.random() / 2))

    async def _renew(self) -> None:
        """Renew the lease within the renew deadline.

        Source: client-go/tools/leaderelection/leaderelection.go, renew.
        """
        config = self.config
        try:
            async with asyncio.timeout(config.renew_deadline):
                while not await self._try():
                    if self._is_held_by_other():
                        assert self.lease is not None
                        raise LeadershipLostError(
                            f"lease {config.key}: {self.lease.spec.holder_identity} has taken it from {config.identity}"
                        )
                    await asyncio.sleep(config.retry_period)
        except TimeoutError:
            raise LeadershipLostError(
                f"lease {config.key}: not renewed within {config.renew_deadline:g} s by {config.identity}"
            ) from None

    async def _try(self) -> bool:
        """Acquire or renew the lease, if that is possible now.

        A write whose reply was lost is found out by the next read: the Lease names us then.
        """
        if self._is_blocked():
            self._complaints.warning(self._loop.time(), "lease not renewed: the main event loop is blocked")
            return False
        started = self._fence.read()
        try:
            if not await self._renew_known() and not await self._claim():
                return False
        except _FAILURES as error:
            words = "failed to renew lease, retrying" if self.leads else "failed to acquire lease, retrying"
            why = str(error) or "the request timed out"
            self._complaints.warning(self._loop.time(), words, lease=str(self.config.key), error=why)
            return False
        self._fence.renewed(started)
        self._closed_logged = False
        return True

    async def _renew_known(self) -> bool:
        """Renew on the record that we wrote last, without reading it again; False if that does not work.

        Source: client-go/tools/leaderelection/leaderelection.go, tryAcquireOrRenew, the fast path.
        """
        lease = self.lease
        if not self.leads or lease is None or self._is_held_by_other():
            return False
        try:
            await self._write(lease)
        except _FAILURES:
            self.slow_renewals += 1
            return False
        return True

    async def _claim(self) -> bool:
        """Read the lease, and write it unless it is another's."""
        try:
            lease = await self._read()
        except NotFoundError:
            await self._create()
            return True
        if self._is_held_by_other():
            return False
        try:
            await self._write(lease)
        except ConflictError:  # another candidate was faster
            return False
        return True

    def _is_held_by_other(self) -> bool:
        return self._seen is not None and self._seen.is_held_by_other(self.config.identity, self._loop.time())

    async def _read(self) -> Lease:
        async with asyncio.timeout(self.config.request_timeout):
            lease = await self._client.get(Lease, self.config.key)
        self._observe(lease)
        return lease

    async def _create(self) -> None:
        config = self.config
        spec = claimed(None, config, self._clock.now())
        self._has_claimed = True
        lease = Lease(metadata=ObjectMeta(name=config.name, namespace=config.namespace), spec=spec)
        async with asyncio.timeout(config.request_timeout):
            self._observe(await self._client.create(lease))

    async def _write(self, lease: Lease, what: Literal["claim", "release"] = "claim") -> None:
        """Write the next record on the version that was read: of two candidates one meets a conflict."""
        moment = self._clock.now()
        self._has_claimed = is_claim = what == "claim"
        spec = claimed(lease.spec, self.config, moment) if is_claim else released(lease.spec, moment)
        async with asyncio.timeout(self.config.request_timeout):
            self._observe(await self._client.update(replace(lease, spec=spec)))

    def _observe(self, lease: Lease) -> None:
        now, before = self._loop.time(), self.lease
        self._seen = Observation(lease, now) if self._seen is None else self._seen.follow(lease, now)
        holder = lease.spec.holder_identity
        if holder and (before is None or before.spec.holder_identity != holder):
            _log.info("new leader elected", lease=str(self.config.key), leader=holder)

    async def _release(self) -> None:
        """Give up a lease that is ours, so that another one need not wait for its end.

        Source: client-go/tools/leaderelection/leaderelection.go, release.
        """
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                # The last claim may have been cancelled halfway, so the server says what is ours.
                while (lease := await self._read()).spec.holder_identity == self.config.identity:
                    try:
                        await self._write(lease, "release")
                    except ConflictError:
                        continue
                    _log.info("released lease", lease=str(self.config.key))
        except NotFoundError:
            return
        except (KcrError, TimeoutError) as error:
            # One that is lost has its line already.
            log = _log.debug if self._has_lost else _log.warning
            log("failed to release lease", lease=str(self.config.key), error=str(error) or "timed out")
