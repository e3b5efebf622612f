"""Gates: each decides whether a key that a worker has taken is reconciled now.

A controller gives its worker a tuple of them; the first that does not admit a key decides. So a gate that counts an
admission as a reconcile, such as the minimal interval, is the last.
"""

from enum import Enum
from typing import Protocol

from kcr.api.meta import Key


class GateDecision(Enum):
    """A gate's decision about a key.

    Attributes:
        ADMIT: The key passes this gate.
        DEFER: The key is not reconciled now. The gate enqueues it again, at the priority that it had.
        DROP: The key is not reconciled, and its backoff is reset: an event will enqueue it when that changes.
    """

    ADMIT = "admit"
    DEFER = "defer"
    DROP = "drop"


class Gate(Protocol):
    """Decides which keys of one controller are reconciled."""

    def check(self, key: Key) -> GateDecision:
        """Decide about a key that a worker is about to reconcile.

        It is called on the event loop, and only while the key is being processed.

        Raises:
            KcrError: The key was deferred for too long: it fails, as if its reconcile had, and is retried with backoff.
        """
        ...
