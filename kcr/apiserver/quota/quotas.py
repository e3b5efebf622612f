"""All quotas of the server. New objects are judged here; nothing else is ever refused for a quota.

The storage tells of every change in the same step in which it happens, so a limit holds exactly: no two
creations can both take the last share.
"""

from collections.abc import Callable

from kcr.api.meta import Key
from kcr.apiserver.kinds.catalogue import RESOURCE_QUOTAS, Kind
from kcr.apiserver.kinds.strategy import Manifest
from kcr.apiserver.quota.account import Account
from kcr.apiserver.quota.usage import NOTHING
from kcr.apiserver.responses import forbidden
from kcr.apiserver.storage.storage import Change, Record, Storage
from kcr.clock import Clock


class Quotas:
    """Knows what is used of every quota.

    Where there is no quota nothing is followed, and a creation costs one look into a dict.

    Attributes:
        on_change: Called with the key of each quota whose status may be out of date.
    """

    def __init__(self, storage: Storage, clock: Clock, kinds: tuple[Kind, ...]) -> None:
        self.on_change: Callable[[Key], object] = lambda key: None
        self._clock = clock
        self._tables = [storage.table(kind) for kind in kinds if kind.type.namespaced and kind.view is None]
        # By namespace, then by name; a namespace without quotas has no entry.
        self._accounts: dict[str, dict[str, Account]] = {}
        storage.table(RESOURCE_QUOTAS).subscribers[self._on_quota] = None

    def check(self, kind: Kind, obj: Manifest) -> None:
        """Let a new object pass when every quota of its namespace has room for it.

        Raises:
            RefusedError: 403, one has not.
        """
        accounts = self._accounts.get(obj["metadata"].get("namespace", ""))
        if accounts is None:
            return
        now = self._clock.now()
        for name in sorted(accounts):
            if why := accounts[name].refusal(kind, obj, now):
                raise forbidden(kind.type, obj["metadata"]["name"], why)

    def status(self, key: Key) -> Manifest | None:
        """Return the status a quota should have, None when there is no such quota."""
        account = self._accounts.get(key.namespace, {}).get(key.name)
        return None if account is None else account.status(self._clock.now())

    def _on_quota(self, change: Change) -> None:
        namespace, name = change.record.metadata.namespace, change.record.metadata.name
        if change.new is None:
            self._close(namespace, name)
            return
        known = self._accounts.get(namespace, {}).get(name)
        spec = change.new.manifest().get("spec") or {}
        if known is None or known.spec != spec:
            self._open(namespace, Account(name, spec))

    def _open(self, namespace: str, account: Account) -> None:
        if not self._accounts:
            for table in self._tables:
                table.subscribers[self._on_change] = None
        self._accounts.setdefault(namespace, {})[account.name] = account
        for table in self._tables:
            for record in table.select(namespace):
                account.note(_place(record), account.share_of(record.kind, record.manifest()))
        self.on_change(Key(namespace, account.name))

    def _close(self, namespace: str, name: str) -> None:
        accounts = self._accounts[namespace]
        del accounts[name]
        if not accounts:
            del self._accounts[namespace]
        if not self._accounts:
            for table in self._tables:
                del table.subscribers[self._on_change]

    def _on_change(self, change: Change) -> None:
        record = change.record
        accounts = self._accounts.get(record.metadata.namespace)
        if accounts is None:
            return
        obj = None if change.new is None else change.new.manifest()
        for account in accounts.values():
            share = NOTHING if obj is None else account.share_of(record.kind, obj)
            if account.note(_place(record), share):
                self.on_change(Key(record.metadata.namespace, account.name))


def _place(record: Record) -> str:
    return f"{record.kind.type.display}/{record.key}"
