"""The phases of a scope."""

from enum import Enum


class ScopePhase(Enum):
    """How far a scope is; one that is not held has no phase.

    Attributes:
        OPENING: Its caches are being filled: its keys wait.
        ACTIVE: Its keys are reconciled.
        DRAINING: It is being given up: no key is begun, except to settle a write without an answer.
        CLOSED: Nothing is written in its name any more, and it is about to be released.
    """

    OPENING = "opening"
    ACTIVE = "active"
    DRAINING = "draining"
    CLOSED = "closed"
