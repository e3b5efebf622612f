"""The elector: campaigns for a Lease, renews it, and reports its loss.

`ElectorThread` has a thread and an event loop of its own: a busy program does not lose its lease, a blocked one does.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from random import Random
from typing import Literal

from msgspec.structs import replace

from kcr.api.coordination import Lease
from kcr.api.meta import ObjectMeta
from kcr.arguments import checked
from kcr.client import Client
from kcr.clock import Clock
from kcr.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    KcrError,
    LeadershipLostError,
    NotFoundError,
    TransportError,
)
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger
from kcr.scopes.leaderelection.config import LeaderElectionConfig, Observation, claimed, released
from kcr.scopes.leaderelection.leadership import Leadership

# A process has five seconds to end.
RELEASE_SECONDS = 2.0
_FAILURES = (ApiError, TransportError, TimeoutError)

_log = get_logger()


class LeaderElector(Leadership):
    """Holds a Lease, or waits for it; one per process and Lease. `run` once."""

    @checked
    def __init__(
        self,
        client: Client,
        config: LeaderElectionConfig,
        *,
        clock: Clock,
        random: Random,
        is_blocked: Callable[[], bool] = lambda: False,
        is_shared: bool = False,
    ) -> None:
        """Make an elector; it campaigns while `run` runs.

        Args:
            client: Reaches the server; with connections and a rate limit of its own, a busy program cannot delay it.
            config: The Lease, the identity and the durations.
            clock: For the times in the Lease, and for the fence.
            random: For pauses.
            is_blocked: Returns whether the process does no work any more: then its lease is not renewed.
            is_shared: Whether several processes hold the lease together, under one identity.
        """
        super().__init__(config, clock)
        self._campaign = Campaign(
            self, client, random=random, is_blocked=is_blocked, on_elected=self.elected.set, is_shared=is_shared
        )

    async def run(self) -> None:
        """Campaign, then renew until cancelled; the lease is released then.

        Raises:
            LeadershipLostError: The lease could not be renewed in time, or another process has it.
        """
        await self._campaign.run()

    async def renew_now(self) -> bool:
        """Renew the lease between two renewals, while `run` runs, and return whether that worked."""
        return await self._campaign.try_once()


class Campaign:
    """Acquires and renews a Lease, and records the result in a `Leadership`."""

    def __init__(
        self,
        leadership: Leadership,
        client: Client,
        *,
        random: Random,
        is_blocked: Callable[[], bool],
        on_elected: Callable[[], object],
        is_shared: bool = False,
    ) -> None:
        """Make a campaign.

        Args:
            leadership: The interface for the rest of the program, with the options of the campaign.
            client: Reaches the server.
            random: For pauses.
            is_blocked: Returns whether the process does no work any more.
            on_elected: Called once, when this process begins to lead.
            is_shared: Whether other processes renew the lease under the same identity: it is read before each renewal.
        """
        self.config: LeaderElectionConfig = leadership.config
        self._leadership = leadership
        # No load of the program, and none of the server, delays a renewal.
        self._client = client.with_options(throttled=False)
        self._clock = leadership.clock
        self._random = random
        self._is_blocked = is_blocked
        self._on_elected = on_elected
        self._is_shared = is_shared
        # The Lease, and since when it has not changed: the only thing that a candidate may count from.
        self._seen: Observation | None = None
        # Whether a claim was sent, so that the Lease may be ours, though no answer said so.
        self._has_claimed = False
        self._has_lost = False
        self._rate_limited_log = RateLimitedLogger(_log)

    async def run(self) -> None:
        """Campaign, then renew until cancelled; the lease is released then.

        Raises:
            LeadershipLostError: The lease could not be renewed in time, or another process has it.
        """
        self._now = asyncio.get_running_loop().time
        self._fence = self._leadership.begin(self._now)
        key = str(self.config.key)
        _log.info("attempting to acquire leader lease", lease=key, identity=self.config.identity)
        try:
            self._leadership.lead(await self._acquire())
            # In this order: a waiter that wakes up sees that this process leads, and since which version.
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
            # Before the release: this process's writes must not overlap with the next leader's.
            self._leadership.end()
            if self.config.release_on_cancel and self._has_claimed and not self._leadership.is_retained:
                await self._release()

    async def _acquire(self) -> Lease:
        """Try until the lease is ours, and return it.

        Upstream pauses for one to 2.2 retry periods. Here it is at most one, so that a released lease is taken within
        one.

        Source: client-go/tools/leaderelection/leaderelection.go, acquire: JitterUntil.
        """
        while True:
            if await self.try_once() and self._seen is not None:
                return self._seen.lease
            # Drawn, so that candidates that were started together do not meet in conflicts endlessly.
            await asyncio.sleep(self.config.retry_period * (1 - self._random.random() / 2))

    async def _renew(self) -> None:
        """Renew the lease within the renew deadline.

        Source: client-go/tools/leaderelection/leaderelection.go, renew.
        """
        config = self.config
        try:
            async with asyncio.timeout(config.renew_deadline):
                while not await self.try_once():
                    if (holder := self._other_holder()) is not None:
                        # Not a failed try: nothing that comes later can make it ours before it expires.
                        raise LeadershipLostError(f"lease {config.key}: {holder} has taken it from {config.identity}")
                    await asyncio.sleep(config.retry_period)
        except TimeoutError:
            raise LeadershipLostError(
                f"lease {config.key}: not renewed within {config.renew_deadline:g} s by {config.identity}"
            ) from None

    async def try_once(self) -> bool:
        """Acquire or renew the lease, if that is possible now.

        A write whose reply was lost is found out by the next read: the Lease names us then.
        """
        if self._is_blocked():
            # A process whose loop is stuck does no work: another one had better lead.
            self._rate_limited_log.warning(self._now(), "lease not renewed: the main event loop is blocked")
            return False
        # Before the request is sent: the others count from its arrival, which is later. So the fence never closes
        # after their lease has ended.
        sent = self._fence.read()
        try:
            if not await self._renew_known() and not await self._claim():
                return False
        except _FAILURES as error:
            words = f"failed to {'renew' if self._leadership.leads else 'acquire'} lease, retrying"
            why = str(error) or "the request timed out"
            self._rate_limited_log.warning(self._now(), words, lease=str(self.config.key), error=why)
            return False
        self._leadership.renew(self._fence, sent)
        return True

    async def _renew_known(self) -> bool:
        """Renew on the record that we wrote last, without reading it again; False if that does not work.

        Source: client-go/tools/leaderelection/leaderelection.go, tryAcquireOrRenew, the fast path.
        """
        if self._is_shared or not self._leadership.leads or self._seen is None or self._other_holder() is not None:
            return False
        try:
            # Optimistic concurrency: a conflict says that another client has written the Lease since.
            await self._write(self._seen.lease)
        except _FAILURES:
            self._leadership.slow_renewals += 1
            return False
        return True

    async def _claim(self) -> bool:
        try:
            lease = await self._read()
        except NotFoundError:
            lease = None
        if lease is not None and self._other_holder() is not None:
            return False
        try:
            # Expired, released, or ours: the precondition is the version that was read just now, so of several
            # candidates that see it expire at most one write succeeds.
            await (self._create() if lease is None else self._write(lease))
        except (AlreadyExistsError, ConflictError):  # another candidate was faster, and may have our identity
            return self._is_shared and await self._claim()
        return True

    def _other_holder(self) -> str | None:
        """Return which other candidate holds the lease, unexpired by this machine's clock; None for none.

        A leader that stood still meanwhile does not lead again when another one has released the lease: what it has in
        its stores is older than that leader's writes.
        """
        if self._seen is None:
            return None
        holder = self._seen.lease.spec.holder_identity
        if self._leadership.leads and not self._is_shared and holder != self.config.identity:
            return holder or "another process, which has released it since,"
        return holder if self._seen.is_held_by_other(self.config.identity, self._now()) else None

    async def _read(self) -> Lease:
        async with asyncio.timeout(self.config.request_timeout):
            lease = await self._client.get(Lease, self.config.key)
        self._observe(lease)
        return lease

    async def _create(self) -> None:
        config = self.config
        spec = claimed(None, config, self._clock.now())
        # Before it is sent: its reply may be lost, and the Lease ours.
        self._has_claimed = True
        lease = Lease(metadata=ObjectMeta(name=config.name, namespace=config.namespace), spec=spec)
        async with asyncio.timeout(config.request_timeout):
            self._observe(await self._client.create(lease))

    async def _write(self, lease: Lease, what: Literal["claim", "release"] = "claim") -> None:
        """Write the next record on the version that was read: of two candidates one meets a conflict."""
        moment = self._clock.now()
        # Noted before it is sent, as in `_create`; a release that fails is not tried again.
        self._has_claimed = is_claim = what == "claim"
        spec = claimed(lease.spec, self.config, moment) if is_claim else released(lease.spec, moment)
        async with asyncio.timeout(self.config.request_timeout):
            self._observe(await self._client.update(replace(lease, spec=spec)))

    def _observe(self, lease: Lease) -> None:
        now, before = self._now(), self._seen
        self._seen = Observation(lease, now) if before is None else before.follow(lease, now)
        self._leadership.lease = lease
        holder = lease.spec.holder_identity
        if holder and (before is None or before.lease.spec.holder_identity != holder):
            _log.info("new leader elected", lease=str(self.config.key), leader=holder)

    async def _release(self) -> None:
        """Give up a lease that is ours, so that another one need not wait for its end.

        Source: client-go/tools/leaderelection/leaderelection.go, release.
        """
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                # The last claim may have been cancelled halfway, so the server's Lease decides.
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


class ElectionLoop:
    """A thread with an event loop of its own, on which a campaign runs, and the heartbeat of the program's loop."""

    def __init__(self, config: LeaderElectionConfig) -> None:
        self._config = config
        # When the program's loop last ran, in the time of the thread's loop.
        self._heartbeat = 0.0

    async def run(self, campaign: Callable[[], Awaitable[None]], on_ending: Callable[[], None]) -> None:
        """Run a campaign until it ends or this is cancelled; the thread has ended then.

        Args:
            campaign: Runs on the thread's loop.
            on_ending: Called on the program's loop at the end, at once, while the campaign may still release Leases.
        """
        main, own = asyncio.get_running_loop(), asyncio.new_event_loop()
        ended: asyncio.Future[None] = main.create_future()
        self._heartbeat = own.time()

        async def elect() -> None:
            await campaign()

        def run_elector() -> None:
            failure: BaseException | None = None
            try:
                with asyncio.Runner(loop_factory=lambda: own) as runner:
                    runner.run(elect())
            except asyncio.CancelledError:
                pass
            except BaseException as error:
                failure = error
            main.call_soon_threadsafe(_settle, ended, failure)

        threading.Thread(target=run_elector, name="leader election", daemon=True).start()
        try:
            while not ended.done():
                self._heartbeat = own.time()
                await asyncio.wait((ended,), timeout=self._config.retry_period / 2)
        finally:
            # At once, while the release is still on its way.
            on_ending()
            if not ended.done():
                with suppress(RuntimeError):  # the loop is closed: the elector has just ended by itself
                    own.call_soon_threadsafe(_cancel_all, own)
                # A name that is being resolved keeps the thread: it ends with the process then.
                await asyncio.wait((ended,), timeout=2 * RELEASE_SECONDS)
        if ended.done():
            ended.result()
        else:
            _log.warning("leader election does not end", lease=str(self._config.key))

    def is_blocked(self) -> bool:
        """Return whether the program's loop has been blocked for longer than the renew deadline."""
        return asyncio.get_running_loop().time() - self._heartbeat > self._config.renew_deadline


class ElectorThread(Leadership):
    """Elects a leader as `LeaderElector` does, with connections, a thread and a loop of its own.

    A callback that blocks the program's loop for a few seconds delays no renewal. The program's loop sends a heartbeat
    meanwhile: once that is older than the renew deadline the lease is not renewed any more, and another process takes
    over.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Client]],
        config: LeaderElectionConfig,
        *,
        clock: Clock,
        random: Random,
    ) -> None:
        """Make an elector; its thread lives while `run` runs.

        Args:
            connect: Opens the connections of the elector, on its own loop.
            config: The Lease, the identity and the durations.
            clock: For the times in the Lease, and for the fence.
            random: For pauses.
        """
        super().__init__(config, clock)
        self._connect = connect
        self._random = random
        self._loop = ElectionLoop(config)

    async def run(self) -> None:
        """Campaign, then renew until cancelled; the lease is released and the thread has ended then.

        Raises:
            LeadershipLostError: The lease could not be renewed in time, or another process has it.
        """
        main = asyncio.get_running_loop()

        async def elect() -> None:
            async with self._connect() as client:
                campaign = Campaign(
                    self,
                    client,
                    random=self._random,
                    is_blocked=self._loop.is_blocked,
                    on_elected=lambda: main.call_soon_threadsafe(self.elected.set),
                )
                await campaign.run()

        await self._loop.run(elect, self.elected.clear)


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    for task in asyncio.all_tasks(loop):
        task.cancel()


def _settle(ended: "asyncio.Future[None]", failure: BaseException | None) -> None:
    if failure is None:
        ended.set_result(None)
    else:
        ended.set_exception(failure)
        # Retrieved: `run` raises it, unless it is cancelled; the campaign has logged it.
        ended.exception()
