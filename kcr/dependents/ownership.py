"""Owner references: the owners of an object, as functions that return a changed copy, or the same object.

Source: controller-runtime/pkg/controller/controllerutil/controllerutil.go.
"""

from typing import TypeVar

from msgspec.structs import replace

from kcr.api.meta import OwnerReference, Resource, controller_of, controller_reference
from kcr.api.slots import SLOT_LABEL, slot_of
from kcr.arguments import checked_on_failure
from kcr.client.context import WRITE_CONTEXT
from kcr.errors import KcrError

R = TypeVar("R", bound=Resource)


class AlreadyOwnedError(KcrError):
    """The object has a controller already, and it can have only one.

    Attributes:
        owner: The reference to the present controller.
    """

    def __init__(self, obj: Resource, owner: OwnerReference) -> None:
        super().__init__(f"{obj.resource.display} {obj.key}: controlled by {owner.kind} {owner.name} already")
        self.owner = owner


@checked_on_failure
def set_controller(obj: R, owner: Resource) -> R:
    """Return the object under the control of `owner`, which is deleted in the foreground only after it.

    Under sharding it also gets the label `kcr.dev/slot` with the slot of its owner.

    ```python
    page = kcr.set_controller(ConfigMap(metadata=kcr.ObjectMeta(name="page", namespace="web")), website)
    ```

    Args:
        obj: The object, in the owner's namespace or, under an owner without namespace, in any.
        owner: The stored owner: its uid becomes part of the reference.

    Raises:
        AlreadyOwnedError: Another controller has it.
        ValueError: The owner is not stored yet, or in another namespace: no reference leads from one to another.
    """
    present = controller_of(obj.metadata)
    wanted = controller_reference(owner)
    if present is not None and not _same_owner(present, wanted):
        raise AlreadyOwnedError(obj, present)
    return with_slot(_with_reference(obj, owner, wanted), owner)


def with_slot(obj: R, owner: Resource) -> R:
    """Return an object with the slot of its owner as a label; unchanged where the writer is not sharded."""
    if not WRITE_CONTEXT.get().has_slots:
        return obj
    labels, slot = obj.metadata.labels, str(slot_of(owner.metadata))
    if labels.get(SLOT_LABEL) == slot:
        return obj
    return replace(obj, metadata=replace(obj.metadata, labels={**labels, SLOT_LABEL: slot}))


@checked_on_failure
def set_owner(obj: R, owner: Resource) -> R:
    """Return the object with `owner` as a further owner; it is deleted after the last of them.

    Raises:
        ValueError: The owner is not stored yet, or in another namespace: no reference leads from one to another.
    """
    return _with_reference(obj, owner, _reference(owner))


@checked_on_failure
def remove_owner(obj: R, owner: Resource) -> R:
    """Return the object without any reference to `owner`."""
    wanted = _reference(owner)
    return _with_references(obj, tuple(r for r in obj.metadata.owner_references if not _same_owner(r, wanted)))


@checked_on_failure
def has_owner(obj: Resource, owner: Resource) -> bool:
    """Return whether the object refers to something of this group, kind and name."""
    wanted = _reference(owner)
    return any(_same_owner(reference, wanted) for reference in obj.metadata.owner_references)


def _reference(owner: Resource) -> OwnerReference:
    return replace(controller_reference(owner), controller=None, block_owner_deletion=None)


def _with_reference(obj: R, owner: Resource, wanted: OwnerReference) -> R:
    _check_reach(obj, owner)
    references = obj.metadata.owner_references
    if any(_same_owner(reference, wanted) for reference in references):
        return _with_references(obj, tuple(wanted if _same_owner(r, wanted) else r for r in references))
    return _with_references(obj, (*references, wanted))


def _with_references(obj: R, references: tuple[OwnerReference, ...]) -> R:
    if references == obj.metadata.owner_references:
        return obj
    return replace(obj, metadata=replace(obj.metadata, owner_references=references))


def _same_owner(one: OwnerReference, other: OwnerReference) -> bool:
    # Versions of a group are one kind; and a reference to an object that was created again gets its new uid.
    return _identity(one) == _identity(other)


def _identity(reference: OwnerReference) -> tuple[str, str, str]:
    return reference.api_version.rpartition("/")[0], reference.kind, reference.name


def _check_reach(obj: Resource, owner: Resource) -> None:
    if not owner.metadata.uid:
        raise ValueError(
            f"{owner.resource.display} {owner.key} cannot own anything yet: it has no uid, so create it first"
        )
    place = owner.metadata.namespace
    if place and place != obj.metadata.namespace:
        where = f"namespace {obj.metadata.namespace}" if obj.metadata.namespace else "no namespace"
        raise ValueError(
            f"{owner.resource.display} {owner.key} cannot own {obj.resource.display} {obj.metadata.name}, "
            f"which is in {where}: the garbage collector would delete it; what it owns has namespace={place!r}"
        )
