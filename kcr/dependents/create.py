"""Creates: one that is idempotent, those that are refused for a while, and `create_or_patch`.

The idempotent create sends the same object under the same name until the server answers.
The answer may be lost, after the server has done its work or before. Sent again, the create either makes the object or
meets AlreadyExists; then the stored object counts as the answer, if it has our owner. A response that proves nothing,
such as a proxy's page, is no answer.

A mutating webhook or policy may alter a created object so that its owner loses it. Without its owner's labels, owner
reference or finalizer an object is not found, counted or adopted as its owner's, and the owner would create another one
in its place, without end. So such a create counts as a refused one: the object is deleted again, and the next create of
this owner waits, twice as long each time.

The owners that wait in a namespace whose quota is used up share a rate of tries. Each owner retries with its own
backoff, once a minute at most, so the requests of a namespace would grow with the number of its owners. Here they share
a token bucket while the quota refuses them, and a create that succeeds ends that.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from msgspec.structs import replace

from kcr.annotations import shown
from kcr.api import codec
from kcr.api.meta import Resource, controller_of, is_controlled_by
from kcr.api.unstructured import Unstructured
from kcr.arguments import checked_on_failure, refuse
from kcr.client import Client
from kcr.client.wire.decoding import UNEXPECTED_RESPONSE
from kcr.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    KcrError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from kcr.tokenbucket import TokenBucket
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


# Creates that the owners of one namespace may try in a second while its quota refuses them, and at once.
TRIES_PER_SECOND, BURST = 2.0, 10
# When an owner that tries no more is dropped; longer than the longest backoff of a controller.
FORGOTTEN_SECONDS = 1200.0
# Part of the message of a refusal. Source: apiserver/pkg/admission/plugin/resourcequota/controller.go, CheckRequest.
_WORDS = "exceeded quota: "

# Between two tries: the first pause, and the longest.
# Source: kubernetes/pkg/controller/job/job_controller.go, DefaultJobApiBackOff and MaxJobApiBackOff.
FIRST_SECONDS, MOST_SECONDS = 1.0, 60.0

# Whether the selector of an owner picks an object.
Selects = Callable[[Any, Any], bool]


class QuotaExceededError(KcrError):
    """A create was not sent, because the quota of its namespace has just refused others."""


class QuotaLimits:
    """Which namespaces have used up their quota, and how often their owners may try.

    The first create of each owner is sent, so that its refusal is an event of the owner.
    """

    def __init__(self) -> None:
        # The last refusal of each namespace that is full.
        self._refusals: dict[str, str] = {}
        # Kept when a create is accepted: a namespace that is full again at once has the tokens that were left.
        self._tries: dict[str, TokenBucket] = {}
        # The owners that were refused, and when each last tried; those that try no more are dropped.
        self._waiting: dict[str, float] = {}
        self._most = 1000

    def refusal(self, owner: Resource, now: float) -> QuotaExceededError | None:
        """Return the error of a create that comes too early; None for one that may be sent.

        Args:
            owner: Whose create it is.
            now: The time of the loop.
        """
        namespace, uid = owner.metadata.namespace, owner.metadata.uid
        last = self._refusals.get(namespace)
        if last is None or uid not in self._waiting:
            return None
        self._waiting[uid] = now
        if self._tries[namespace].delay(now) <= 0:
            return None
        return QuotaExceededError(f"not sent, other creates in namespace {namespace} were just refused: {last}")

    def note(self, owner: Resource, error: Exception, now: float) -> None:
        """Note a refused create; only refusals by a quota count."""
        if not isinstance(error, ForbiddenError) or _WORDS not in str(error):
            return
        namespace = owner.metadata.namespace
        self._refusals[namespace] = str(error)
        self._tries.setdefault(namespace, TokenBucket(TRIES_PER_SECOND, BURST)).take(now)
        self._waiting[owner.metadata.uid] = now
        if len(self._waiting) > self._most:
            self._waiting = {uid: tried for uid, tried in self._waiting.items() if now < tried + FORGOTTEN_SECONDS}
            self._most = 2 * len(self._waiting)

    def forget(self, owner: Resource) -> None:
        """Note that a create was accepted."""
        if self._refusals:
            self._refusals.pop(owner.metadata.namespace, None)
            self._waiting.pop(owner.metadata.uid, None)


class AlteredObjectError(KcrError):
    """A created object was altered so that its owner would lose it.

    Attributes:
        is_repeated: Whether nothing was sent this time, because the last try was just now.
    """

    def __init__(self, message: str, *, is_repeated: bool = False) -> None:
        super().__init__(message)
        self.is_repeated = is_repeated


class CreateBackoffs:
    """When owners may create again of which an object was altered; by uid, for as long as that lasts."""

    def __init__(self) -> None:
        # The last pause of each, when it ends, and the error that began it.
        self._pauses: dict[str, tuple[float, float, str]] = {}

    def note(self, owner: Resource, error: AlteredObjectError, now: float) -> None:
        """Note a create whose object was altered, at a time of the loop; those of one batch count once."""
        seconds, until, _ = self._pauses.get(owner.metadata.uid, (0.0, now, ""))
        if now < until:
            return
        # An owner that has not created for long begins again; so none is kept endlessly.
        self._pauses = {uid: pause for uid, pause in self._pauses.items() if now < pause[1] + 2 * MOST_SECONDS}
        seconds = min(2 * seconds, MOST_SECONDS) or FIRST_SECONDS
        self._pauses[owner.metadata.uid] = (seconds, now + seconds, str(error))

    def forget(self, owner: Resource) -> None:
        """Note that an owner's object was created as asked for."""
        if self._pauses:
            self._pauses.pop(owner.metadata.uid, None)

    def refusal(self, owner: Resource, now: float) -> AlteredObjectError | None:
        """Return the error of a create that comes too early; None for one that may be sent."""
        pause = self._pauses.get(owner.metadata.uid)
        return AlteredObjectError(pause[2], is_repeated=True) if pause is not None and now < pause[1] else None


def alterations(owner: Resource, sent: Resource, made: Resource, selects: Selects | None) -> str:
    """Return the alterations by which an owner would lose a created object; empty if there are none.

    Args:
        owner: Whose object it is to be.
        sent: The object as it was sent.
        made: The object as the server has stored it.
        selects: Whether the owner's selector picks an object; None for an owner that finds its objects by the owner
            reference alone.
    """
    found: list[str] = []
    if selects is not None and not selects(owner, made):
        labels = made.metadata.labels
        changed = [name for name, value in sent.metadata.labels.items() if labels.get(name) != value]
        found += [
            f"its label {name} is {labels[name]!r}" if name in labels else f"its label {name} is missing"
            for name in changed
        ] or ["the selector does not match it"]
    if not is_controlled_by(made, owner):
        found.append("its owner reference is missing")
    found += [
        f"its finalizer {name} is missing" for name in sent.metadata.finalizers if name not in made.metadata.finalizers
    ]
    return ", ".join(found)
