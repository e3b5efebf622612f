"""Which object controls which."""

from kcr.api.meta import OwnerReference, Resource, controller_of


def controller_reference(owner: Resource) -> OwnerReference:
    """Return the reference with which `owner` controls another object.

    It holds up the owner's deletion in the foreground until the other object is gone.

    Source: apimachinery/pkg/apis/meta/v1/controller_ref.go, NewControllerRef.
    """
    return OwnerReference(
        api_version=owner.resource.api_version,
        kind=owner.resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def is_controlled_by(obj: Resource, owner: Resource) -> bool:
    """Return whether `owner` itself controls the object, and not just something of its name."""
    reference = controller_of(obj.metadata)
    return reference is not None and reference.uid == owner.metadata.uid
