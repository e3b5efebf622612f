"""Journal: a storage's changes in one SQLite file, so that the objects survive the end of the process.

As in etcd, a row is a change, and its number is the revision; the newest row of a key is the object. A change is
committed before it is applied in memory: no answer and no watch event shows a change that the file lacks. Write-ahead
logging with `synchronous=NORMAL` keeps every commit when the process is killed; when the machine loses power, the last
ones may be missing, and the file is intact. A row is deleted when the change that superseded it is so old that the
watch cache has forgotten it as well.

Rows carry a checksum, and the file is checked as a whole when it is opened: a damaged one is refused.
"""

import sqlite3
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kcr.errors import ConfigError
from kcr_devcluster.apiserver.protocol.responses import internal
from kcr_devcluster.apiserver.storage.records import FIRST_REVISION, Change, StoredRow
from kcr_devcluster.apiserver.storage.watch_cache import HISTORY

# "kcr1" in the header of the file, where `file` and SQLite's own tools show it.
APPLICATION_ID = 0x6B637231
SCHEMA_VERSION = 1
# So many changes leave the history at a time: to delete one by one would cost each write a second transaction.
_BATCH = 200
# How long a write waits for another program that locks the file; the event loop waits as well.
_BUSY_SECONDS = 1.0
# By how much a restored snapshot continues behind its newest revision: more than clients can have seen since.
# Source: etcd/etcdutl/snapshot/v3_snapshot.go, --bump-revision; its documentation proposes this number.
_BUMP = 1_000_000_000
_REMEDY = "restore a snapshot into a new folder (`kcr snapshot restore`), or name another --data-dir"

_SCHEMA = f"""
BEGIN;
CREATE TABLE changes (
    revision INTEGER PRIMARY KEY, kind TEXT NOT NULL, key TEXT NOT NULL, body BLOB, checksum INTEGER NOT NULL
);
CREATE TABLE compaction (revision INTEGER NOT NULL);
INSERT INTO compaction VALUES (0);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
COMMIT;
"""

# Leaves the present objects.
_PRUNE = """
DELETE FROM changes
WHERE body IS NULL OR revision NOT IN (SELECT max(revision) FROM changes GROUP BY kind, key)
"""


class Contents(NamedTuple):
    """The contents of a journal.

    Attributes:
        revision: The newest.
        compacted_revision: All later changes are present; of the earlier ones those that made present objects.
        rows: In order of revision, by `ResourceType.display`.
    """

    revision: int
    compacted_revision: int
    rows: dict[str, list[StoredRow]]


class Journal:
    """Writes changes to a file that no other process writes.

    Attributes:
        failure: Why the file could not be written, the last time; empty while it could. A file that another program
            locks for a while is no failure.
        on_failure: Called with the reason at each failure, before the request that wanted to write fails.
    """

    def __init__(self, file: Path, *, history: int = HISTORY) -> None:
        """Open a file, or make it.

        Args:
            file: Where it is; its folder exists.
            history: How many changes of all kinds are kept beside the present objects, at most.

        Raises:
            ConfigError: It is damaged, of a newer kcr, or something else, or cannot be read or written.
        """
        self._file = file
        self._history = history
        self.failure: str = ""
        self.on_failure: Callable[[str], object] = str
        # Of each change in the history, oldest first: its revision, and the rows to delete when it leaves.
        self._changes: deque[tuple[int, tuple[int, ...]]] = deque()
        with _refused(file):
            # Before SQLite makes it: only its owner may read Secrets. The files beside it get the same permissions.
            file.touch(mode=0o600)
            self._connection = sqlite3.connect(file, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            with _refused(file):
                _check(self._connection, file, create=True)
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
        except ConfigError:
            self._connection.close()
            raise

    def read(self) -> Contents:
        """Return everything; called once, before the first change.

        Raises:
            ConfigError: A row is damaged.
        """
        with _refused(self._file):
            ((compacted,),) = self._connection.execute("SELECT revision FROM compaction")
            # At least the compaction's: a restored snapshot continues far beyond its newest row.
            contents = Contents(max(FIRST_REVISION, compacted), compacted, defaultdict(list))
            newest: dict[tuple[str, str], int] = {}
            for row, kind in _rows(self._connection):
                old = newest.get((kind, row.key), 0)
                # A removal supersedes the object, and nothing supersedes a removal: both rows leave with it.
                newest[kind, row.key] = row.revision if row.body is not None else 0
                contents.rows[kind].append(row)
                if row.revision > compacted:
                    self._remember(row.revision, old, is_removal=row.body is None)
                contents = contents._replace(revision=max(contents.revision, row.revision))
        return contents

    def append(self, change: Change) -> None:
        """Commit a change.

        Raises:
            StatusError: 500, it cannot be written: the disk is full, say. Then nothing is stored.
        """
        record, removed = change.record, change.new is None
        kind, key, body = record.kind.type.display, record.key, None if removed else record.stored_body
        # The key counts, too: a body that was copied under another key is damage as well.
        row = (change.revision, kind, key, body, _checksum(kind, key, body))
        try:
            # Before the change: nothing may fail after its commit.
            if len(self._changes) >= self._history:
                self._compact()
            self._connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", row)
        except sqlite3.Error as error:
            reason = f"cannot write {self._file}: {error}"
            if not _is_code(error, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                self.failure = reason
                self.on_failure(reason)
            # Invariant: nothing was applied in memory yet, so the client may try again.
            raise internal(reason) from error
        self._remember(change.revision, change.old.revision if change.old is not None else 0, is_removal=removed)

    def close(self) -> None:
        """Close the file; the write-ahead log is merged into it."""
        self._connection.close()

    def _remember(self, revision: int, old: int, *, is_removal: bool) -> None:
        # The row of the version before stays for as long as this change is in the history, which a restart builds from
        # rows.
        superseded = (old,) if old else ()
        self._changes.append((revision, (*superseded, revision) if is_removal else superseded))

    def _compact(self) -> None:
        """Delete the rows that the oldest changes of the history superseded."""
        # In one transaction with the compaction's number: after a crash between the two, a list at an old revision
        # would lack objects.
        batch = list(islice(self._changes, _BATCH))
        with self._connection:
            self._connection.execute("BEGIN")
            superseded = [(row,) for _, rows in batch for row in rows]
            self._connection.executemany("DELETE FROM changes WHERE revision = ?", superseded)
            self._connection.execute("UPDATE compaction SET revision = ?", (batch[-1][0],))
        for _ in batch:
            self._changes.popleft()


def save_snapshot(file: Path, snapshot: Path) -> None:
    """Copy a journal, which a running cluster may be writing, as it is at one moment.

    A file of the snapshot's name is replaced once the copy is whole; when the copy fails, the file stays as it is.

    Args:
        file: The journal.
        snapshot: Where to.

    Raises:
        ConfigError: One of them cannot be read or written, or the journal is damaged, or they are the same file.

    Source: etcd/client/v3/snapshot/v3_snapshot.go, SaveWithVersion.
    """
    if not file.is_file():
        raise ConfigError(f"{file.parent} is not a data folder: name the one of `kcr dev` with --data-dir")
    if snapshot.exists() and snapshot.samefile(file):
        raise ConfigError(f"{snapshot} is the cluster itself: name another file")
    partial = snapshot.with_name(f".{snapshot.name}.partial")
    try:
        with _refused(file), closing(sqlite3.connect(file, isolation_level=None)) as source:
            _check(source, file)
            _copy(source, partial)
        with _refused(snapshot):
            # Atomic: another program finds the old snapshot or the new one, never half of it.
            partial.replace(snapshot)
    finally:
        partial.unlink(missing_ok=True)


def restore_snapshot(snapshot: Path, file: Path) -> None:
    """Make a journal of a snapshot; its revisions continue far behind those that clients may have seen.

    So they relist (410 Expired) instead of taking older objects for newer ones.

    Args:
        snapshot: A file that `save_snapshot` wrote.
        file: The new journal; its folder exists.

    Raises:
        ConfigError: The snapshot is none, or is damaged, or there is a journal already.
    """
    if not snapshot.is_file():
        raise ConfigError(f"{snapshot}: there is no such file: name one that `kcr snapshot save` wrote")
    if file.exists():
        raise ConfigError(f"{file.parent} has a cluster already: name a new folder with --data-dir")
    partial = file.with_name(f".{file.name}.partial")
    try:
        with _refused(snapshot), closing(sqlite3.connect(f"{snapshot.resolve().as_uri()}?mode=ro", uri=True)) as source:
            _check(source, snapshot)
            newest = max((row.revision for row, _ in _rows(source)), default=FIRST_REVISION)
            _copy(source, partial)
        with _refused(file), closing(sqlite3.connect(partial, isolation_level=None)) as copy:
            copy.execute(_PRUNE)
            copy.execute("UPDATE compaction SET revision = max(revision, ?) + ?", (newest, _BUMP))
        with _refused(file):
            partial.rename(file)
    finally:
        partial.unlink(missing_ok=True)


def write_journal(file: Path, rows: Iterable[tuple[str, StoredRow]]) -> None:
    """Write a journal of present objects without a history: no watch and no list may begin before the newest of them.

    Args:
        file: The new journal; its folder exists.
        rows: The objects as `Record.stored_body` has them, with their kinds as `ResourceType.display`; each revision
            is another one.

    Raises:
        ConfigError: It cannot be written.
    """
    with _refused(file):
        file.touch(mode=0o600)
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            _check(connection, file, create=True)
            newest = FIRST_REVISION
            connection.execute("BEGIN")
            for kind, (revision, key, body) in rows:
                row = (revision, kind, key, body, _checksum(kind, key, body))
                connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", row)
                newest = max(newest, revision)
            connection.execute("UPDATE compaction SET revision = ?", (newest,))
            connection.execute("COMMIT")


def _copy(source: sqlite3.Connection, target: Path) -> None:
    with _refused(target):
        target.unlink(missing_ok=True)
        target.touch(mode=0o600)
        with closing(sqlite3.connect(target, isolation_level=None)) as connection:
            source.backup(connection)
            # One file, without a log beside it.
            connection.execute("PRAGMA journal_mode = DELETE")


def _check(connection: sqlite3.Connection, file: Path, *, create: bool = False) -> None:
    """Refuse a file that is not ours or damaged; make the tables of a new one where `create` says so."""
    ((application_id,),) = connection.execute("PRAGMA application_id")
    ((version,),) = connection.execute("PRAGMA user_version")
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_schema")
    if create and not (application_id or version or tables):
        connection.executescript(_SCHEMA)
        return
    if application_id != APPLICATION_ID:
        raise ConfigError(f"{file} is a database of another program: {_REMEDY}")
    if version != SCHEMA_VERSION:
        raise ConfigError(f"{file} has schema version {version}, and this kcr reads {SCHEMA_VERSION}: use a newer kcr")
    ((found,),) = connection.execute("PRAGMA quick_check(1)")
    if found != "ok":
        raise ConfigError(f"{file} is damaged: {' '.join(found.split())}: {_REMEDY}")


def _rows(connection: sqlite3.Connection) -> Iterator[tuple[StoredRow, str]]:
    """Yield all rows and their kinds, oldest first."""
    for revision, kind, key, body, checksum in connection.execute("SELECT * FROM changes ORDER BY revision"):
        if checksum != _checksum(kind, key, body):
            raise sqlite3.DatabaseError(f"the checksum of revision {revision} is wrong")
        yield StoredRow(revision, key, body), kind


def _checksum(kind: str, key: str, body: bytes | None) -> int:
    return zlib.crc32(body or b"", zlib.crc32(f"{kind} {key}".encode()))


def _is_code(error: sqlite3.Error, *codes: int) -> bool:
    """Return whether an error has one of these primary result codes; the higher bits of a code are details."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in codes


@contextmanager
def _refused(file: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        is_full = _is_code(error, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
        remedy = "free some space" if is_full else "free the folder, or name another one"
        raise ConfigError(f"cannot use {file}: {error}: {remedy}") from error
    except (sqlite3.Error, UnicodeDecodeError, TypeError) as error:
        raise ConfigError(f"{file} is damaged, or no database of kcr: {error}: {_REMEDY}") from error
    except OSError as error:
        raise ConfigError(f"cannot use {file}: {error.strerror}: name a folder that you can write") from error
