"""Which objects of a kind a replica keeps under sharding, and how they are asked for and recognised.

For each set of slots that a replica holds there are two watches of a kind: of the objects whose label states a slot,
which every API server filters, and of those without such a label, by their uid. The API server filters the second ones
where it has KEP-5866; elsewhere, and for dependents whose slot is that of their controller, the replica drops foreign
objects before they are decoded: uid, labels and owner references are peeked at.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec

from kcr.api import slots as api_slots
from kcr.api.meta import ObjectMeta, Resource, controller_reference
from kcr.api.slots import SLOT_LABEL, hashed_slot, labelled_slot, slot_of


class _Owner(Protocol):
    @property
    def uid(self) -> str: ...
    @property
    def controller(self) -> bool | None: ...


class SlotMetadata(Protocol):
    """The metadata that decides who keeps an object; that of whole objects, or peeked at."""

    @property
    def uid(self) -> str:
        """The uid."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels."""

    @property
    def owner_references(self) -> tuple[_Owner, ...]:
        """The owners."""


class SlotRules(NamedTuple):
    """The roles that a kind has for the sharded controllers of a program; they decide about unlabelled objects.

    Attributes:
        is_root: Keys of a controller name its objects: an object is kept where its own slot is held.
        is_owned: Its objects have controllers of a sharded kind: an object is kept where its controller's slot is held.
        is_adoptable: A controller may adopt its objects: one without a controller is kept by every replica.
    """

    is_root: bool = False
    is_owned: bool = False
    is_adoptable: bool = False

    def joined(self, other: "SlotRules") -> "SlotRules":
        """Return the roles for two controllers together."""
        return SlotRules(*(mine or theirs for mine, theirs in zip(self, other, strict=True)))


class SlotSelection(NamedTuple):
    """The objects of a kind in some slots: those whose label states one of them, or the unlabelled ones.

    Attributes:
        slots: The slots.
        is_labelled: Which of the two.
        rules: The roles of the kind.
    """

    slots: frozenset[int]
    is_labelled: bool
    rules: SlotRules

    @property
    def labels(self) -> str:
        """The label selector."""
        return api_slots.labelled_selector(self.slots) if self.is_labelled else api_slots.unlabelled_selector()

    @property
    def shard_selector(self) -> str:
        """The `shardSelector`; empty where the own uid does not decide."""
        by_uid = not self.is_labelled and not self.rules.is_owned and not self.rules.is_adoptable
        return api_slots.uid_selector(self.slots) if by_uid else ""

    def covers(self, metadata: SlotMetadata) -> bool:
        """Return whether the object with this metadata is one of them."""
        slot = labelled_slot(metadata.labels)
        if slot is not None or self.is_labelled:
            return self.is_labelled and slot in self.slots
        if self.rules.is_root and hashed_slot(metadata.uid) in self.slots:
            return True
        if not self.rules.is_owned and not self.rules.is_adoptable:
            return False
        owner = controller_uid(metadata)
        return self.rules.is_adoptable if not owner else self.rules.is_owned and hashed_slot(owner) in self.slots

    def __str__(self) -> str:
        """Return the selection as messages name it."""
        return f"{'labelled' if self.is_labelled else 'unlabelled'}, {len(self.slots)} slots"


def controller_uid(metadata: SlotMetadata) -> str:
    """Return the uid of an object's controller; empty for none."""
    return next((owner.uid for owner in metadata.owner_references if owner.controller), "")


def dependents_metadata(owner: Resource) -> Iterator[ObjectMeta]:
    """Return the metadata by which the dependents of an owner are kept: labelled with its slot, or by its uid alone."""
    namespace = owner.metadata.namespace
    yield ObjectMeta(namespace=namespace, labels={SLOT_LABEL: str(slot_of(owner.metadata))})
    yield ObjectMeta(namespace=namespace, owner_references=(controller_reference(owner),))


class _PeekedOwner(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class PeekedMetadata(msgspec.Struct, rename="camel"):
    """The metadata that is decoded of an object before all of it is."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    raw_labels: dict[str, str] | None = msgspec.field(default=None, name="labels")
    raw_owner_references: tuple[_PeekedOwner, ...] | None = msgspec.field(default=None, name="ownerReferences")

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels."""
        return self.raw_labels or {}

    @property
    def owner_references(self) -> tuple[_PeekedOwner, ...]:
        """The owners."""
        return self.raw_owner_references or ()


class _PeekedObject(msgspec.Struct):
    metadata: PeekedMetadata


class _PeekedEvent(msgspec.Struct):
    type: str
    object: _PeekedObject


_peek_object = msgspec.json.Decoder(_PeekedObject).decode
_peek_event = msgspec.json.Decoder(_PeekedEvent).decode


class SlotFilter:
    """Drops the objects of other replicas before they are decoded, where the server does not.

    Attributes:
        is_active: Whether such objects may come: the server filters labelled objects, but a watch that was opened with
            more slots still shows those.
    """

    def __init__(self, selection: SlotSelection | None) -> None:
        """Drop objects that a selection does not cover; none without one."""
        self.selection = selection
        self.is_active: bool = selection is not None and not selection.is_labelled

    def narrow(self, selection: SlotSelection | None) -> None:
        """Drop from now on objects that a smaller selection does not cover."""
        self.selection, self.is_active = selection, True

    @property
    def keeps(self) -> Callable[[bytes], bool] | None:
        """Whether an item of a list is kept; None when all are. One that cannot be peeked at is left to the decoder."""
        return self._keeps if self.is_active else None

    def _keeps(self, item: bytes) -> bool:
        try:
            metadata = _peek_object(item).metadata
        except ValueError:
            return True
        return self.selection is None or self.selection.covers(metadata)

    def foreign(self, line: bytes) -> PeekedMetadata | None:
        """Return the metadata of a watch event's object that is another replica's; None for all other events."""
        if not self.is_active:
            return None
        try:
            event = _peek_event(line)
        except ValueError:
            return None
        metadata = event.object.metadata
        is_change = event.type in ("ADDED", "MODIFIED", "DELETED")
        return metadata if is_change and self.selection is not None and not self.selection.covers(metadata) else None
