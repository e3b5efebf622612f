"""Creates of Secrets that arrive late, as behind a proxy, whether the sender still waits for the answer or not."""

from collections.abc import Callable

from kcr.api.core import Secret
from kcr.client import Transport
from kcr.testing import FaultyTransport


def late_creates(
    inner: Transport, seconds: float | Callable[[], float], cut_after: float | None, *, answered: bool
) -> FaultyTransport:
    """Return a transport on which they do; applies are creates as well. See `Rule.arrive_late`."""
    faults = FaultyTransport(inner)
    for verb in ("create", "patch"):
        faults.on(verb, Secret).arrive_late(seconds, cut_after=cut_after, answered=answered)
    return faults
