"""Creates: one that is idempotent, and `create_or_patch`.

The idempotent create sends the same object under the same name until the server answers.
The answer may be lost, after the server has done its work or before. Sent again, the create either makes the object or
meets AlreadyExists; then the stored object counts as the answer, if it has our owner. A response that proves nothing,
such as a proxy's page, is no answer.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, Literal, NamedTuple, TypeVar

from msgspec.structs import replace

from kcr.annotations import shown
from kcr.api import codec
from kcr.api.meta import Resource, controller_of
from kcr.api.unstructured import Unstructured
from kcr.arguments import checked_on_failure, refuse
from kcr.client import Client
from kcr.client.wire.decoding import UNEXPECTED_RESPONSE
from kcr.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    KcrError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from kcr.tracing import with_traceparent

R = TypeVar("R", bound=Resource)

# Pauses in seconds before a create whose reply was lost is sent again, under the same name.
PAUSES = (0.0, 0.1, 0.5)

_BUSY = (ConflictError, TooManyRequestsError)

OperationResult = Literal["unchanged", "created", "updated", "updatedStatus", "updatedStatusOnly"]


class UnconfirmedCreateError(TransportError):
    """A create had no answer: the object may exist."""

    def __init__(self, obj: Resource, cause: str) -> None:
        super().__init__(f"{obj.resource.kind.lower()} {obj.key}: no answer to its creation: {cause}")


async def create_until_answered(client: Client, kind: type[R], obj: Resource, *, unconfirmed: bool) -> tuple[R, bool]:
    """Create an object, or find it when it was created before and the reply was lost.

    Args:
        client: Sends it.
        kind: The type of the returned object.
        obj: The object, with its name and owner.
        unconfirmed: Whether it was sent before, and may exist.

    Returns:
        The object, and whether it is the server's answer to the create; one that was found may have changed since.

    Raises:
        ApiError: The server refuses it, or fails every time and does not have it.
        UnconfirmedCreateError: There was no answer.
    """
    error: KcrError = KcrError("not sent")
    unanswered = unconfirmed
    for pause in PAUSES:
        await asyncio.sleep(pause)
        try:
            return await _create_or_find(client, kind, obj, unconfirmed=unconfirmed)
        except TransportError as silence:
            error, unconfirmed, unanswered = silence, True, True
        except ServerError as failure:
            # Behind a proxy that answers by itself, the server may still be at work.
            error, unconfirmed = failure, True
            unanswered |= failure.has_cause(UNEXPECTED_RESPONSE)
        except AlreadyExistsError:
            raise
        except _BUSY as busy:
            # This try was not executed; one before it may still be under way.
            if not unconfirmed:
                raise
            error = busy
    if unanswered:
        raise UnconfirmedCreateError(obj, str(error))
    # The server may have made it, though it said that it had failed.
    if unconfirmed and (found := await find_own(client, kind, obj)) is not None:
        return found, False
    raise error


async def _create_or_find(client: Client, kind: type[R], obj: Resource, *, unconfirmed: bool) -> tuple[R, bool]:
    try:
        return await client.create_manifest(kind, codec.encode(with_traceparent(obj)), obj.metadata.namespace), True
    except ServerError:
        raise
    except ApiError:
        # The create of an existing object may be refused for other reasons: it has used up the quota itself, for one.
        # But one that was never sent before cannot exist: among thousands, two draw the same name.
        if not unconfirmed:
            raise
        if (found := await find_own(client, kind, obj)) is not None:
            return found, False
        raise


async def find_own(client: Client, kind: type[R], obj: Resource) -> R | None:
    """Return the object of this name if the server has it, and it has the same controller.

    Raises:
        UnconfirmedCreateError: The server does not say.
    """
    try:
        found = await client.get(kind, obj.key)
    except NotFoundError:
        return None
    except KcrError as unknown:
        raise UnconfirmedCreateError(obj, str(unknown)) from unknown
    controller, ours = controller_of(found.metadata), controller_of(obj.metadata)
    return found if controller is not None and ours is not None and controller.uid == ours.uid else None


class Ensured(NamedTuple, Generic[R]):
    """An object after `create_or_patch`, and the operation."""

    object: R
    result: OperationResult


@checked_on_failure
async def create_or_patch(client: Client, template: R, mutate: Callable[[R], R]) -> Ensured[R]:
    """Create an object, or patch the difference if it exists.

    ```python
    wanted = ConfigMap(metadata=ObjectMeta(name="settings", namespace="web"))
    await create_or_patch(client, wanted, lambda found: replace(found, data={"color": "blue"}))
    ```

    Nothing is written if nothing differs; a difference that lacks the server's defaults is sent once. Only fields of
    the type are compared and written; all other fields stay unchanged.

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
    # The patch may have brought a new version; the status is unchanged.
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
    if not isinstance(wanted, type(obj)):
        refuse(f"create_or_patch: mutate returned {shown(wanted)}: return the {type(obj).__name__} as it is to be")
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
