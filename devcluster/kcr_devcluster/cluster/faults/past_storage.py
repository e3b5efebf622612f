"""A view of the storage by a server that is behind: `older` in the rules of faults."""

from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.storage.records import Record, key_of
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.apiserver.storage.watch_cache import WatchCache


class PastStorage:
    """Shows the objects as they were some changes ago, but no earlier than the history begins.

    It waits for no revision and knows no other: a server that is behind responds with its own state. A watch that
    begins with the objects sends these as they were, and then the changes since, so that a reflector catches up.
    """

    def __init__(self, storage: Storage, older: int) -> None:
        """Make a view.

        Args:
            storage: The storage.
            older: How many changes of any kind are not seen.
        """
        self._storage = storage
        self._shown = max(1, storage.revision - older)

    @property
    def revision(self) -> int:
        """The resourceVersion of the newest change: watches follow the changes since."""
        return self._storage.revision

    @property
    def compacted_revision(self) -> int:
        """The oldest revision at which lists can be read: a server that is behind has compacted nothing."""
        return 0

    def cache(self, kind: Kind) -> WatchCache:
        """Return the watch cache of a kind."""
        return self._storage.cache(kind)

    def get(self, kind: Kind, namespace: str, name: str) -> Record | None:
        """Return an object as it was, None where there was none."""
        records, _ = self.cache(kind).snapshot_at(self.revision_to_read(kind))
        return records.get(key_of(namespace, name))

    def revision_to_read(self, kind: Kind, exact: int = 0) -> int:
        """Return the revision of the view.

        Args:
            kind: The kind, whose history may begin later.
            exact: Has no effect.
        """
        return max(self._shown, self.cache(kind).compacted_revision)

    async def wait_for_revision(self, revision: int) -> None:
        """Wait for nothing."""
