"""One idempotent create: the same object under the same name, sent until the server answers.

The answer may be lost, after the server has done its work or before. Sent again, the create either makes the object or
meets AlreadyExists; then the object that is there counts as the answer, if it has our owner. What proves nothing, such
as a proxy's page, is no answer.
"""

import asyncio
from typing import TypeVar

from kcr.api import codec
from kcr.api.meta import Resource, controller_of
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

R = TypeVar("R", bound=Resource)

# Pauses in seconds before a create whose reply was lost is sent again, under the same name.
PAUSES = (0.0, 0.1, 0.5)

_BUSY = (ConflictError, TooManyRequestsError)


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
    """Create the object, or find it if it was created before and the reply was lost."""
    try:
        return await client.create_manifest(kind, codec.encode(obj), obj.metadata.namespace), True
    except ServerError:
        raise
    except ApiError:
        # An object that is there may be refused for other reasons: it has used up the quota itself, for one. But
        # one that was never sent before cannot be there: among thousands, two draw the same name.
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
