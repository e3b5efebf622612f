# Made by `python -m tools.api_types`: do not edit.
"""Types of coordination/v1, whole."""

from kcr.api.meta import FullResource, MicroTime, Object


class LeaseSpec(Object):
    acquire_time: MicroTime | None = None
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    preferred_holder: str | None = None
    renew_time: MicroTime | None = None
    strategy: str | None = None


class Lease(FullResource, api_version="coordination.k8s.io/v1", plural="leases"):
    spec: LeaseSpec = LeaseSpec()
