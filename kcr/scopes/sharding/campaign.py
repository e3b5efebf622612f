"""The campaign for shards: renews this replica's Leases, takes free shards and releases those that are handed over."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

from msgspec.structs import replace

from kcr.api.coordination import Lease
from kcr.api.meta import Key
from kcr.client import Client
from kcr.clock import TIMER_SLACK_SECONDS
from kcr.errors import ApiError, ConflictError, KcrError, LeadershipLostError, NotFoundError, TransportError
from kcr.informer import ChangeHandler, Informer, Selection
from kcr.informer.store import version_of
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger
from kcr.scopes.leaderelection.config import Observation, claimed, released
from kcr.scopes.leaderelection.elector import RELEASE_SECONDS
from kcr.scopes.leaderelection.leadership import Fence, Reading
from kcr.scopes.sharding.assignment import Reservations, plan_moves
from kcr.scopes.sharding.leases import LeaseNames, shard_number, view_of
from kcr.scopes.sharding.shards import Move, Shards, shown

_FAILURES = (ApiError, TransportError, TimeoutError)
# Leases of replicas that ended without deleting theirs are deleted after so many lease durations.
_STALE_LEASES = 20
_GATHER_SECONDS = 0.02

_log = get_logger()


class _Own:
    """A Lease of this replica: as it was last written, and since when that is tried again."""

    def __init__(self, lease: Lease, fence: Fence, sent: Reading) -> None:
        self.lease = lease
        self.fence = fence
        # By the loop's time; infinite until the first try.
        self.tried_since = float("inf")
        fence.renewed(sent)


class ShardCampaign:
    """Holds this replica's share of the shards. It runs on one loop; the program's loop may be another.

    Contract: a Lease is written on the version that was seen, so of several replicas at most one takes a shard. A shard
    is released only after `drained` was called for it; one that could not be drained is left to expire. All Leases are
    watched, so a released shard is taken at once, and one whose Lease expires at that moment. A replica that does not
    take its part is passed over (`Reservations`).
    """

    def __init__(
        self,
        shards: Shards,
        client: Client,
        *,
        random: Random,
        is_blocked: Callable[[], bool],
        post: Callable[[Move, tuple[int, ...]], object],
        is_settled: Callable[[int], bool],
    ) -> None:
        """Make a campaign.

        Args:
            shards: The interface for the rest of the program.
            client: Reaches the server.
            random: Spreads the renewals.
            is_blocked: Returns whether the process does no work any more.
            post: Called with the news about some shards; `Move.RELEASE` is answered by `drained`.
            is_settled: Returns whether no create in the name of a shard is unanswered: at the end, the Lease of such a
                shard is left to expire.
        """
        self._shards = shards
        self._config = shards.config
        self._names = LeaseNames(shards.config, shards.count)
        self._client = client
        self._group = shards.join(client, self._names, random=random, is_blocked=is_blocked)
        self._random = random
        self._is_blocked = is_blocked
        self._post = post
        self._is_settled = is_settled
        # The Leases of all replicas, by name.
        self._observed: dict[str, Observation] = {}
        self._reservations = Reservations(self._config.identity, self._config.lease_duration)
        # This replica's. Invariant: each shard in `shards.held` is here until it is dropped.
        self._replica: _Own | None = None
        self._own: dict[int, _Own] = {}
        # Shards that are handed over, and of these those that are drained; those whose Leases are renewed no more.
        self._leaving: set[int] = set()
        self._drained: set[int] = set()
        self._abandoned: set[int] = set()
        self._has_lost = False
        # Whether something has changed; set before the campaign begins.
        self._changed: asyncio.Event = asyncio.Event()
        self._lines = RateLimitedLogger(_log)

    async def run(self) -> None:
        """Hold shards until cancelled; all of them are released then.

        Raises:
            LeadershipLostError: A Lease could not be renewed in time, or another replica has it.
        """
        config, self._now = self._config, asyncio.get_running_loop().time
        informer = Informer(
            self._client, Selection(Lease, config.namespace, labels=self._names.selector), random=self._random
        )
        informer.add_handler(ChangeHandler(self._observe, self._forget))
        _log.info("joining the replicas", leases=str(config.key), shards=self._shards.count, identity=config.identity)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._group.run(), name="lease of the group"),
                group.create_task(informer.run(), name="informer of leases"),
            ]
            try:
                # Until then a replica without sharding may lead, or replicas with another number of shards live.
                await self._group.elected.wait()
                await informer.wait_synced()
                await self._hold()
            except LeadershipLostError as error:
                self._has_lost = True
                _log.error("failed to renew the lease of a shard, this replica ends", error=str(error))
                raise
            finally:
                # Before the release: nothing that this process writes may overlap with the next holder's.
                self._shards.end()
                if config.release_on_cancel and not self._has_lost:
                    await self._leave(tasks[0])
                for task in tasks:
                    task.cancel()

    async def _hold(self) -> None:
        renew_at = self._now()
        while True:
            if self._now() >= renew_at - TIMER_SLACK_SECONDS:
                # Drawn, so that replicas that were started together do not always write at the same moment.
                renew_at = self._now() + self._config.retry_period * (1 - self._random.random() / 10)
                await self._renew_all()
            # Before the Leases are judged: later changes are judged next.
            self._changed.clear()
            await self._release_drained()
            moves_at = await self._move()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(min(renew_at, moves_at) - self._now(), 0)):
                    await self._changed.wait()
                    # Shards that are released together are taken together: each set has watches of its own.
                    await asyncio.sleep(_GATHER_SECONDS)

    # Renewal.

    async def _renew_all(self) -> None:
        for own in self._own.values():
            own.tried_since = min(own.tried_since, self._now())
        if self._is_blocked():
            self._lines.warning(self._now(), "leases not renewed: the main event loop is blocked")
        else:
            kept = [shard for shard in self._own if shard not in self._abandoned]
            async with asyncio.TaskGroup() as group:
                # Every second time: its loss costs shares only, and only those of a replica without shards.
                if self._replica is None or self._replica.fence.age > 1.5 * self._config.retry_period:
                    group.create_task(self._renew_replica(), name="renew replica")
                for shard in kept:
                    group.create_task(self._renew(shard), name=f"renew shard {shard}")
        self._check_renewed()
        await self._delete_stale()

    def _check_renewed(self) -> None:
        """Raise when a Lease was not renewed for the renew deadline, and drop abandoned shards whose Lease is over.

        A process that stood still tries from then on: its fences are closed, and it may still have its Leases.
        """
        longest = self._config.renew_deadline - self._config.retry_period
        for shard, own in tuple(self._own.items()):
            if shard in self._abandoned:
                if own.fence.is_closed:
                    self._drop(shard, is_released=False)
            elif self._now() - own.tried_since > longest:
                raise LeadershipLostError(
                    f"lease {self._names.shard(shard)}: not renewed within {self._config.renew_deadline:g} s by "
                    f"{self._config.identity}"
                )

    async def _renew_replica(self) -> None:
        name = self._names.replica
        try:
            seen = self._observed.get(name)
            before = self._replica.lease if self._replica is not None else seen.lease if seen is not None else None
            self._replica = await self._write(name, None, before)
        except _FAILURES as error:
            # With a conflict, or without the Lease, the next try begins with the Lease as it is observed.
            self._replica = None
            self._note_failure(name, error)

    async def _renew(self, shard: int) -> None:
        own = self._own[shard]
        try:
            self._own[shard] = await self._write(self._names.shard(shard), shard, own.lease, own.fence)
        except (ConflictError, NotFoundError):
            await self._renew_changed(shard, own)
        except _FAILURES as error:
            self._note_failure(self._names.shard(shard), error)

    async def _renew_changed(self, shard: int, own: _Own) -> None:
        """Renew a Lease that another client has written, unless it is another replica's now.

        Raises:
            LeadershipLostError: It is.
        """
        name = self._names.shard(shard)
        try:
            live = await self._read(name)
            if live is None:
                # Deleted by hand: of several replicas one creates it again.
                self._own[shard] = await self._write(name, shard, None, own.fence)
                return
            holder = live.spec.holder_identity
            if holder != self._config.identity:
                raise LeadershipLostError(
                    f"lease {name}: {holder or 'no replica'} has it instead of {self._config.identity}"
                )
            self._own[shard] = await self._write(name, shard, live, own.fence)
        except _FAILURES as error:
            self._note_failure(name, error)

    async def _read(self, name: str) -> Lease | None:
        try:
            async with asyncio.timeout(self._config.request_timeout):
                return await self._client.get(Lease, Key(self._config.namespace, name))
        except NotFoundError:
            return None

    def _note_failure(self, lease: str, error: Exception) -> None:
        why = str(error) or "the request timed out"
        self._lines.warning(self._now(), "failed to renew or take a lease, retrying", lease=lease, error=why)

    async def _write(self, name: str, shard: int | None, before: Lease | None, fence: Fence | None = None) -> _Own:
        fence = fence or self._shards.make_fence(self._now)
        # Before it is sent: the others count from its arrival, which is later.
        sent = fence.read()
        lease = before or self._names.new(name, shard)
        claim = replace(lease, spec=claimed(before.spec if before else None, self._config, self._shards.clock.now()))
        async with asyncio.timeout(self._config.request_timeout):
            written = await (self._client.create(claim) if before is None else self._client.update(claim))
        self._observe(written)
        return _Own(written, fence, sent)

    # Moves.

    async def _move(self) -> float:
        """Begin the moves that are due, and return when others may be due without any change of a Lease."""
        if self._is_blocked() or self._replica is None:
            return float("inf")
        identity, now = self._config.identity, self._now()
        view = view_of(self._observed, self._shards.count, identity, frozenset(self._own), now)
        view = self._reservations.without_passed_over(view, now)
        moves = plan_moves(view, identity, self._leaving)
        expiries = [one.expires_at for one in self._observed.values() if one.is_held_by_other(identity, now)]
        # Timers may fire early.
        next_at = min((*expiries, self._reservations.ends_at)) + TIMER_SLACK_SECONDS
        if moves.release:
            _log.info("handing over shards", shards=shown(moves.release), replicas=len(view.replicas))
            self._leaving.update(moves.release)
            self._post(Move.RELEASE, moves.release)
        # The first shard needs a renewal of the group's Lease that is later than the sign of life: see `GroupLease`.
        if moves.take and (self._own or await self._group.renew_now()):
            taken = [shard for shard in moves.take if await self._take(shard)]
            if taken:
                _log.info("took shards", shards=shown(taken), replicas=len(view.replicas))
                self._post(Move.TAKEN, tuple(taken))
        return next_at

    async def _take(self, shard: int) -> bool:
        name = self._names.shard(shard)
        seen = self._observed.get(name)
        # Another replica may have taken it since the moves were planned.
        if seen is not None and seen.is_held_by_other(self._config.identity, self._now()):
            return False
        fence = self._shards.make_fence(self._now)
        sent = fence.read()
        try:
            own = await self._write(name, shard, None if seen is None else seen.lease, fence)
        except ApiError as error:
            # Another replica was faster, and the watch will show it.
            if not isinstance(error, ConflictError) and error.reason != "AlreadyExists":
                self._note_failure(name, error)
            return False
        except _FAILURES as error:
            # It may be ours: its Lease names this replica then, and is taken again.
            self._note_failure(name, error)
            return False
        self._own[shard] = own
        version = version_of(own.lease.metadata.resource_version)
        self._shards.take(shard, fence, sent, version, self._now())
        return True

    def drained(self, shard: int, *, is_clean: bool) -> None:
        """Note that no write is made in the name of a shard any more, so that its Lease may be released.

        Args:
            shard: One of a `Move.RELEASE`.
            is_clean: False when a reconcile did not end, or a write was not answered: the Lease is left to expire.
        """
        (self._drained if is_clean else self._abandoned).add(shard)
        self._changed.set()

    async def _release_drained(self) -> None:
        for shard in tuple(self._drained):
            if shard in self._own and await self._release(self._own[shard].lease):
                self._drop(shard, is_released=True)

    async def _release(self, lease: Lease) -> bool:
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                spec = released(lease.spec, self._shards.clock.now())
                self._observe(await self._client.update(replace(lease, spec=spec)))
        except (ConflictError, NotFoundError):
            # Another client has written it: it is not ours, whichever replica holds it.
            return True
        except _FAILURES as error:
            self._note_failure(lease.metadata.name, error)
            return False
        return True

    def _drop(self, shard: int, *, is_released: bool) -> None:
        del self._own[shard]
        for shards in (self._leaving, self._drained, self._abandoned):
            shards.discard(shard)
        self._shards.drop(shard, released=is_released)
        self._post(Move.DROPPED, (shard,))

    async def _leave(self, renewing: asyncio.Task[None]) -> None:
        """Release all shards, and delete the sign of life, so that the others need not wait; the last ends the group.

        Args:
            renewing: Renews the Lease of the group until then.
        """
        clean = (shard for shard in self._own if shard not in self._abandoned and self._is_settled(shard))
        leases = [self._own[shard].lease for shard in clean]
        async with asyncio.TaskGroup() as group:
            for lease in leases:
                group.create_task(self._release(lease), name=f"release {lease.metadata.name}")
            if self._replica is not None:
                group.create_task(self._delete(self._replica.lease), name="delete the sign of life")
        if leases:
            _log.info("released shards", leases=str(self._config.key), shards=len(leases))
        renewing.cancel()
        await asyncio.wait((renewing,))
        with suppress(*_FAILURES):
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._group.release_if_last()

    async def _delete(self, lease: Lease) -> None:
        metadata = lease.metadata
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._client.delete(Lease, lease.key, uid=metadata.uid)
        except (KcrError, TimeoutError) as error:
            _log.debug("failed to delete the lease of a replica", lease=metadata.name, error=str(error))

    async def _delete_stale(self) -> None:
        """Delete the signs of life of replicas that were killed; the holder of the first shard does it."""
        if 0 not in self._own:
            return
        oldest = self._now() - _STALE_LEASES * self._config.lease_duration
        for lease, changed_at in tuple(self._observed.values()):
            if shard_number(lease) is None and changed_at < oldest and lease.metadata.name != self._names.replica:
                await self._delete(lease)

    def _forget(self, lease: Lease) -> None:
        self._observed.pop(lease.metadata.name, None)
        self._changed.set()

    def _observe(self, lease: Lease) -> None:
        name, now = lease.metadata.name, self._now()
        before = self._observed.get(name)
        if before is not None and version_of(before.lease.metadata.resource_version) > version_of(
            lease.metadata.resource_version
        ):
            # The watch is behind our own write.
            return
        if before is None:
            self._observed[name] = Observation(lease, now - self._age(lease))
        else:
            self._observed[name] = before.follow(lease, now)
        if before is None or before.lease.spec.holder_identity != lease.spec.holder_identity:
            if shard_number(lease) is not None:
                self._reservations.took(lease.spec.holder_identity)
            self._changed.set()

    def _age(self, lease: Lease) -> float:
        """Return how long ago a Lease that is seen for the first time was renewed, by the wall clocks; 0 of a shard's.

        A replica that was killed long ago gets no share. The clock of a live one may be wrong: its next renewal counts,
        and until then it is only given less. For shards clocks of machines are never compared.
        """
        renewed = lease.spec.renew_time
        if shard_number(lease) is not None or renewed is None:
            return 0.0
        return max((self._shards.clock.now() - renewed).total_seconds(), 0.0)
