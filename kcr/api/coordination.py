"""Leases: who does a thing that only one may do, and who is alive."""

from kcr.api.meta import FullResource, MicroTime, Object


class LeaseSpec(Object):
    """Who holds the lease, since when, and for how long after the last renewal."""

    holder_identity: str = ""
    lease_duration_seconds: int | None = None
    acquire_time: MicroTime | None = None
    renew_time: MicroTime | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(FullResource, api_version="coordination.k8s.io/v1", plural="leases"):
    """A claim that has to be renewed."""

    spec: LeaseSpec = LeaseSpec()
