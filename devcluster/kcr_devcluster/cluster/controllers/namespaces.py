"""Namespace controller: deletes the content of terminating namespaces, pods first, then finalizes the namespaces.

Source: kubernetes/pkg/controller/namespace/namespace_controller.go,
deletion/namespaced_resources_deleter.go, deletion/status_condition_utils.go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from typing import Any

import msgspec

from kcr.api import codec
from kcr.api.conditions import set_condition
from kcr.api.core import Namespace, Pod
from kcr.api.meta import Condition, Key, PartialObjectMetadata, metadata_only
from kcr.api.resources import ResourceType
from kcr.controller import Result, watch
from kcr.errors import ApiError, ConflictError, NotFoundError
from kcr.informer import InformerHandle
from kcr.manager import Manager

# How soon a namespace is reconciled again when some of its objects remain and no watch event reports a change.
# Source: namespaced_resources_deleter.go, finalizerEstimateSeconds; namespace_controller.go, worker.
REQUEUE_SECONDS = 15 / 2 + 1

_FINALIZER = "kubernetes"
_POD = metadata_only(Pod.resource)

# The conditions of a terminating namespace: reason and message while there is nothing to report.
_CONDITIONS: Mapping[str, tuple[str, str]] = {
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
    """Reconciles one namespace; idempotent."""

    def __init__(self, manager: Manager, kinds: Iterable[ResourceType]) -> None:
        """Make a namespace controller.

        Args:
            manager: The manager.
            kinds: The kinds whose objects are the content of namespaces.
        """
        self._manager = manager
        self._client = manager.client
        self._clock = manager.clock
        self._builtin = [metadata_only(kind) for kind in kinds if kind.namespaced]
        self._kinds = self._builtin
        self._watches: dict[ResourceType, InformerHandle[Any]] = {}
        self._namespaces = manager.store(Namespace)
        self._controller = manager.add_controller("namespace", self, watches=[watch(Namespace)])

    def watch(self, kind: ResourceType) -> None:
        """Reconcile a terminating namespace, from now on, when an object of this kind is created or deleted in it."""
        if kind.namespaced and kind not in self._watches:
            source = watch(metadata_only(kind), map_to=_namespace_of, predicate=self._is_content_of_terminating)
            self._watches[kind] = self._manager.add_watch(self._controller, source)

    def set_custom_kinds(self, kinds: Iterable[ResourceType]) -> None:
        """Objects of these kinds are content as well, and no longer those of kinds that were set before."""
        self._kinds = [*self._builtin, *(metadata_only(kind) for kind in kinds if kind.namespaced)]

    def unwatch(self, kind: ResourceType) -> None:
        """Watch a kind no longer: it is not served any more. It may come back."""
        if kind in self._watches:
            self._watches.pop(kind).close()

    def _is_content_of_terminating(self, old: PartialObjectMetadata | None, new: PartialObjectMetadata | None) -> bool:
        obj = old or new
        return (old is None or new is None) and obj is not None and self._is_terminating(*_namespace_of(obj))

    def _is_terminating(self, key: Key) -> bool:
        namespace = self._namespaces.get(key)
        return namespace is not None and namespace.metadata.deletion_timestamp is not None

    async def reconcile(self, key: Key) -> Result:
        """Delete the namespace's objects, report those that remain, and finalize the namespace when none does."""
        if not self._is_terminating(key):
            return Result()
        # Objects that pods use, such as network policies and Secrets, stay for as long as the pods run.
        remaining = await self._empty(key.name, (_POD,)) or await self._empty(key.name, self._kinds)
        with suppress(NotFoundError):  # deleted meanwhile
            await self._report(await self._client.get(Namespace, key), remaining)
            if not remaining:
                await self._finalize(key.name)
        return Result(requeue_after=REQUEUE_SECONDS if remaining else None)

    async def _empty(self, name: str, kinds: Sequence[type[PartialObjectMetadata]]) -> list[PartialObjectMetadata]:
        """Delete the objects of some kinds in a namespace, and return those that remain."""
        for obj in await self._content(name, kinds):
            if obj.metadata.deletion_timestamp is None:
                with suppress(ConflictError, NotFoundError):  # deleted meanwhile, and perhaps created again
                    await self._client.delete(type(obj), obj.key, uid=obj.metadata.uid, propagation="Background")
        # Nothing can be created in it any more, so no further objects will follow.
        return await self._content(name, kinds)

    async def _finalize(self, name: str) -> None:
        """Remove the finalizer that stands for the content of a namespace, and leave those of others."""
        path = Namespace.resource.path("", name)
        manifest = msgspec.json.decode(await self._client.request("GET", path))
        finalizers = (manifest.get("spec") or {}).get("finalizers") or ()
        body = codec.encode({**manifest, "spec": {"finalizers": [one for one in finalizers if one != _FINALIZER]}})
        with suppress(ConflictError):  # changed meanwhile: its watch event brings it back
            await self._client.request("PUT", f"{path}/finalize", body)

    async def _content(self, name: str, kinds: Sequence[type[PartialObjectMetadata]]) -> list[PartialObjectMetadata]:
        found: list[PartialObjectMetadata] = []
        for kind in kinds:
            try:
                found += await self._client.list(kind, name)
            except ApiError as error:
                if error.code != 404:  # of a custom resource, the definition may be deleted meanwhile
                    raise
        return found

    async def _report(self, namespace: Namespace, remaining: Sequence[PartialObjectMetadata]) -> None:
        now, old = self._clock.now(), namespace.status.conditions
        new = reduce(lambda conditions, wanted: set_condition(conditions, wanted, now), _conditions(remaining), old)
        if new is not old:
            change = {"metadata": {"uid": namespace.metadata.uid}, "status": {"conditions": new}}
            await self._client.merge_patch(Namespace, namespace.key, change, subresource="status")


def _namespace_of(obj: PartialObjectMetadata) -> tuple[Key]:
    return (Key("", obj.metadata.namespace),)


def _conditions(remaining: Sequence[PartialObjectMetadata]) -> list[Condition]:
    found: dict[str, tuple[str, str]] = {}
    if remaining:
        kinds = Counter(obj.resource.display for obj in remaining)
        words = ", ".join(f"{kind}. has {count} resource instances" for kind, count in sorted(kinds.items()))
        found["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {words}")
    if finalizers := Counter(finalizer for obj in remaining for finalizer in obj.metadata.finalizers):
        words = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        message = f"Some content in the namespace has finalizers remaining: {words}"
        found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
    said = {kind: found.get(kind, fine) for kind, fine in _CONDITIONS.items()}
    return [
        Condition(type=kind, status="True" if kind in found else "False", reason=reason, message=message)
        for kind, (reason, message) in said.items()
    ]
