"""The archive of `kcr debug dump`: all that a debug port tells, without secrets."""

import io
import tarfile
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec

from kcr.cli.debug.port import DebugPort, fetch, without_secrets
from kcr.cli.version import versions
from kcr.errors import ConfigError, KcrError
from kcr.serving.debug.state import DebugState

# Files of the archive besides those made from the state: file, path, and description.
_PAGES = (
    ("options.json", "/options", "the options that the process runs with"),
    ("stacks.txt", "/stacks", "where its threads and tasks are"),
)
_MANIFEST = "MANIFEST"


class ArchiveFile(NamedTuple):
    """A file of the archive; without content it was not to be had.

    Attributes:
        name: The file's name.
        what: A description of it.
        content: The text; None when it was not to be had.
        why_not: Why it was not.
    """

    name: str
    what: str
    content: str | None
    why_not: str = ""


class MetricsPlace(NamedTuple):
    """Where the metrics of a process are; without a URL, why that is not known."""

    url: str
    why_not: str = ""


async def collect(port: DebugPort, metrics: "MetricsPlace") -> list[ArchiveFile]:
    """Read the complete state of a process.

    Args:
        port: Its debug port.
        metrics: Where its metrics are.

    Raises:
        KcrError: The debug port does not answer, or is one of another version.
    """
    body = await port.get("/state")
    state = read_state(port, body)
    process = state.process
    told = {"process": {"kcr": process.version, "Python": process.python, "command": process.command}}
    parts = [
        ArchiveFile(
            "versions.json", "the versions of the process, and of this program", _pretty({**told, "here": versions()})
        ),
        ArchiveFile("state.json", "informers, queues, keys in trouble, leadership", _pretty(msgspec.json.decode(body))),
        ArchiveFile("errors.txt", "the last errors", "".join(f"{line}\n" for line in errors_of(state))),
    ]
    for name, path, what in _PAGES:
        parts.append(await _part(name, what, f"{port.url}/debug/kcr{path}", port.token))
    if metrics.url:
        parts.append(await _part("metrics.txt", "its metrics", metrics.url, ""))
    else:
        parts.append(ArchiveFile("metrics.txt", "its metrics", None, metrics.why_not))
    return [part if part.content is None else part._replace(content=without_secrets(part.content)) for part in parts]


def read_state(port: DebugPort, body: bytes) -> DebugState:
    """Return the state that a debug port has answered.

    Raises:
        ConfigError: It is one of another version.
    """
    try:
        return msgspec.json.decode(body, type=DebugState)
    except ValueError as error:
        raise ConfigError(f"the debug port {port.url} cannot be read: {error}: use the same version of kcr") from error


async def _part(name: str, what: str, url: str, token: str) -> ArchiveFile:
    try:
        return ArchiveFile(name, what, (await fetch(url, token=token)).decode(errors="replace"))
    except KcrError as error:
        return ArchiveFile(name, what, None, str(error))


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode() + "\n"


def errors_of(state: DebugState) -> Iterator[str]:
    """Yield the errors that a state has, one a line: of informers, then of keys, each with its age if it has one."""
    for check in state.process.not_ready:
        yield f"not ready: {check}"
    for informer in state.informers:
        if informer.last_error:
            yield f"informer {informer.kind}: {informer.last_error}"
    for controller in state.controllers:
        for group in controller.errors:
            yield f"controller {controller.name}: {group.keys} keys, such as {', '.join(group.examples)}: {group.text}"
        for run in controller.recent:
            if run.outcome == "error":
                yield f"controller {controller.name}: {run.key}, {run.seconds_ago:.0f} s ago: {run.text}"


def manifest(parts: list[ArchiveFile], url: str, now: datetime) -> str:
    """Return the list of the archive's contents and missing parts."""
    lines = [f"kcr debug dump of {url} at {now:%Y-%m-%dT%H:%M:%SZ}", ""]
    for part in parts:
        found = f"not to be had: {part.why_not}" if part.content is None else f"{len(part.content.encode())} bytes"
        lines.append(f"{part.name:<15}{part.what}: {found}")
    lines += [
        "",
        "No object is in it but names, namespaces and what errors say of them; what looks like a token, a password or",
        "a private key is left out. Read it before you hand it on.",
    ]
    return "\n".join(lines) + "\n"


def packed(parts: list[ArchiveFile], text: str, folder: str, now: datetime) -> bytes:
    """Return the archive, a .tar.gz.

    Args:
        parts: The files; those without content are left out.
        text: The manifest.
        folder: The folder that all are in.
        now: The time of the files.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in ((_MANIFEST, text), *((part.name, part.content) for part in parts)):
            if content is not None:
                body, info = content.encode(), tarfile.TarInfo(f"{folder}/{name}")
                info.size, info.mtime, info.mode = len(body), int(now.timestamp()), 0o600
                archive.addfile(info, io.BytesIO(body))
    return buffer.getvalue()
