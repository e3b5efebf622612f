"""The logs of containers: which container is meant, and which part of its log.

Source: kubernetes/pkg/registry/core/pod/{rest/log,strategy}.go, LogLocation;
kubernetes/pkg/apis/core/validation/validation.go, ValidatePodLogOptions.
"""

from collections.abc import AsyncIterator
from typing import Protocol

from kcr.embedded.answers import Answer, bad_request, invalid
from kcr.embedded.fields import forbidden, invalid_whole
from kcr.embedded.fields import invalid as invalid_field
from kcr.embedded.routes import Query
from kcr.embedded.storage import Record
from kcr.embedded.strategy import FieldError, Manifest

_TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class LogSource(Protocol):
    """Where logs come from: the node."""

    def read(self, uid: str, container: str, *, previous: bool = False) -> bytes | None:
        """Return the log of a pod's container so far, or of the attempt before; None when there was none."""
        ...

    def follow(self, uid: str, container: str) -> AsyncIterator[bytes]:
        """Yield the log from its beginning as it grows, until the container ends."""
        ...


class NoLogs:
    """The source of a cluster without a node."""

    def read(self, uid: str, container: str, *, previous: bool = False) -> bytes | None:
        """Return None: nothing ever ran."""
        return None

    async def follow(self, uid: str, container: str) -> AsyncIterator[bytes]:
        """Yield nothing."""
        return
        yield b""


def answer(source: LogSource, record: Record, query: Query) -> Answer:
    """Answer a GET on pods/log.

    Raises:
        RefusedError: 400 or 422, the container or the options make no sense; 400, nothing has run yet.
    """
    pod = record.manifest()
    container = _container(pod, query.text("container"))
    tail, limit = query.integer("tailLines"), query.integer("limitBytes")
    _check_options(query, tail, limit)
    if not pod["spec"].get("nodeName"):
        return Answer(204, _TEXT, b"")
    uid, previous = record.metadata.uid, query.flag("previous")
    written = source.read(uid, container, previous=previous)
    if written is None:
        raise bad_request(_why_nothing(pod, container, previous))
    if query.flag("follow") and not previous:
        skipped = len(written) - len(_tail(written, tail))
        return Answer(200, _TEXT, _Following(source.follow(uid, container), skipped, limit))
    return Answer(200, _TEXT, _tail(written, tail)[:limit])


def _container(pod: Manifest, asked: str) -> str:
    spec, name = pod["spec"], pod["metadata"]["name"]
    names = [one["name"] for member in ("initContainers", "containers") for one in spec.get(member) or ()]
    if asked:
        if asked not in names:
            raise bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    if len(names) == 1:
        return str(names[0])
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")


def _check_options(query: Query, tail: int | None, limit: int | None) -> None:
    faults: list[FieldError] = []
    if tail is not None and tail < 0:
        faults.append(invalid_field("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        faults.append(invalid_field("limitBytes", limit, "must be greater than 0"))
    if query.text("sinceSeconds") and query.text("sinceTime"):
        faults.append(forbidden("sinceTime", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if query.text("sinceSeconds") and (query.integer("sinceSeconds") or 0) < 1:
        faults.append(invalid_whole("sinceSeconds", "must be greater than 0"))
    if faults:
        raise invalid("PodLogOptions", "", "", faults)


def _why_nothing(pod: Manifest, container: str, previous: bool) -> str:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if previous:
        return f'previous terminated container "{container}" in pod "{name}" not found'
    members = ("initContainerStatuses", "containerStatuses")
    reports = [report for member in members for report in status.get(member) or () if report["name"] == container]
    waiting = next((report.get("state", {}).get("waiting") for report in reports), None) or {}
    reason = waiting.get("reason", "ContainerCreating")
    return f'container "{container}" in pod "{name}" is waiting to start: {reason}'


def _tail(written: bytes, lines: int | None) -> bytes:
    if lines is None:
        return written
    return b"".join(written.splitlines(keepends=True)[-lines:]) if lines else b""


class _Following:
    """A log as it grows, from the first byte that was asked for to the last."""

    def __init__(self, chunks: AsyncIterator[bytes], skip: int, limit: int | None) -> None:
        self._chunks = chunks
        self._skip = skip
        self._left = limit

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while self._left is None or self._left > 0:
            chunk = await anext(self._chunks)
            skipped, chunk = chunk[: self._skip], chunk[self._skip :]
            self._skip -= len(skipped)
            if self._left is not None:
                chunk = chunk[: self._left]
                self._left -= len(chunk)
            if chunk:
                return chunk
        raise StopAsyncIteration

    async def aclose(self) -> None:
        close = getattr(self._chunks, "aclose", None)
        if close is not None:
            await close()
