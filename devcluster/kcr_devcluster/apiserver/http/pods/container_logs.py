"""Container logs: the subresource pods/log.

Source: kubernetes/pkg/registry/core/pod/{rest/log,strategy}.go, LogLocation;
kubernetes/pkg/kubelet/kubelet_pods.go, validateContainerLogStatus;
kubernetes/pkg/apis/core/validation/validation.go, ValidatePodLogOptions.
"""

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from kcr_devcluster.apiserver.http.pods.pod_streams import container_of
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden
from kcr_devcluster.apiserver.protocol.field_errors import invalid as invalid_field
from kcr_devcluster.apiserver.protocol.manifests import Manifest, clamped_seconds
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import APIResponse, bad_request, invalid
from kcr_devcluster.apiserver.schema.times import whole_seconds
from kcr_devcluster.apiserver.storage.records import Record

_TEXT = {"Content-Type": "text/plain; charset=utf-8"}
_BROKEN = re.compile(rb"[^\n]*\n|[^\n]+")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


class LogRun(Protocol):
    """The output of one run of a container."""

    def pieces(self) -> Sequence[tuple[datetime, bytes]]:
        """Return all output so far, each piece with the time at which it was written."""
        ...

    def follow(self) -> AsyncIterator[bytes]:
        """Yield the output from its beginning as it grows, until the run has ended."""
        ...


class LogSource(Protocol):
    """The source of logs: the node."""

    def get(self, uid: str, container: str, *, previous: bool = False) -> LogRun | None:
        """Return the present run of a pod's container, or the one before; None when there is none."""
        ...


class NoLogs:
    """The source of a cluster without a node."""

    def get(self, uid: str, container: str, *, previous: bool = False) -> LogRun | None:
        """Return None: nothing ever ran."""
        return None


def respond(source: LogSource, record: Record, query: Query, now: datetime) -> APIResponse:
    """Handle a GET on pods/log.

    Raises:
        StatusError: 400 or 422, the container or the options are invalid; 400, nothing has run yet.
    """
    pod = record.manifest()
    container = container_of(pod, query.text("container"))
    tail, limit = query.integer("tailLines"), query.integer("limitBytes")
    since = _since(query, now)
    _check_options(pod["metadata"]["name"], query, tail, limit)
    if not pod["spec"].get("nodeName"):
        return APIResponse(204, _TEXT, b"")
    previous = query.flag("previous")
    run = source.get(record.metadata.uid, container, previous=previous)
    if run is None:
        raise bad_request(_why_nothing(pod, container, previous))
    lines = _lines(run.pieces())
    shown = [line for line in lines if line[0] >= since]
    if tail is not None:
        shown = shown[len(shown) - min(tail, len(shown)) :]
    stamped = query.flag("timestamps")
    if query.flag("follow") and not previous:
        # A followed log starts at the beginning.
        skipped = sum(len(text) for _, text in lines[: len(lines) - len(shown)])
        return APIResponse(200, _TEXT, _Following(run, skipped, limit, stamped=stamped))
    body = b"".join(_stamp(moment) + text if stamped else text for moment, text in shown)
    return APIResponse(200, _TEXT, body[:limit])


def end_of_log(source: LogSource, record: Record, container: str, limit: int) -> bytes:
    """Return the end of the log of a container's present run, beginning with a whole line.

    The cost depends on the number of returned bytes, not on the length of the log.

    Args:
        source: Where logs come from.
        record: The pod.
        container: The container; empty for the only one.
        limit: How many bytes are returned at most.

    Raises:
        StatusError: 400, the container is invalid, or has not run yet.
    """
    pod = record.manifest()
    container = container_of(pod, container)
    run = source.get(record.metadata.uid, container)
    if run is None:
        raise bad_request(_why_nothing(pod, container, previous=False))
    # One byte more shows whether the first line is whole.
    text = b"".join(piece for _, piece in _latest(run.pieces(), limit + 1))
    return text if len(text) <= limit else text[1:] if text[:1] == b"\n" else text.partition(b"\n")[2] or text[1:]


def _lines(pieces: Iterable[tuple[datetime, bytes]]) -> list[tuple[datetime, bytes]]:
    """Return whole lines with the time at which each began; the last one may be unfinished."""
    lines: list[tuple[datetime, bytes]] = []
    for moment, piece in pieces:
        for part in _BROKEN.findall(piece):
            if lines and not lines[-1][1].endswith(b"\n"):
                lines[-1] = (lines[-1][0], lines[-1][1] + part)
            else:
                lines.append((moment, part))
    return lines


def _since(query: Query, now: datetime) -> datetime:
    if seconds := query.integer("sinceSeconds"):
        return now - clamped_seconds(seconds)
    if not (text := query.text("sinceTime")):
        return _LONG_AGO
    try:
        whole_seconds(text)
    except ValueError as error:
        raise bad_request(str(error)) from None
    return datetime.fromisoformat(text)


def _stamp(moment: datetime) -> bytes:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z ").encode()


def _check_options(pod: str, query: Query, tail: int | None, limit: int | None) -> None:
    errors: list[FieldError] = []
    if tail is not None and tail < 0:
        errors.append(invalid_field("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        errors.append(invalid_field("limitBytes", limit, "must be greater than 0"))
    seconds = query.integer("sinceSeconds")
    if seconds is not None and query.text("sinceTime"):
        # Upstream names no field here.
        errors.append(forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        errors.append(invalid_field("sinceSeconds", seconds, "must be greater than 0"))
    if query.has("stream"):
        errors.append(forbidden("stream", "may not be specified"))
    if errors:
        raise invalid("PodLogOptions", "", pod, errors)


def _why_nothing(pod: Manifest, container: str, previous: bool) -> str:
    name, status = pod["metadata"]["name"], pod.get("status") or {}
    if previous:
        return f'previous terminated container "{container}" in pod "{name}" not found'
    members = ("initContainerStatuses", "containerStatuses")
    reports = [report for member in members for report in status.get(member) or () if report["name"] == container]
    state: Manifest = next((report.get("state", {}) for report in reports), {})
    if "terminated" in state:
        # By a process before this one, which took the log with it.
        return f'container "{container}" in pod "{name}" is terminated'
    reason = (state.get("waiting") or {}).get("reason", "ContainerCreating")
    return f'container "{container}" in pod "{name}" is waiting to start: {reason}'


class _Following:
    """A log as it grows, from the first byte that was requested to the last."""

    def __init__(self, run: LogRun, skip: int, limit: int | None, *, stamped: bool) -> None:
        self._run = run
        self._chunks = run.follow()
        self._skip = skip
        self._left = limit
        self._stamped = stamped
        # Whether the text that was read so far ends inside a line.
        self._inside = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while self._left is None or self._left > 0:
            chunk = await anext(self._chunks)
            skipped = min(self._skip, len(chunk))
            self._skip -= skipped
            shown = self._with_stamps(len(chunk) - skipped) if self._stamped else chunk[skipped:]
            if self._left is not None:
                shown = shown[: self._left]
                self._left -= len(shown)
            if shown:
                return shown
        raise StopAsyncIteration

    def _with_stamps(self, size: int) -> bytes:
        """Return the last bytes of the log, each line with the time at which it began."""
        lines: list[bytes] = []
        for moment, piece in _latest(self._run.pieces(), size):
            for part in _BROKEN.findall(piece):
                lines.append(part if self._inside else _stamp(moment) + part)
                self._inside = not part.endswith(b"\n")
        return b"".join(lines)

    async def aclose(self) -> None:
        close = getattr(self._chunks, "aclose", None)
        if close is not None:
            await close()


def _latest(pieces: Sequence[tuple[datetime, bytes]], size: int) -> list[tuple[datetime, bytes]]:
    """Return the last pieces that make up `size` bytes; of the first of them its end."""
    found: list[tuple[datetime, bytes]] = []
    for moment, piece in reversed(pieces):
        if size <= 0:
            break
        found.append((moment, piece[-size:]))
        size -= len(piece)
    return found[::-1]
