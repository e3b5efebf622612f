"""Subresources: scale, eviction, binding, logs."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Annotated, NamedTuple

from msgspec import Meta

from kcr.annotations import Count, Text
from kcr.api import codec
from kcr.api.apps import Scale
from kcr.api.core import Pod
from kcr.api.meta import Key, Resource
from kcr.arguments import checked, checked_on_failure
from kcr.client.calls import Calls
from kcr.client.context import report_deleted, report_failure, report_wrote
from kcr.client.discovery import check_subresource
from kcr.client.wire import decoding
from kcr.client.wire.transport import MERGE_PATCH, delete_options, object_path, target
from kcr.errors import NotFoundError


@checked
class LogOptions(NamedTuple):
    """Which part of a log is read.

    Attributes:
        container: The container; empty when the pod has one only.
        previous: Whether to read the log of the run before the last restart.
        timestamps: Whether each line begins with the moment it was written.
        tail_lines: How many lines from the end; None for all.
        since_seconds: How old a line may be; None for any age.
    """

    container: str = ""
    previous: bool = False
    timestamps: bool = False
    tail_lines: Count | None = None
    since_seconds: Annotated[int, Meta(ge=1)] | None = None


_WHOLE_LOG = LogOptions()


class Subresources(Calls):
    """Reads and writes subresources. A status is written by `patch_status(old, new)`."""

    @checked_on_failure
    async def scale(self, kind: type[Resource], key: Key) -> Scale:
        """Return the scale of an object: replicas wanted and present.

        Raises:
            NotFoundError: There is no such object, or its kind cannot be scaled.
        """
        path = object_path(kind, key, "scale")
        try:
            return decoding.read_object(Scale, await self.request("GET", path), key.name)
        except NotFoundError as error:
            await check_subresource(self, kind.resource, key, "scale", error)
            raise

    @checked_on_failure
    async def set_scale(self, kind: type[Resource], key: Key, replicas: Count) -> Scale:
        """Set the wanted replicas of an object, and return its scale."""
        path = object_path(kind, key, "scale")
        body = codec.encode({"spec": {"replicas": replicas}})
        try:
            answer = await self._write("PATCH", path, body, MERGE_PATCH)
            scale = decoding.read_object(Scale, answer, key.name)
        except BaseException as error:
            report_failure(self, kind, key, error)
            await check_subresource(self, kind.resource, key, "scale", error)
            raise
        # Its version is the object's.
        report_wrote(self, kind, key, scale)
        return scale

    @checked_on_failure
    async def evict(self, key: Key, *, uid: str = "", grace_period_seconds: int | None = None) -> None:
        """Delete a pod, unless a disruption budget protects it.

        Args:
            key: The pod's namespace and name.
            uid: When given, a pod of the same name that was made later is left alone.
            grace_period_seconds: None for the pod's own.

        Raises:
            TooManyRequestsError: A disruption budget protects the pod at present; try again later.
            NotFoundError: It does not exist any more.
        """
        options = delete_options(uid=uid, grace_period_seconds=grace_period_seconds, dry_run=self._options.dry_run)
        metadata = {"name": key.name, "namespace": key.namespace}
        eviction = {
            "apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options,
        }  # fmt: skip
        path = object_path(Pod, key, "eviction")
        try:
            decoding.check_answer(Pod, await self._write("POST", path, codec.encode(eviction)))
        except BaseException as error:
            report_failure(self, Pod, key, error)
            raise
        report_deleted(self, Pod, key)

    @checked_on_failure
    async def bind(self, key: Key, node: Text, *, uid: str = "") -> None:
        """Assign a pod to a node, as a scheduler does.

        Args:
            key: The pod's namespace and name.
            node: The node's name.
            uid: When given, a pod of the same name that was made later is left alone.

        Raises:
            ConflictError: It has a node, is being deleted, or has scheduling gates.
            NotFoundError: It does not exist any more.

        Source: client-go/kubernetes/typed/core/v1/pod_expansion.go, Bind.
        """
        metadata = {"name": key.name, "namespace": key.namespace, "uid": uid}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = object_path(Pod, key, "binding")
        decoding.check_answer(Pod, await self._write("POST", path, codec.encode(binding)))

    @checked_on_failure
    async def log(self, key: Key, options: LogOptions = _WHOLE_LOG) -> str:
        """Return the log of a container so far; bytes that are not UTF-8 are replaced.

        Raises:
            BadRequestError: The pod has several containers and none was named, or it has not begun to run.
        """
        return (await self.request("GET", _log_target(key, options, follow=False))).decode(errors="replace")

    @checked_on_failure
    def follow_log(
        self, key: Key, options: LogOptions = _WHOLE_LOG
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Follow the log of a container line by line until it ends, however long it is silent."""
        return self.lines(_log_target(key, options, follow=True), idle_seconds=None)


def _log_target(key: Key, options: LogOptions, *, follow: bool) -> str:
    query: dict[str, object] = {
        "container": options.container,
        "follow": "true" if follow else "",
        "previous": "true" if options.previous else "",
        "timestamps": "true" if options.timestamps else "",
        "tailLines": "" if options.tail_lines is None else options.tail_lines,
        "sinceSeconds": "" if options.since_seconds is None else options.since_seconds,
    }
    return target(object_path(Pod, key, "log"), query)
