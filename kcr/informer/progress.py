"""Progress of a store: the version that it, or one of its parts, has reached, and the calls that wait for a version."""

import heapq
import math
from collections.abc import Callable
from itertools import count

from kcr.log import get_logger

_log = get_logger("kcr.informer")


class StoreProgress:
    """The version up to which all changes of a store, or of one of its parts, are processed.

    A store under sharding, or of several namespaces, is filled by several watches, each of which runs ahead of the
    others. So a write is awaited in the part that will show it (`Store.progress_of`).

    Attributes:
        resource_version: The highest version that was processed, of a list, an event or a bookmark; 0 before the first,
            and where the server's versions are no numbers. It only increases.
        is_closed: Whether nothing more will be processed.
    """

    __slots__ = ("_order", "_waiting", "is_closed", "resource_version")

    def __init__(self) -> None:
        self.resource_version: int = 0
        self.is_closed: bool = False
        # Calls that wait for a version, the lowest first; the number in the middle keeps their order.
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def notify_at_version(self, resource_version: int, callback: Callable[[], None]) -> None:
        """Call back once a version has been reached; at once if it has, or never will."""
        if resource_version <= self.resource_version or self.is_closed:
            callback()
        else:
            heapq.heappush(self._waiting, (resource_version, next(self._order), callback))

    def advance(self, version: int) -> None:
        """Record that all changes up to a version are processed, and call the callbacks that wait for it."""
        if version > self.resource_version:
            self.resource_version = version
            self._call_waiting(version)

    def close(self) -> None:
        """Record that nothing more will be processed, and call all callbacks."""
        self.is_closed = True
        self._call_waiting(math.inf)

    def _call_waiting(self, reached: float) -> None:
        while self._waiting and self._waiting[0][0] <= reached:
            version, _, callback = heapq.heappop(self._waiting)
            try:
                callback()
            except Exception:
                _log.exception("callback failed", version=version)
