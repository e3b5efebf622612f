"""The namespace controller: empties namespaces that are to go, then lets them go.

A client like any other.

Source: kubernetes/pkg/controller/namespace/deletion/namespaced_resources_deleter.go.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from kcr.api import codec
from kcr.api.meta import Condition, Key, Object, ObjectMeta, Resource, whole_seconds
from kcr.client import Client
from kcr.clock import Clock
from kcr.cluster.controllers.census import Census, Place
from kcr.cluster.controllers.pending import Pending
from kcr.errors import ApiError, ConflictError, NotFoundError, TransportError

_PAUSE_SECONDS = 1.0
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


_log = logging.getLogger(__name__)


class _NamespaceStatus(Object):
    conditions: tuple[Condition, ...] = ()


class _Namespace(Resource, api_version="v1", kind="Namespace", plural="namespaces", namespaced=False):
    status: _NamespaceStatus = _NamespaceStatus()


class NamespaceController:
    """Follows the namespaces, and what is in those that are to go. `run` works until it is cancelled."""

    def __init__(self, client: Client, census: Census, clock: Clock) -> None:
        self._client = client
        self._census = census
        self._clock = clock
        self._kinds = [kind for kind in census.types.values() if kind.resource.namespaced]
        self._terminating: set[str] = set()
        self._pending: Pending[str] = Pending()
        census.listeners.append(self._on_change)

    async def run(self) -> None:
        """Empty namespaces until cancelled."""
        while True:
            name = await self._pending.next()
            try:
                await self._attend(name)
            except NotFoundError:
                continue
            except ConflictError:
                self._pending.add(name)
            except (ApiError, TransportError) as error:
                _log.warning("namespace %s: %s", name, error)
                self._pending.add(name)
                await asyncio.sleep(_PAUSE_SECONDS)

    def _on_change(self, place: Place, old: ObjectMeta | None, new: ObjectMeta | None) -> None:
        if place.type.resource.path() != _Namespace.resource.path():
            # An object that leaves, or appears, in a namespace that is being emptied.
            if place.key.namespace in self._terminating and (old is None or new is None):
                self._pending.add(place.key.namespace)
        elif new is None:
            self._terminating.discard(place.key.name)
        elif new.deletion_timestamp is not None:
            self._terminating.add(place.key.name)
            self._pending.add(place.key.name)

    async def _attend(self, name: str) -> None:
        for obj in await self._contents(name):
            if obj.metadata.deletion_timestamp is None:
                await self._delete(obj)
        # Nothing new comes in, so what is left now is all there will be.
        remaining = await self._contents(name)
        found = await self._client.get(_Namespace, Key("", name))
        await self._report(found, remaining)
        if not remaining:
            body = {"metadata": {"name": name}, "spec": {"finalizers": []}}
            await self._client.request("PUT", _Namespace.resource.path("", name, "finalize"), codec.encode(body))

    async def _contents(self, name: str) -> list[Resource]:
        return [obj for kind in self._kinds for obj in await self._client.list(kind, name)]

    async def _delete(self, obj: Resource) -> None:
        with suppress(ConflictError, NotFoundError):  # gone already, or another by now: the next look tells
            await self._client.delete(type(obj), obj.key, uid=obj.metadata.uid, propagation="Background")

    async def _report(self, namespace: _Namespace, remaining: list[Resource]) -> None:
        old = {one.type: one for one in namespace.status.conditions}
        conditions = [_unchanged(old.get(one.type), one) for one in self._conditions(remaining)]
        change = {"metadata": {"uid": namespace.metadata.uid}, "status": {"conditions": conditions}}
        await self._client.merge_patch(_Namespace, Key("", namespace.metadata.name), change, subresource="status")

    def _conditions(self, remaining: list[Resource]) -> list[Condition]:
        found: dict[str, tuple[str, str]] = {}
        if remaining:
            kinds = Counter(type(obj).resource.display for obj in remaining)
            words = ", ".join(f"{kind}. has {count} resource instances" for kind, count in sorted(kinds.items()))
            found["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {words}")
        if finalizers := Counter(finalizer for obj in remaining for finalizer in obj.metadata.finalizers):
            words = ", ".join(f"{one} in {count} resource instances" for one, count in sorted(finalizers.items()))
            message = f"Some content in the namespace has finalizers remaining: {words}"
            found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
        now = whole_seconds(self._clock.now())
        return [
            Condition(
                type=kind, status="True" if kind in found else "False", last_transition_time=now,
                reason=found.get(kind, fine)[0], message=found.get(kind, fine)[1],
            )
            for kind, fine in _FINE.items()
        ]  # fmt: skip


def _unchanged(old: Condition | None, new: Condition) -> Condition:
    """Return the new condition with the old time where the status did not change."""
    if old is None or old.status != new.status:
        return new
    return msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
