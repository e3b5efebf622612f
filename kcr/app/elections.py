"""The elector of a program: its options, and connections of its own."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import NamedTuple

from kcr.client import Client, ClusterConfig, HttpTransport
from kcr.clock import SystemClock
from kcr.leaderelection import ElectorThread, LeaderElectionConfig


class ElectionSettings(NamedTuple):
    """The options of leader election; `kcr.run` explains each. Durations are in seconds."""

    leader_elect: bool = False
    leader_elect_resource_name: str = ""
    leader_elect_resource_namespace: str = ""
    leader_elect_lease_duration: float = 15.0
    leader_elect_renew_deadline: float = 10.0
    leader_elect_retry_period: float = 2.0


def make_elector(settings: ElectionSettings, load: Callable[[], ClusterConfig], namespace: str) -> ElectorThread | None:
    """Return the elector of a program, None for one that always leads.

    Its connections are its own, and so are its credentials: no limit, no pool and no lock of the program delays it.

    Args:
        settings: The options.
        load: Returns the cluster that has the Lease, with credentials of its own.
        namespace: The namespace of the Lease unless the options name one: the pod's own, or the context's.

    Raises:
        ConfigError: The options contradict each other.
    """
    if not settings.leader_elect:
        return None
    config = LeaderElectionConfig(
        name=settings.leader_elect_resource_name,
        namespace=settings.leader_elect_resource_namespace or namespace,
        lease_duration=settings.leader_elect_lease_duration,
        renew_deadline=settings.leader_elect_renew_deadline,
        retry_period=settings.leader_elect_retry_period,
    )

    @asynccontextmanager
    async def connect() -> AsyncIterator[Client]:
        async with HttpTransport(load()) as transport:
            yield Client(transport, field_manager="").with_options(field_manager="leader-election")

    return ElectorThread(connect, config, clock=SystemClock(), random=Random())
