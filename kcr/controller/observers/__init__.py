"""Observers of reconciles: metrics, journal, traces, hot loops and conflicts that repeat.

The last to begin is the first to end. So the innermost is `ReadYourWrites`, and the events that arrived during a
reconcile are enqueued whatever another observer raises.
"""

from collections.abc import Awaitable, Mapping

import msgspec

from kcr.api.meta import Key
from kcr.metrics import Outcome


class ReconcileRun(msgspec.Struct):
    """One reconcile of a key, as its observers see it.

    Attributes:
        key: The key.
        id: The reconcile id of its log lines.
        began: When it began, in the loop's time.
        ended: When it ended.
        outcome: How it ended; `cancelled` as long as it has not.
        detail: The error as a text; or the seconds after which the reconciler asked for its key again; else empty.
        error: The exception that the reconcile failed with.
        causes: The exceptions in it: itself, or where it is a group the members; empty when it did not fail.
        exemplar: The labels that lead to its trace; None without one.
    """

    key: Key
    id: str
    began: float
    ended: float = 0.0
    outcome: Outcome = "cancelled"
    detail: str | float = ""
    error: BaseException | None = None
    causes: tuple[BaseException, ...] = ()
    exemplar: Mapping[str, str] | None = None


class Observer:
    """Observes the reconciles of one controller; methods that are not overridden are never called.

    Contract: calls are synchronous, on the event loop. `end` follows `begin`, also when the reconcile is cancelled, and
    no other reconcile of the key begins in between. An exception ends the worker: it is no failure of the reconcile.
    """

    def begin(self, run: ReconcileRun) -> Awaitable[None] | None:
        """Note that a reconcile begins; an awaitable is awaited before it does, and before the next observer."""

    def end(self, run: ReconcileRun) -> Awaitable[None] | None:
        """Note that a reconcile has ended; an awaitable is awaited before the key is done.

        A reconcile that was cancelled has no time left: return None then.
        """
