"""The deletion of a namespace with live objects, in every order in which they may vanish."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, permutations
from random import Random

from msgspec.structs import replace

from kcr.api.core import Namespace
from kcr.api.meta import Key, ObjectMeta, PartialObjectMetadata, Resource, metadata_only
from kcr.api.resources import ResourceType
from kcr.app.plugins import attach
from kcr.arguments import checked
from kcr.client import Client
from kcr.client.discovery import all_served_kinds
from kcr.errors import ApiError, ConflictError, NotFoundError
from kcr.manager import Manager
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.testing.clusters import setups_of
from kcr_devcluster.testing.loop import VirtualLoop

# The namespace. It is created again for each order.
NAMESPACE = "ending"
_KEY = Key("", NAMESPACE)
# Keeps controllers from reconciling an object; see `kcr.controller.gates`.
_PAUSED = "kcr.dev/paused"
# How long a deleted object may take: a pod has a grace period of 30 s.
_VANISH_SECONDS = 40
# How long the namespace may take once all is deleted, and a failing key after that: retries follow within minutes.
_END_SECONDS = 300
# Source: apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go, Admit.
_REFUSAL = "because it is being terminated"


@checked
async def namespace_ends(
    cluster: EmbeddedCluster,
    setup: str | Callable[..., object],
    objects: Sequence[Resource],
    *,
    live_seconds: float = 15,
    orders: int = 8,
    seed: int = 0,
) -> None:
    """Check that a namespace with live objects ends when it is deleted, in every order in which its objects may vanish.

    ```python
    @pytest.mark.kcr_virtual
    @pytest.mark.kcr_cluster(kinds=[Website])
    async def test_namespace_with_live_websites_ends(kcr_cluster):
        await namespace_ends(kcr_cluster, setup, [website()])
    ```

    The objects are created in the namespace `ending`, and the controller reconciles them for some seconds. Then the
    namespace is deleted, the first time as `kubectl delete namespace` does it, and after that once for each order: in
    the terminating namespace the objects are deleted one after the other, including those that the controller has
    created. Before the next deletion the garbage collector and the controller react. The check fails if

    - an object remains, such as one whose cleanup writes to an object that is deleted already;
    - a key still fails after the end of the namespace;
    - a reconcile fails because the namespace is terminating: the retry would be refused as well. See
      `kcr.is_namespace_ending`.

    Args:
        cluster: The fixture `kcr_cluster`; the test is marked `kcr_virtual`.
        setup: Attaches the controller to a manager: a function, or the name of a plugin.
        objects: The objects, typed or `Unstructured`; their namespaces are replaced. At least one.
        live_seconds: How long the objects live, in virtual time.
        orders: How many orders are tried at most. All permutations of few objects; of others half as many are drawn,
            each with its reverse, so that each object vanishes before and after every other one.
        seed: Draws the orders.

    Raises:
        AssertionError: The namespace does not end. The message has the order, the objects that remain, and the last
            error of each failing key.
        RuntimeError: The test does not run in virtual time.
        ValueError: An object belongs to no namespace, or there is none.
    """
    if not isinstance(asyncio.get_running_loop(), VirtualLoop):
        raise RuntimeError("namespace_ends waits for minutes: mark the test kcr_virtual")
    if not objects:
        raise ValueError("namespace_ends: no objects: name those that live in the namespace")
    for obj in objects:
        if not obj.resource.namespaced:
            raise ValueError(f"namespace_ends: {obj.resource.kind} {obj.key.name} is in no namespace: create it before")
    manager = Manager(Client(cluster.transport), clock=cluster.manager.clock, random=Random(seed))
    attach(setups_of([setup]), manager, {}, take_over=True)
    async with manager.running():
        ending = _Ending(cluster.client, manager, objects, await _kinds_of(cluster.client))
        count = await ending.check(live_seconds)
        for order in islice(orders_of(count, orders, Random(seed)), orders):
            await ending.check(live_seconds, order)


def orders_of(count: int, limit: int, random: Random) -> Iterator[tuple[int, ...]]:
    """Yield orders of so many objects: all of them if there are at most `limit`, else drawn ones, without an end.

    Args:
        count: How many objects there are.
        limit: How many orders are wanted.
        random: Draws orders; each is followed by its reverse.
    """
    if math.factorial(count) <= limit:
        yield from permutations(range(count))
        return
    while True:
        order = tuple(random.sample(range(count), count))
        yield order
        yield order[::-1]


async def _kinds_of(client: Client) -> list[type[PartialObjectMetadata]]:
    """Return the kinds that may be in a namespace, one version of each, without events."""
    places: dict[str, ResourceType] = {}
    for served in await all_served_kinds(client):
        if served.resource.namespaced and served.resource.plural != "events":
            places.setdefault(served.resource.display, served.resource)
    kinds = []
    for kind in map(metadata_only, places.values()):
        with suppress(ApiError):  # a review, which is created only
            await client.list(kind, NAMESPACE)
            kinds.append(kind)
    return kinds


class _Ending:
    """The namespace, its objects, and the controller."""

    def __init__(
        self,
        client: Client,
        manager: Manager,
        objects: Sequence[Resource],
        kinds: Sequence[type[PartialObjectMetadata]],
    ) -> None:
        self._client, self._manager, self._objects, self._kinds = client, manager, objects, kinds
        # Those of the current namespace that were deleted, in this order; empty while the namespace controller decides.
        self._deleted: list[str] = []

    async def check(self, live_seconds: float, order: Sequence[int] = ()) -> int:
        """Create the namespace with its objects, delete it, and return how many objects it had.

        Args:
            live_seconds: How long the objects live.
            order: Of the deletions, as indexes of the sorted objects; empty for that of the namespace controller.
        """
        self._deleted.clear()
        await self._client.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
        for obj in self._objects:
            await self._client.create(replace(obj, metadata=replace(obj.metadata, namespace=NAMESPACE)))
        await asyncio.sleep(live_seconds)
        began, content = asyncio.get_running_loop().time(), await self._content()
        if order:
            # The namespace controller leaves it alone.
            await self._pause("true")
        await self._client.delete(Namespace, _KEY)
        if order:
            for obj in (*(content[at] for at in order if at < len(content)), *content[len(order) :]):
                await self._delete(obj)
            await self._pause(None)
        await self._require(self._has_ended, "it has not ended after")
        await self._require(self._has_no_failure, "it has ended, and keys still fail after")
        if refused := self._refused_since(began):
            words = "a reconcile fails because it is terminating: return where kcr.is_namespace_ending(error)"
            raise AssertionError(self._text(words, (), refused))
        return len(content)

    async def _pause(self, value: str | None) -> None:
        await self._client.merge_patch(Namespace, _KEY, {"metadata": {"annotations": {_PAUSED: value}}})

    async def _content(self) -> list[PartialObjectMetadata]:
        found = [obj for kind in self._kinds for obj in await self._client.list(kind, NAMESPACE)]
        return sorted(found, key=_name)

    async def _delete(self, obj: PartialObjectMetadata) -> None:
        """Delete an object, and let the others react; one that stays, for its finalizers, is left behind."""
        self._deleted.append(_name(obj))
        with suppress(NotFoundError, ConflictError):  # deleted with its owner, and perhaps created again
            await self._client.delete(type(obj), obj.key, uid=obj.metadata.uid)
            for _ in range(_VANISH_SECONDS):
                # Long enough for the reconciles that it causes, and some retries.
                await asyncio.sleep(1)
                await self._client.get(type(obj), obj.key)

    async def _has_ended(self) -> bool:
        return all(one.key != _KEY for one in await self._client.list(Namespace))

    async def _has_no_failure(self) -> bool:
        return not self._failing()

    def _failing(self) -> list[str]:
        """Return the keys whose last reconcile has failed, with the errors."""
        return [
            f"controller {name}, key {run.key}: {run.text}"
            for name, controller in self._manager.controllers.items()
            for run in controller.journal.failing.values()
        ]

    def _refused_since(self, began: float) -> list[str]:
        """Return the keys with a reconcile that was refused because the namespace is terminating."""
        found = {
            (name, run.key): run.text
            for name, controller in self._manager.controllers.items()
            for run in controller.journal.runs
            if run.ended >= began and run.outcome == "error" and _REFUSAL in run.text
        }
        return [f"controller {name}, key {key}: {text}" for (name, key), text in found.items()]

    async def _require(self, holds: Callable[[], Awaitable[bool]], words: str) -> None:
        """Wait until something holds.

        Raises:
            AssertionError: It does not; the message has the state of the namespace.
        """
        for _ in range(_END_SECONDS):
            if await holds():
                return
            await asyncio.sleep(1)
        raise AssertionError(self._text(f"{words} {_END_SECONDS} s", await self._content(), self._failing()))

    def _text(self, words: str, left: Iterable[PartialObjectMetadata], failures: Iterable[str]) -> str:
        order = ", ".join(self._deleted) or "that of the namespace controller"
        lines = [f"namespace {NAMESPACE}: {words}", f"order of the deletions: {order}"]
        for obj in left:
            finalizers = ", ".join(obj.metadata.finalizers) or "none"
            lines.append(f"left: {_name(obj)}, finalizers: {finalizers}")
        return "\n".join([*lines, *failures])


def _name(obj: PartialObjectMetadata) -> str:
    return f"{obj.resource.display} {obj.metadata.name}"
