"""The file of `kcr snapshot`: JSON, one value a line. The first line is the head, each other one an object.

```json
{"format":"kcr-snapshot","version":1,"kcr":"0.2.0","kubernetes":"v1.36.2","time":"2026-11-30T20:00:00Z","count":2,…}
{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default",…},…}
{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"pi","namespace":"default",…},…}
```

The head has the number of objects of each kind, and the SHA-256 of all that follows it: a file that was cut short or
changed is refused, and so is one of a later version of the format.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from kcr.api.resources import ResourceType
from kcr.atomicfile import replace_files
from kcr.errors import ConfigError

FORMAT, VERSION = "kcr-snapshot", 1
# Only its owner may read what a cluster has.
_PRIVATE = 0o600
_REMEDY = "take it again with kcr snapshot"


class SnapshotKind(msgspec.Struct, frozen=True, rename="camel"):
    """A kind of which a snapshot has objects.

    Attributes:
        api_version: The version in which they were read.
        kind: The kind, as in manifests.
        plural: Its name in paths.
        namespaced: Whether objects live in namespaces.
        whole: Whether all objects were read, and not only those that others need.
        count: How many there are in the file.
    """

    api_version: str
    kind: str
    plural: str
    namespaced: bool
    whole: bool
    count: int = 0

    @property
    def resource(self) -> ResourceType:
        """Where the kind is served."""
        group, _, version = self.api_version.rpartition("/")
        return ResourceType(group, version, self.kind, self.plural, self.namespaced)


class Head(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The first line of a snapshot.

    Attributes:
        format: `kcr-snapshot`.
        version: Of the format.
        kcr: The version of kcr that wrote it.
        kubernetes: The version of the cluster.
        server: The URL of its API server.
        time: When it was read.
        controllers: The controllers whose objects it has, as `--controllers` takes them.
        namespace: The namespace that was read; empty for all.
        data: The kinds, `secrets` and `configmaps`, whose data it has in the clear; hashes stand for those of others.
        kinds: The kinds, with the number of objects.
        left_out: What could not be read, in words.
        count: The number of objects.
        sha256: Of all lines behind this one.
    """

    format: str = FORMAT
    version: int = VERSION
    kcr: str
    kubernetes: str
    server: str
    time: datetime
    controllers: tuple[str, ...]
    namespace: str = ""
    data: tuple[str, ...] = ()
    kinds: tuple[SnapshotKind, ...] = ()
    left_out: tuple[str, ...] = ()
    count: int = 0
    sha256: str = ""


class Snapshot(msgspec.Struct, frozen=True):
    """A snapshot that was read.

    Attributes:
        head: Its first line.
        objects: Each as it was on the server, with `apiVersion` and `kind`.
    """

    head: Head
    objects: tuple[dict[str, Any], ...]


class _Mark(msgspec.Struct, rename="camel"):
    """What all versions of the format have in the first line."""

    format: str = ""
    version: int = 0
    kcr: str = ""


def write_snapshot(path: Path, head: Head, objects: Iterable[Mapping[str, Any]]) -> Head:
    """Write a snapshot, whole or not at all, for its owner's eyes; return its first line.

    Args:
        path: The file.
        head: The first line without the numbers and the checksum.
        objects: The objects, of the kinds in the head.

    Raises:
        OSError: The file cannot be written.
    """
    lines = [msgspec.json.encode(one) + b"\n" for one in objects]
    body = b"".join(lines)
    head = msgspec.structs.replace(head, count=len(lines), sha256=hashlib.sha256(body).hexdigest())
    replace_files({path: msgspec.json.encode(head) + b"\n" + body}, mode=_PRIVATE)
    return head


def read_snapshot(path: Path) -> Snapshot:
    """Read a snapshot.

    Raises:
        ConfigError: The file cannot be read, or is none, or of another version, or something of it is missing.
    """
    try:
        first, _, body = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}: name a file that kcr snapshot wrote") from error
    head = _head(path, first)
    lines = body.split(b"\n")
    rest = lines.pop()
    if hashlib.sha256(body).hexdigest() != head.sha256:
        raise ConfigError(f"{path}: {_damage(head, lines, rest)}: {_REMEDY}")
    return Snapshot(head, tuple(msgspec.json.decode(line) for line in lines))


def _head(path: Path, line: bytes) -> Head:
    try:
        mark = msgspec.json.decode(line, type=_Mark)
    except (msgspec.DecodeError, UnicodeDecodeError):
        mark = _Mark()
    if mark.format != FORMAT:
        raise ConfigError(f"{path} is not a snapshot: name a file that kcr snapshot wrote")
    if mark.version != VERSION:
        raise ConfigError(
            f"{path} has version {mark.version} of the format, written by kcr {mark.kcr or 'of unknown version'}, and "
            f"this kcr reads version {VERSION}: take it again with this kcr, or read it with the other one"
        )
    try:
        return msgspec.json.decode(line, type=Head)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: its first line is damaged: {error}: {_REMEDY}") from error


def _damage(head: Head, lines: list[bytes], rest: bytes) -> str:
    """Return in words what is missing."""
    found: dict[tuple[str, str], int] = {}
    for number, line in enumerate(lines):
        try:
            one = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return f"line {number + 2} is damaged"
        key = (str(one.get("apiVersion")), str(one.get("kind")))
        found[key] = found.get(key, 0) + 1
    missing = list(_missing(head, found))
    if not missing and not rest:
        return "its objects were changed: their checksum is another one"
    words = ", ".join(missing) or "the end of the last line"
    return f"cut short, with {len(lines):,} of {head.count:,} objects: missing are {words}"


def _missing(head: Head, found: Mapping[tuple[str, str], int]) -> Iterator[str]:
    for kind in head.kinds:
        lacking = kind.count - found.get((kind.api_version, kind.kind), 0)
        if lacking > 0:
            yield f"{lacking:,} of {kind.count:,} {kind.resource.display}"
