"""Finalizers: cleanup before an object is deleted.

Source: controller-runtime/pkg/controller/controllerutil/controllerutil.go; kube-rs, runtime/src/finalizer.rs.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from typing import TypeVar

from msgspec.structs import replace

from kcr.annotations import Text
from kcr.api.meta import Resource
from kcr.arguments import checked, ran, refuse
from kcr.client import Client
from kcr.controller.reconcile import Result
from kcr.errors import NotFoundError

R = TypeVar("R", bound=Resource)

_PATH = "/metadata/finalizers"


@checked
def has_finalizer(obj: Resource, name: Text) -> bool:
    """Return whether the object carries a finalizer."""
    return name in obj.metadata.finalizers


@checked
def add_finalizer(obj: R, name: Text) -> R:
    """Return the object with a finalizer; the others keep their places."""
    return obj if has_finalizer(obj, name) else _with(obj, (*obj.metadata.finalizers, name))


@checked
def remove_finalizer(obj: R, name: Text) -> R:
    """Return the object without a finalizer; the others keep their order."""
    if not has_finalizer(obj, name):
        return obj
    return _with(obj, tuple(other for other in obj.metadata.finalizers if other != name))


@checked
async def finalized(
    client: Client, obj: Resource, name: Text, cleanup: Callable[[], Awaitable[object] | object]
) -> bool:
    """Add a finalizer, or clean up and remove it; return whether the reconcile continues.

    The finalizer is written before any other write for the object, and removed after `cleanup` has
    ended. Both writes test that the list and the object's uid are unchanged.

    ```python
    if not await finalized(client, website, "example.dev/dns", lambda: self._remove_dns(website)):
        return kcr.Result()
    ```

    Args:
        client: Writes the finalizer.
        obj: The object as the store has it.
        name: The finalizer, such as `example.dev/dns`.
        cleanup: Undoes the effects of the object, a coroutine function or a plain one. It may be called again after a
            failure or a crash.

    Returns:
        False when the finalizer was written only now (the change brings the key back; a predicate must let it
        through, such as `finalizers_changed` beside `generation_changed`), and whenever the object is being deleted.

    Raises:
        ConflictError: The object has changed in between; the reconcile is to be tried again.
        Exception: Whatever `cleanup` raises; the finalizer stays.
    """
    if obj.metadata.deletion_timestamp is None:
        if has_finalizer(obj, name):
            return True
        await client.json_patch(type(obj), obj.key, _addition(obj, name))
    elif has_finalizer(obj, name):
        undone = cleanup()
        undone = ran(await undone if isawaitable(undone) else undone, "finalized: cleanup")
        if isinstance(undone, Result):
            refuse(f"finalized: cleanup returned {undone}: raise kcr.RetryLater(…) while it is not done")
        try:
            await client.json_patch(type(obj), obj.key, _removal(obj, name))
        except NotFoundError:
            # A try before this one has removed it, and its answer was lost.
            return False
    return False


def _with(obj: R, finalizers: tuple[str, ...]) -> R:
    return replace(obj, metadata=replace(obj.metadata, finalizers=finalizers))


def _addition(obj: Resource, name: str) -> Sequence[Mapping[str, object]]:
    present = list(obj.metadata.finalizers)
    # A test for null holds where there is no list yet; `-` needs one.
    add = (
        {"op": "add", "path": f"{_PATH}/-", "value": name} if present else {"op": "add", "path": _PATH, "value": [name]}
    )
    return (_same_object(obj), {"op": "test", "path": _PATH, "value": present or None}, add)


def _removal(obj: Resource, name: str) -> Sequence[Mapping[str, object]]:
    place = f"{_PATH}/{obj.metadata.finalizers.index(name)}"
    return (_same_object(obj), {"op": "test", "path": place, "value": name}, {"op": "remove", "path": place})


def _same_object(obj: Resource) -> Mapping[str, object]:
    return {"op": "test", "path": "/metadata/uid", "value": obj.metadata.uid}
