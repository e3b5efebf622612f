"""Create or patch one object."""

from collections.abc import Callable
from typing import Generic, Literal, NamedTuple, TypeVar

from msgspec.structs import replace

from kcr.api.meta import Resource
from kcr.api.unstructured import Unstructured
from kcr.client import Client
from kcr.errors import NotFoundError

R = TypeVar("R", bound=Resource)

OperationResult = Literal["unchanged", "created", "updated", "updatedStatus", "updatedStatusOnly"]


class Ensured(NamedTuple, Generic[R]):
    """An object after `create_or_patch`, and the operation."""

    object: R
    result: OperationResult


async def create_or_patch(client: Client, template: R, mutate: Callable[[R], R]) -> Ensured[R]:
    """Create an object, or patch the difference if it exists.

    ```python
    wanted = ConfigMap(metadata=ObjectMeta(name="settings", namespace="web"))
    await create_or_patch(client, wanted, lambda found: replace(found, data={"color": "blue"}))
    ```

    Nothing is sent if nothing differs. Only fields of the type are compared and written; all other fields
    stay unchanged.

    Args:
        client: Reads and writes the object.
        template: Its name, and the base of a new object.
        mutate: Takes the object as it is, or the template, and returns it as it is to be.

    Raises:
        ValueError: `mutate` has changed the name or the namespace.
        ConflictError: The object has changed in between; try again.
        AlreadyExistsError: It was created in between; try again.

    Source: controller-runtime/pkg/controller/controllerutil/controllerutil.go, CreateOrPatch.
    """
    try:
        found = await client.get(type(template), template.key)
    except NotFoundError:
        return Ensured(await client.create(_mutated(template, mutate)), "created")
    wanted = _mutated(found, mutate)
    patched = await client.patch(found, _with_status_of(wanted, found))
    # The patch may have brought a new version; the status is what it was.
    recorded = await client.patch_status(patched, _with_status_of(patched, wanted))
    return Ensured(recorded, _RESULTS[patched is not found, recorded is not patched])


# By whether the object was patched, and whether its status was.
_RESULTS: dict[tuple[bool, bool], OperationResult] = {
    (False, False): "unchanged",
    (True, False): "updated",
    (True, True): "updatedStatus",
    (False, True): "updatedStatusOnly",
}


def _mutated(obj: R, mutate: Callable[[R], R]) -> R:
    wanted = mutate(obj)
    if wanted.key != obj.key:
        raise ValueError(f"{obj.resource.display} {obj.key}: mutated into {wanted.key}; an object keeps its name")
    return wanted


def _with_status_of(obj: R, other: R) -> R:
    if isinstance(obj, Unstructured) and isinstance(other, Unstructured):
        rest = {name: raw for name, raw in obj.fields.items() if name != "status"}
        said = {name: raw for name, raw in other.fields.items() if name == "status"}
        return replace(obj, fields=rest | said)
    if not hasattr(obj, "status"):
        return obj
    return replace(obj, status=other.status)  # type: ignore[attr-defined]  # both are of one type
