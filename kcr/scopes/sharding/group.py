"""The Lease of leader election under sharding: all replicas hold it together, under one identity.

A replica without sharding is a candidate for this Lease, whichever version of kcr it runs. So it stands by while a
sharded replica lives, and sharded replicas take no shard while it leads: a rolling update turns sharding on and off.
The identity names the number of shards, so replicas that were started with another number wait in the same way.
"""

import dataclasses
from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from kcr.api.coordination import Lease
from kcr.client import Client
from kcr.clock import Clock
from kcr.errors import ConflictError, NotFoundError
from kcr.log import get_logger
from kcr.scopes.leaderelection.config import JITTER_FACTOR, LeaderElectionConfig
from kcr.scopes.leaderelection.elector import LeaderElector
from kcr.scopes.leaderelection.record import released
from kcr.scopes.sharding.leases import LeaseNames

_log = get_logger()


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
        if lease.spec.holder_identity != self.config.identity or not self._is_last(await self._leases()):
            return
        try:
            await self._client.update(replace(lease, spec=released(lease.spec, self.clock.now())))
        except ConflictError:
            # Another replica has just joined.
            return
        _log.info("released lease", lease=str(self.config.key))

    async def _leases(self) -> tuple[Lease, ...]:
        return await self._client.list(Lease, self.config.namespace, labels=self._names.selector)

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
