"""The namespace controller: empties namespaces that are to go, then lets them go.

Source: kubernetes/pkg/controller/namespace/deletion/namespaced_resources_deleter.go.
"""

import asyncio
from collections.abc import Iterable, Mapping

from kcr.embedded.deletion import DeleteOptions, delete
from kcr.embedded.kinds import KINDS, NAMESPACES, Kind
from kcr.embedded.metadata import timestamp
from kcr.embedded.registry import Registry
from kcr.embedded.storage import Change, Record

# The conditions a terminating namespace shows: reason and message while all is well.
_FINE: Mapping[str, tuple[str, str]] = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


class NamespaceController:
    """Follows the namespaces, and what is in those that are to go. `run` works until it is cancelled."""

    def __init__(self, registry: Registry, kinds: Iterable[Kind] = KINDS) -> None:
        self._registry = registry
        self._kinds = [kind for kind in kinds if kind.type.namespaced]
        # Terminating namespaces to look at; a dict for its order.
        self._work: dict[str, None] = {}
        self._terminating: set[str] = set()
        self._waker: asyncio.Future[None] | None = None

    async def run(self) -> None:
        """Empty namespaces until cancelled."""
        tables = [self._registry.storage.table(kind) for kind in (NAMESPACES, *self._kinds)]
        for record in tables[0].select():
            self._on_change(Change(record.revision, None, record))
        for table in tables:
            table.subscribers[self._on_change] = None
        try:
            while True:
                while not self._work:
                    self._waker = asyncio.get_running_loop().create_future()
                    await self._waker
                # The DELETE that began it is answered before its consequences come.
                await asyncio.sleep(0)
                work, self._work = self._work, {}
                for name in work:
                    self._attend(name)
        finally:
            for table in tables:
                table.subscribers.pop(self._on_change, None)

    def _on_change(self, change: Change) -> None:
        record = change.record
        if record.kind is not NAMESPACES:
            # An object that leaves, or appears, in a namespace that is being emptied.
            if record.metadata.namespace in self._terminating and (change.new is None or change.old is None):
                self._look_at(record.metadata.namespace)
        elif change.new is None:
            self._terminating.discard(record.metadata.name)
        elif record.metadata.deletion_timestamp is not None:
            self._terminating.add(record.metadata.name)
            self._look_at(record.metadata.name)

    def _look_at(self, name: str) -> None:
        self._work[name] = None
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    def _attend(self, name: str) -> None:
        storage = self._registry.storage
        for record in self._contents(name):
            if record.metadata.deletion_timestamp is None:
                delete(self._registry, record, DeleteOptions(policy="Background"))
        namespace, remaining = storage.get(NAMESPACES, "", name), self._contents(name)
        if namespace is None:
            return
        before, new = namespace.manifest(), namespace.manifest()
        conditions = self._conditions(remaining)
        old = {one["type"]: one for one in (before.get("status") or {}).get("conditions") or ()}
        new.setdefault("status", {})["conditions"] = [_unchanged(old.get(one["type"]), one) for one in conditions]
        if not remaining:
            new["spec"] = {member: value for member, value in (new.get("spec") or {}).items() if member != "finalizers"}
        self._registry.store(namespace, new, before)

    def _contents(self, name: str) -> list[Record]:
        storage = self._registry.storage
        return [record for kind in self._kinds for record in storage.table(kind).select(name)]

    def _conditions(self, remaining: list[Record]) -> list[dict[str, str]]:
        found: dict[str, tuple[str, str]] = {}
        if remaining:
            kinds: dict[str, int] = {}
            for record in remaining:
                kinds[record.kind.type.display] = kinds.get(record.kind.type.display, 0) + 1
            words = ", ".join(f"{kind}. has {count} resource instances" for kind, count in sorted(kinds.items()))
            found["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {words}")
        finalizers: dict[str, int] = {}
        for record in remaining:
            for finalizer in record.metadata.finalizers:
                finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
        if finalizers:
            words = ", ".join(f"{one} in {count} resource instances" for one, count in sorted(finalizers.items()))
            message = f"Some content in the namespace has finalizers remaining: {words}"
            found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
        now = timestamp(self._registry.clock.now())
        return [
            {
                "type": kind, "status": "True" if kind in found else "False", "lastTransitionTime": now,
                "reason": found.get(kind, fine)[0], "message": found.get(kind, fine)[1],
            }
            for kind, fine in _FINE.items()
        ]  # fmt: skip


def _unchanged(old: dict[str, str] | None, new: dict[str, str]) -> dict[str, str]:
    """Return the new condition with the old time where the status did not change."""
    if old is None or old["status"] != new["status"]:
        return new
    return {**new, "lastTransitionTime": old["lastTransitionTime"]}
