"""Controllers and watches that start with the first object of a kind.

A cluster has objects of few kinds. Watching all the others would cost more than everything else that happens in a test.
"""

from collections.abc import Callable, Sequence

from kcr.api.resources import ResourceType
from kcr.manager import Manager
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.storage.records import Change
from kcr_devcluster.apiserver.storage.storage import Storage


class FirstObjects:
    """Calls functions as soon as the storage has an object of a kind; at once where it has one already."""

    def __init__(self, storage: Storage, manager: Manager) -> None:
        """Wait for first objects.

        Args:
            storage: Where objects are stored.
            manager: Takes the controllers of `set_up`.
        """
        self._storage = storage
        self._manager = manager
        # Not a list of the waiting functions: the storage drops them with the kinds whose definitions are deleted.
        self._is_closed = False

    def close(self) -> None:
        """Call nothing any more: the manager takes nothing new once it stops."""
        self._is_closed = True

    def call(self, kind: Kind, *functions: Callable[[ResourceType], None]) -> None:
        """Call functions, once, as soon as there is an object of a kind."""
        cache = self._storage.cache(kind)

        def run(_: Change | None) -> None:
            cache.subscribers.pop(run, None)
            for function in () if self._is_closed else functions:
                function(kind.type)

        if cache.records:
            run(None)
        else:
            cache.subscribers[run] = None

    def set_up(self, kinds: Sequence[Kind], setup: Callable[[Manager], None]) -> None:
        """Add controllers to the manager, once, as soon as there is an object of one of their kinds."""
        left = [setup]

        def start(_: ResourceType) -> None:
            if left:
                left.pop()(self._manager)

        for kind in kinds:
            self.call(kind, start)
