"""On whose behalf the running task writes: one frozen value, which the tasks that it starts inherit.

A controller's worker sets it before each reconcile, the manager for the components that it runs, and a webhook for
its review. The client reads it at each write: which controller defers keys for it, in which shard's name it is made,
whether it is a dry run. It is a context variable because aiohttp, and clients of others on `manager.api_client`, hand
nothing of ours on; it is the only one of writes, and a value in it is never changed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from kcr.api.meta import Key, MemberKey, Resource
from kcr.api.resources import ResourceType
from kcr.errors import ServerError, TransportError


class DryRunReview:
    """A review of a dry run; true for as long as it is in progress, and false for the tasks that outlive it."""

    def __init__(self) -> None:
        self._is_in_progress = True

    def end(self) -> None:
        """End it: from now on the writes of tasks that it has started are real."""
        self._is_in_progress = False

    def __bool__(self) -> bool:
        return self._is_in_progress


class GeneratedName(NamedTuple):
    """A name for an object with `metadata.generateName`, drawn before its create is sent.

    Attributes:
        name: The name.
        may_exist: Whether a create under this name was sent before, and not answered.
    """

    name: str
    may_exist: bool


class WritingClient(Protocol):
    """A client, as far as a tracker asks."""

    # The same mapping in all clients that were made from one, and so talk to one server.
    served: dict[str, dict[str, ResourceType]]

    @property
    def is_dry_run(self) -> bool:
        """Whether its writes are dry runs."""
        ...


class WriteTracker(Protocol):
    """Notes the writes of reconciles when they are answered or have failed; `owner` is the key that is reconciled."""

    def generate_name(
        self, owner: Key, client: WritingClient, kind: type[Resource], namespace: str, prefix: str, controller_uid: str
    ) -> GeneratedName | None:  # fmt: skip
        """Return the name of an object to create, or None when the API server is to draw it."""
        return None

    def refused(self, owner: Key, client: WritingClient, kind: type[Resource], key: Key) -> None:
        """Note that the create under a generated name was refused."""
        return

    def wrote(
        self, owner: Key, client: WritingClient, kind: type[Resource], key: Key, obj: Resource, *, is_new: bool = False
    ) -> None:
        """Note a write, and the object in the answer; the name in the key is empty when the server drew it.

        With `is_new` its version is this write's, and contains no change of others.
        """
        ...

    def deleted(self, owner: Key, client: WritingClient, kind: type[Resource], key: Key) -> None:
        """Note an accepted deletion of an object."""
        ...

    def unanswered(self, owner: Key, client: WritingClient, kind: type[Resource], key: Key) -> None:
        """Note a write that may have happened; the name in the key is empty when the server was to draw it."""
        return


class WriteContext(msgspec.Struct, frozen=True):
    """On whose behalf a task writes. An absent owner never means "allowed": under sharding such a write is refused.

    Attributes:
        owner: The key that is reconciled; None outside of reconciles.
        tracker: Notes the writes for the owner; None when no key is deferred for them.
        manager: The manager whose task sends requests; None for none.
        shard: The shard of the owner, or of a component that runs on the holder of a shard; None without sharding.
        has_slots: Whether the program is sharded, so that created dependents get the slot of their owner as a label.
        every_replica: Whether these writes need no Lease: webhooks, and components that run on every replica.
        dry_run: Whether all of them are dry runs; judged by its truth, because a review ends.
        fence: Of the request that aiohttp sends just now; None without one.
        observers: Of the requests of the managers that the task makes.
    """

    owner: Key | None = None
    tracker: WriteTracker | None = None
    manager: Any = None
    shard: int | None = None
    has_slots: bool = False
    every_replica: bool = False
    dry_run: bool | DryRunReview = False
    fence: Callable[[], None] | None = None
    observers: tuple[Any, ...] = ()


WRITE_CONTEXT: ContextVar[WriteContext] = ContextVar("kcr_write_context", default=WriteContext())  # noqa: B039  # frozen


def reconciled_key(key: Key) -> Key:
    """Return the key of the running reconcile for its object, which lacks the cluster."""
    running = WRITE_CONTEXT.get().owner
    return running if isinstance(running, MemberKey) and running.local == key else key


def report_wrote(client: WritingClient, kind: type[Resource], key: Key, obj: Resource, *, is_new: bool = False) -> None:
    """Report an answered write, and the object in the answer, to the tracker of the running reconcile."""
    context = WRITE_CONTEXT.get()
    if context.tracker is not None and context.owner is not None:
        context.tracker.wrote(context.owner, client, kind, key, obj, is_new=is_new)


def report_deleted(client: WritingClient, kind: type[Resource], key: Key) -> None:
    """Report an accepted deletion to the tracker of the running reconcile."""
    context = WRITE_CONTEXT.get()
    if context.tracker is not None and context.owner is not None:
        context.tracker.deleted(context.owner, client, kind, key)


def report_failure(client: WritingClient, kind: type[Resource], key: Key, error: BaseException) -> None:
    """Report a failed write to the tracker of the running reconcile, if it may have happened."""
    context = WRITE_CONTEXT.get()
    if context.tracker is None or context.owner is None:
        return
    # A cancelled request may have reached the server; a refusal is an answer, and other exceptions precede the request.
    if isinstance(error, TransportError | ServerError) or not isinstance(error, Exception):
        context.tracker.unanswered(context.owner, client, kind, key)


@contextmanager
def writing(**changed: Any) -> Iterator[None]:
    """Change the context of the running task for a while; the names are those of `WriteContext`."""
    token = WRITE_CONTEXT.set(replace(WRITE_CONTEXT.get(), **changed))
    try:
        yield
    finally:
        WRITE_CONTEXT.reset(token)
