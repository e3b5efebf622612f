"""Graph of objects and their owners, by uid, as metadata-only informers show it.

The graph lags behind the API server by a moment: it shows which objects to check, and each decision is made on the
live object.

Source: kubernetes/pkg/controller/garbagecollector/graph_builder.go.
"""

from collections.abc import Callable, Iterable, Sequence

from kcr.api.meta import OwnerReference, PartialObjectMetadata
from kcr.informer import Handler, Trigger

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class Graph(Handler[PartialObjectMetadata]):
    """Handler of all informers of the garbage collector."""

    def __init__(
        self,
        on_change: Callable[[str, Trigger], None],
        on_other_namespace: Callable[[PartialObjectMetadata, OwnerReference], None],
    ) -> None:
        """Take what is called.

        Args:
            on_change: Called with the uid of each object that may have to be deleted, or whose deletion may proceed,
                and the event that is the cause.
            on_other_namespace: Called once with an object and its first owner reference whose owner is in another
                namespace.
        """
        self._on_change = on_change
        self._on_other_namespace = on_other_namespace
        self._objects: dict[str, PartialObjectMetadata] = {}
        # The uids of the dependents of every owner that is named, there or not. Invariant: no empty values.
        self._dependents: dict[str, dict[str, None]] = {}

    def get(self, uid: str) -> PartialObjectMetadata | None:
        """Return an object as last seen, or None."""
        return self._objects.get(uid)

    def dependents(self, owner: PartialObjectMetadata) -> list[PartialObjectMetadata]:
        """Return the objects that name an owner; references do not reach into other namespaces."""
        found = (self._objects.get(uid) for uid in self._dependents.get(owner.metadata.uid, ()))
        namespaces = ("", owner.metadata.namespace) if owner.metadata.namespace else None
        return [
            obj
            for obj in found
            if obj is not None
            and obj.metadata.uid != owner.metadata.uid
            and (namespaces is None or obj.metadata.namespace in namespaces)
        ]

    def is_settled(self, obj: PartialObjectMetadata) -> bool:
        """Return whether nothing is to be done about an object, as far as the graph knows.

        So it is with nearly all objects when they are created, and none of those costs a request. When it changes, the
        graph calls its `on_change`.
        """
        metadata = obj.metadata
        if metadata.deletion_timestamp is not None:
            return ORPHAN not in metadata.finalizers and FOREGROUND not in metadata.finalizers
        owners = ((reference, self._objects.get(reference.uid)) for reference in metadata.owner_references)
        return all(
            owner is not None and not waits_for_dependents(owner) and is_named(owner, reference, obj)
            for reference, owner in owners
        )

    def on_add(self, obj: PartialObjectMetadata, initial: bool) -> None:
        """Add an object."""
        self._link(obj, Trigger.added(obj, initial))
        for uid in self._dependents.get(obj.metadata.uid, ()):
            dependent = self._objects[uid]
            self._report(dependent, (one for one in dependent.metadata.owner_references if one.uid == obj.metadata.uid))

    def _report(self, dependent: PartialObjectMetadata, references: Iterable[OwnerReference]) -> None:
        """Report the first of some owner references whose owner is in another namespace."""
        for reference in references:
            owner = self._objects.get(reference.uid)
            if owner is not None and owner.metadata.namespace not in ("", dependent.metadata.namespace):
                self._on_other_namespace(dependent, reference)
                return

    def _link(self, obj: PartialObjectMetadata, trigger: Trigger, known: Sequence[OwnerReference] = ()) -> None:
        self._objects[obj.metadata.uid] = obj
        self._report(obj, (reference for reference in obj.metadata.owner_references if reference not in known))
        for reference in obj.metadata.owner_references:
            self._dependents.setdefault(reference.uid, {})[obj.metadata.uid] = None
        if not self.is_settled(obj):
            self._on_change(obj.metadata.uid, trigger)

    def on_update(self, old: PartialObjectMetadata, new: PartialObjectMetadata) -> None:
        """Replace an object."""
        trigger = Trigger.updated(old, new)
        if old.metadata.owner_references != new.metadata.owner_references:
            self._unlink(old, trigger)
            self._link(new, trigger, old.metadata.owner_references)
            return
        self._objects[new.metadata.uid] = new
        if new.metadata.deletion_timestamp is not None and not self.is_settled(new):
            self._on_change(new.metadata.uid, trigger)

    def on_delete(self, obj: PartialObjectMetadata, final_state_unknown: bool) -> None:
        """Remove an object; its dependents have lost an owner."""
        trigger = Trigger.deleted(obj)
        self._unlink(self._objects.pop(obj.metadata.uid, obj), trigger)
        for uid in tuple(self._dependents.get(obj.metadata.uid, ())):
            self._on_change(uid, trigger)

    def _unlink(self, obj: PartialObjectMetadata, trigger: Trigger) -> None:
        """Remove an object from its owners' dependents; an owner that waits for it may be deleted now."""
        for reference in obj.metadata.owner_references:
            dependents = self._dependents.get(reference.uid, {})
            dependents.pop(obj.metadata.uid, None)
            if not dependents:
                self._dependents.pop(reference.uid, None)
            if reference.uid in self._objects:
                self._on_change(reference.uid, trigger)


def waits_for_dependents(owner: PartialObjectMetadata) -> bool:
    """Return whether an object is being deleted in the foreground: after its dependents."""
    return owner.metadata.deletion_timestamp is not None and FOREGROUND in owner.metadata.finalizers


def is_named(owner: PartialObjectMetadata, reference: OwnerReference, dependent: PartialObjectMetadata) -> bool:
    """Return whether a reference fits an owner as a whole, not by its uid alone."""
    named = (reference.api_version, reference.kind, reference.name)
    found = (owner.resource.api_version, owner.resource.kind, owner.metadata.name)
    return named == found and owner.metadata.namespace in ("", dependent.metadata.namespace)
