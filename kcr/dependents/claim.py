"""Claims: adoption of matching objects without a controller, release of objects that no longer match.

Source: kubernetes/pkg/controller/controller_ref_manager.go.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import Generic, Literal, NamedTuple, TypeVar

from kcr.api.meta import Key, Resource, controller_of, controller_reference
from kcr.arguments import check_of_call, checked_on_failure, ran
from kcr.client import Client
from kcr.dependents.ownership import set_controller, with_slot
from kcr.errors import InvalidError, KcrError, NotFoundError

R = TypeVar("R", bound=Resource)

Verdict = Literal["keep", "adopt", "release", "ignore"]

# The groups whose kinds know strategic merge patches. All others are served from custom resource definitions,
# or by servers of their own, and know JSON patches only.
_BUILT_IN = frozenset(
    {
        "", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "autoscaling",
        "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
        "flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io",
        "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
    }
)  # fmt: skip


class Claimed(NamedTuple, Generic[R]):
    """The result of a claim.

    Attributes:
        kept: Objects that belonged to the owner before, and still do.
        adopted: Objects that do now, as the server has them.
        released: Keys of objects that no longer do.
        errors: The failures, one per object; the other objects were still processed.
    """

    kept: tuple[R, ...]
    adopted: tuple[R, ...]
    released: tuple[Key, ...]
    errors: tuple[KcrError, ...]

    @property
    def mine(self) -> tuple[R, ...]:
        """All objects that belong to the owner now."""
        return self.kept + self.adopted


@checked_on_failure
def claim_decision(owner: Resource, obj: Resource, *, wanted: bool) -> Verdict:
    """Return whether an owner keeps, adopts, releases or ignores an object.

    Args:
        owner: Whose objects are claimed.
        obj: The object.
        wanted: Whether the owner's selector, and whatever else it asks for, fits the object.
    """
    controller = controller_of(obj.metadata)
    owner_goes = owner.metadata.deletion_timestamp is not None
    if controller is not None:
        if controller.uid != owner.metadata.uid:
            return "ignore"
        return "keep" if wanted else "ignore" if owner_goes else "release"
    reachable = owner.metadata.namespace in ("", obj.metadata.namespace)
    obj_goes = obj.metadata.deletion_timestamp is not None
    return "adopt" if wanted and reachable and not owner_goes and not obj_goes else "ignore"


@checked_on_failure
async def claim(
    client: Client, owner: Resource, objects: Iterable[R], wanted: Callable[[R], bool], *, finalizer: str = ""
) -> Claimed[R]:
    """Adopt and release objects, and return those that belong to the owner.

    Before the first adoption the owner is read from the server: the store may show a deleted one,
    and the adopted objects would be collected at once.

    Args:
        client: Reads the owner, and writes the references.
        owner: Whose objects are claimed.
        objects: All that come into question, from a store.
        wanted: Whether the owner's selector, and whatever else it asks for, fits an object.
        finalizer: Added to objects with their adoption and removed with their release; empty for none.
    """
    if iscoroutinefunction(wanted):
        check_of_call(claim)((client, owner, (), wanted), {})
    verdicts: dict[Verdict, list[R]] = {"keep": [], "adopt": [], "release": [], "ignore": []}
    is_wanted = False
    for obj in objects:
        is_wanted = wanted(obj)
        verdicts[claim_decision(owner, obj, wanted=is_wanted)].append(obj)
    ran(is_wanted, "claim: wanted")
    errors: list[KcrError] = []
    released = await _release_all(client, owner, verdicts["release"], finalizer, errors)
    adopted: list[R] = []
    if verdicts["adopt"]:
        try:
            await _check_owner(client, owner)
        except KcrError as error:
            errors.append(error)
        else:
            adopted = await _adopt_all(client, owner, verdicts["adopt"], finalizer, errors)
    return Claimed(tuple(verdicts["keep"]), tuple(adopted), tuple(released), tuple(errors))


async def _check_owner(client: Client, owner: Resource) -> None:
    """Raise unless the server still has this very owner, and it has no deletionTimestamp."""
    live = await client.get(type(owner), owner.key)
    if live.metadata.uid != owner.metadata.uid:
        raise KcrError(f"{owner.resource.display} {owner.key}: its name belongs to another object now, adopts nothing")
    if live.metadata.deletion_timestamp is not None:
        raise KcrError(f"{owner.resource.display} {owner.key}: is being deleted, adopts nothing")


async def _adopt_all(
    client: Client, owner: Resource, objects: Sequence[R], finalizer: str, errors: list[KcrError]
) -> list[R]:
    adopted = []
    for obj in objects:
        try:
            adopted.append(await _write(client, obj, adoption(owner, obj, finalizer)))
        except NotFoundError:
            continue
        except KcrError as error:
            errors.append(error)
    return adopted


async def _release_all(
    client: Client, owner: Resource, objects: Sequence[R], finalizer: str, errors: list[KcrError]
) -> list[Key]:
    released = []
    for obj in objects:
        try:
            await _write(client, obj, release(owner, obj, finalizer))
        except NotFoundError:
            released.append(obj.key)
        except KcrError as error:
            # The uid did not fit: another object has the name, and ours is deleted.
            if isinstance(error, InvalidError) and _knows_strategic(obj):
                released.append(obj.key)
            else:
                errors.append(error)
        else:
            released.append(obj.key)
    return released


Patch = Mapping[str, object] | Sequence[Mapping[str, object]]


async def _write(client: Client, obj: R, patch: Patch) -> R:
    if isinstance(patch, Mapping):
        return await client.strategic_patch(type(obj), obj.key, patch)
    return await client.json_patch(type(obj), obj.key, patch)


def adoption(owner: Resource, obj: Resource, finalizer: str = "") -> Patch:
    """Return the patch that makes `owner` the controller of an object: strategic, or JSON for custom kinds."""
    # With the slot of its owner, under sharding.
    labels = with_slot(obj, owner).metadata.labels
    if _knows_strategic(obj):
        # The server merges references by uid.
        change: dict[str, object] = {"uid": obj.metadata.uid, "ownerReferences": [controller_reference(owner)]}
        if labels != obj.metadata.labels:
            change["labels"] = labels
        return {"metadata": change | ({"finalizers": [finalizer]} if finalizer else {})}
    finalizers = obj.metadata.finalizers
    added = (*finalizers, finalizer) if finalizer and finalizer not in finalizers else finalizers
    patch = _json(obj, set_controller(obj, owner).metadata.owner_references, added)
    if labels == obj.metadata.labels:
        return patch
    return (*patch, {"op": "add", "path": "/metadata/labels", "value": labels})


def release(owner: Resource, obj: Resource, finalizer: str = "") -> Patch:
    """Return the patch that takes the references to `owner` off an object: strategic, or JSON for custom kinds."""
    uid = owner.metadata.uid
    if _knows_strategic(obj):
        change: dict[str, object] = {
            "uid": obj.metadata.uid, "ownerReferences": [{"$patch": "delete", "uid": uid}],
        }  # fmt: skip
        return {"metadata": change | ({"$deleteFromPrimitiveList/finalizers": [finalizer]} if finalizer else {})}
    references = tuple(reference for reference in obj.metadata.owner_references if reference.uid != uid)
    return _json(obj, references, tuple(name for name in obj.metadata.finalizers if name != finalizer))


def _knows_strategic(obj: Resource) -> bool:
    return obj.resource.group in _BUILT_IN


def _json(obj: Resource, references: tuple[object, ...], finalizers: tuple[str, ...]) -> Sequence[Mapping[str, object]]:
    metadata = obj.metadata
    patch: list[Mapping[str, object]] = [
        {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
        # Lists are written whole: nothing may have come to them since.
        {"op": "test", "path": "/metadata/resourceVersion", "value": metadata.resource_version},
        {"op": "add", "path": "/metadata/ownerReferences", "value": references},
    ]
    if finalizers != metadata.finalizers:
        patch.append({"op": "add", "path": "/metadata/finalizers", "value": finalizers})
    return tuple(patch)
