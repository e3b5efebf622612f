"""What a controller's author writes: one pass over one key, and what it asks for next."""

from datetime import timedelta
from typing import NamedTuple, Protocol

from kcr.api.meta import Key


class Result(NamedTuple):
    """How a reconcile went well.

    Attributes:
        requeue_after: When to look again although nothing has changed; zero or less means at once, None never.
    """

    requeue_after: timedelta | None = None


class Reconciler(Protocol):
    """Brings one object towards what it should be."""

    async def reconcile(self, key: Key) -> Result:
        """Look at the world as it is now, and do what is missing.

        The key names an object that may have changed in any way, or be gone: nothing is told of what happened,
        and a key that changed five times comes once. No key is reconciled twice at the same time.

        Raises:
            TerminalError: Retrying cannot help; the key rests until the object changes.
            Exception: Anything else brings the key back, later with each failure.
        """
        ...
