"""The file of a snapshot: what was written is read, and a file that is not whole is refused with what is missing."""

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kcr.errors import ConfigError
from kcr_devcluster.rehearsal.snapshot_file import Head, SnapshotKind, read_snapshot, write_snapshot
from kcr_devcluster.rehearsal.taking import counted

HEAD = Head(
    kcr="0.2.0", kubernetes="v1.36.2", server="https://prod:6443", time=datetime(2026, 11, 30, 20, tzinfo=UTC),
    controllers=("job",),
    kinds=(
        SnapshotKind("batch/v1", "Job", "jobs", namespaced=True, whole=True, count=2),
        SnapshotKind("v1", "Namespace", "namespaces", namespaced=False, whole=False, count=1),
    ),
)  # fmt: skip
OBJECTS = (
    {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one", "namespace": "default"}},
    {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "two", "namespace": "default"}},
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}},
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prod.kcr"
    write_snapshot(path, HEAD, OBJECTS)
    return path


def test_what_was_written_is_read(file: Path) -> None:
    found = read_snapshot(file)
    assert found.objects == OBJECTS
    assert (found.head.count, found.head.time, found.head.kinds) == (3, HEAD.time, HEAD.kinds)


def test_only_its_owner_may_read_it(file: Path) -> None:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["prod.kcr"]


def lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("kept", "missing"),
    [
        pytest.param(
            slice(0, 1), "with 0 of 3 objects: missing are 2 of 2 jobs.batch, 1 of 1 namespaces", id="head-alone"
        ),
        pytest.param(
            slice(0, 2), "with 1 of 3 objects: missing are 1 of 2 jobs.batch, 1 of 1 namespaces", id="one-object"
        ),
        pytest.param(slice(0, 3), "with 2 of 3 objects: missing are 1 of 1 namespaces", id="two-objects"),
    ],
)
def test_file_that_is_cut_short_is_refused_with_what_is_missing(file: Path, kept: slice, missing: str) -> None:
    file.write_bytes(b"".join(lines(file)[kept]))
    with pytest.raises(ConfigError, match=f"prod.kcr: cut short, {missing}: take it again with kcr snapshot"):
        read_snapshot(file)


def test_every_shortened_file_is_refused(file: Path) -> None:
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        with pytest.raises(ConfigError, match=r"prod.kcr"):
            read_snapshot(file)


def test_changed_object_is_refused(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b'"one"', b'"won"'))
    with pytest.raises(ConfigError, match="its objects were changed: their checksum is another one"):
        read_snapshot(file)


def test_damaged_line_is_named(file: Path) -> None:
    head, first, *rest = lines(file)
    file.write_bytes(b"".join((head, first.replace(b"{", b"", 1), *rest)))
    with pytest.raises(ConfigError, match="line 2 is damaged"):
        read_snapshot(file)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"", "is not a snapshot: name a file that kcr snapshot wrote", id="empty"),
        pytest.param(b"SQLite format 3\x00\xff\xfe", "is not a snapshot", id="database"),
        pytest.param(b"[]\n", "is not a snapshot", id="other-json"),
        pytest.param(b'{"apiVersion": "v1", "kind": "List"}\n', "is not a snapshot", id="manifest"),
        pytest.param(
            b'{"format":"kcr-snapshot","version":2,"kcr":"0.9.0","new":[]}\n',
            "has version 2 of the format, written by kcr 0.9.0, and this kcr reads version 1", id="other-version",
        ),
        pytest.param(b'{"format":"kcr-snapshot","version":1}\n', "its first line is damaged", id="no-fields"),
    ],
)  # fmt: skip
def test_another_file_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "prod.kcr"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        read_snapshot(path)


@pytest.mark.parametrize("name", ["none", "."])
def test_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*: name a file that kcr snapshot wrote"):
        read_snapshot(tmp_path / name)


def test_numbers_of_objects_are_said_in_words() -> None:
    kinds = (
        SnapshotKind("batch/v1", "Job", "jobs", namespaced=True, whole=True, count=1),
        SnapshotKind("v1", "Secret", "secrets", namespaced=True, whole=True, count=1),
        SnapshotKind("batch/v1", "Job", "jobs", namespaced=True, whole=True, count=1200),
        SnapshotKind("v1", "Pod", "pods", namespaced=True, whole=True, count=0),
    )
    assert [*counted(kinds)] == ["1 job.batch", "1 secret", "1,200 jobs.batch", "0 pods"]
