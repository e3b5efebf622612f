"""Dependents: objects that a controller creates for an owner.

- `DependentControl` creates and deletes them: idempotent creates, slow start, events, read-your-writes.
- `Children` ensures the wanted children of an owner, of several kinds, and deletes those no longer wanted.
- `claim` adopts matching objects without a controller and releases objects that no longer match.
- `set_controller` and others set owner references; `finalized` handles a finalizer.
- `create_or_patch` creates or patches a single object.
"""

from kcr.api.readiness import Readiness
from kcr.dependents.children import Children, EnsuredChildren
from kcr.dependents.claim import Claimed, claim, claim_decision
from kcr.dependents.control import DependentControl
from kcr.dependents.create import (
    AlteredObjectError,
    Ensured,
    QuotaExceededError,
    UnconfirmedCreateError,
    create_or_patch,
)
from kcr.dependents.emitter import EventEmitter
from kcr.dependents.finalizers import add_finalizer, finalized, has_finalizer, remove_finalizer
from kcr.dependents.ownership import AlreadyOwnedError, has_owner, remove_owner, set_controller, set_owner
from kcr.dependents.replicas import (
    Scaling,
    adopters,
    claim_selected,
    plan_scaling,
    scale_pods,
    set_replica_failure,
)
from kcr.dependents.slow_start import Attempts, Failure, slow_start
from kcr.errors import is_namespace_ending

__all__ = [
    "AlreadyOwnedError",
    "AlteredObjectError",
    "Attempts",
    "Children",
    "Claimed",
    "DependentControl",
    "Ensured",
    "EnsuredChildren",
    "EventEmitter",
    "Failure",
    "QuotaExceededError",
    "Readiness",
    "Scaling",
    "UnconfirmedCreateError",
    "add_finalizer",
    "adopters",
    "claim",
    "claim_decision",
    "claim_selected",
    "create_or_patch",
    "finalized",
    "has_finalizer",
    "has_owner",
    "is_namespace_ending",
    "plan_scaling",
    "remove_finalizer",
    "remove_owner",
    "scale_pods",
    "set_controller",
    "set_owner",
    "set_replica_failure",
    "slow_start",
]
