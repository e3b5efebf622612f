"""What a journal keeps, what it forgets, and which files it refuses."""

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.errors import ConfigError
from kcr_devcluster.apiserver.kinds.catalogue import CONFIG_MAPS, SECRETS
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.storage.journal import Journal, restore_snapshot, save_snapshot
from kcr_devcluster.apiserver.storage.storage import Storage
from tests.kit.full_disk import full_disk

State = dict[str, list[tuple[str, int, bytes]]]


@contextmanager
def opened(file: Path, **options: int) -> Iterator[Storage]:
    with closing(Journal(file, **options)) as journal:
        yield Storage(journal)


def manifest(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"a": "b"}}, **more}


def put(storage: Storage, name: str, text: str = "") -> None:
    storage.put(CONFIG_MAPS, manifest(name, data={"text": text}), storage.get(CONFIG_MAPS, "ns", name))


def remove(storage: Storage, name: str) -> None:
    record = storage.get(CONFIG_MAPS, "ns", name)
    assert record is not None
    storage.remove(record)


def state(storage: Storage) -> State:
    caches = (storage.cache(kind) for kind in (CONFIG_MAPS, SECRETS))
    return {
        cache.kind.type.kind: [(one.key, one.revision, one.body) for one in cache.select()] for cache in caches
    }  # fmt: skip


def rows(file: Path) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(file)) as connection:
        return list(connection.execute("SELECT revision, key FROM changes ORDER BY revision"))


def test_objects_and_the_revision_are_there_again(tmp_path: Path) -> None:
    with opened(tmp_path / "kcr.db") as storage:
        put(storage, "a")
        put(storage, "b")
        storage.put(SECRETS, manifest("s"), None)
        put(storage, "a", "changed")
        remove(storage, "b")
        expected, metadata = state(storage), storage.cache(CONFIG_MAPS).records["ns/a"].metadata
    with opened(tmp_path / "kcr.db") as again:
        assert again.revision == 6
        assert state(again) == expected
        assert again.cache(CONFIG_MAPS).records["ns/a"].metadata == metadata
        put(again, "c")
        assert again.cache(CONFIG_MAPS).records["ns/c"].revision == 7


def test_what_was_stored_survives_a_process_that_is_killed(tmp_path: Path) -> None:
    with opened(tmp_path / "kcr.db") as storage:
        for number in range(3):
            put(storage, f"object-{number}")
            # What a process leaves that ends without closing anything.
            left = Path(shutil.copytree(tmp_path, tmp_path.with_name(f"left-{number}")))
            with opened(left / "kcr.db") as again:
                assert state(again) == state(storage)


def test_changes_after_an_old_version_are_there_again(tmp_path: Path) -> None:
    with opened(tmp_path / "kcr.db") as storage:
        put(storage, "a", "1")
        put(storage, "a", "2")
        remove(storage, "a")
    with opened(tmp_path / "kcr.db") as again:
        changes = again.cache(CONFIG_MAPS).changes_since(2)
        assert [(one.revision, one.old is None, one.new is None) for one in changes] == [
            (3, False, False),
            (4, False, True),
        ]
        assert again.cache(CONFIG_MAPS).snapshot_at(2)[1] == ["ns/a"]


def test_version_before_the_history_is_expired_after_a_restart(tmp_path: Path) -> None:
    with opened(tmp_path / "kcr.db", history=200) as storage:
        for number in range(201):
            put(storage, "a", str(number))
    with (
        opened(tmp_path / "kcr.db") as again,
        pytest.raises(StatusError, match="too old resource version: 100") as expired,
    ):
        again.cache(CONFIG_MAPS).changes_since(100)
    assert expired.value.code == 410


def test_what_is_superseded_is_deleted_with_the_history(tmp_path: Path) -> None:
    with opened(tmp_path / "kcr.db", history=200) as storage:
        put(storage, "stays")
        put(storage, "gone")
        remove(storage, "gone")
        for number in range(400):
            put(storage, "changes", str(number))
        newest = storage.revision
    assert [key for revision, key in rows(tmp_path / "kcr.db") if revision < newest - 200] == ["ns/stays"]
    assert len(rows(tmp_path / "kcr.db")) <= 202


@given(steps=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "remove", "restart"])), max_size=30))
def test_storage_with_restarts_equals_one_without(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    file, memory = tmp_path_factory.mktemp("journal") / "kcr.db", Storage()
    journal = Journal(file)
    stored = Storage(journal)
    for name, step in steps:
        if step == "restart":
            journal.close()
            journal = Journal(file)
            stored = Storage(journal)
        for storage in (memory, stored) if step != "restart" else ():
            present = storage.get(CONFIG_MAPS, "ns", name) is not None
            if step == "put":
                put(storage, name)
            elif present:
                remove(storage, name)
    assert stored.revision == memory.revision
    assert state(stored) == state(memory)
    for revision in range(1, memory.revision + 1):
        expected = memory.cache(CONFIG_MAPS).snapshot_at(revision)[0]
        assert {key: one.body for key, one in stored.cache(CONFIG_MAPS).snapshot_at(revision)[0].items()} == {
            key: one.body for key, one in expected.items()
        }
    journal.close()


def test_write_that_fails_stores_nothing_and_the_next_one_succeeds(tmp_path: Path) -> None:
    file = tmp_path / "kcr.db"
    with opened(file) as storage:
        put(storage, "a")
        with full_disk(500_000), pytest.raises(StatusError, match="cannot write") as refused:
            put(storage, "b", "x" * 1_000_000)
        assert refused.value.code == 500
        assert storage.get(CONFIG_MAPS, "ns", "b") is None
        put(storage, "a", "small")
        expected = state(storage)
    with opened(file) as again:
        assert state(again) == expected


def _text(file: Path) -> None:
    file.write_text("apiVersion: v1\n" * 100)


def _foreign(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE t (x)")


def _newer(file: Path) -> None:
    with opened(file):
        pass
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 99")


def _fill(file: Path) -> bytearray:
    with opened(file) as storage:
        for number in range(50):
            put(storage, f"object-{number}", "needle" * 50)
    return bytearray(file.read_bytes())


def _pragma(name: str) -> Callable[[Path], None]:
    """Make a database that has nothing but a number."""

    def spoil(file: Path) -> None:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(f"PRAGMA {name} = 5")
            connection.commit()

    return spoil


def _flipped_bit(file: Path) -> None:
    data = _fill(file)
    data[data.rindex(b"needle")] ^= 1
    file.write_bytes(data)


def _zeroed_page(file: Path) -> None:
    data = _fill(file)
    data[4096:8192] = bytes(4096)
    file.write_bytes(data)


def _cut(file: Path) -> None:
    data = _fill(file)
    file.write_bytes(data[: len(data) // 2])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        pytest.param(_text, "damaged, or no database of kcr: file is not a database", id="text"),
        pytest.param(_foreign, "a database of another program", id="another-program"),
        pytest.param(_pragma("application_id"), "a database of another program", id="another-program-without-tables"),
        pytest.param(_pragma("user_version"), "a database of another program", id="version-of-another-program"),
        pytest.param(_newer, "schema version 99, and this kcr reads 1: use a newer kcr", id="newer-schema"),
        pytest.param(_flipped_bit, "the checksum of revision", id="flipped-bit"),
        pytest.param(_zeroed_page, "damaged", id="zeroed-page"),
        pytest.param(_cut, "damaged", id="cut"),
    ],
)
def test_file_that_cannot_be_trusted_is_refused(tmp_path: Path, spoil: Callable[[Path], None], reason: str) -> None:
    file = tmp_path / "kcr.db"
    spoil(file)
    with pytest.raises(ConfigError) as refused, opened(file):
        pass
    assert str(file) in str(refused.value)
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_file_is_for_its_owner_only(tmp_path: Path) -> None:
    with opened(tmp_path / "kcr.db") as storage:
        put(storage, "a")
        assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


def test_restored_snapshot_continues_beyond_what_clients_have_seen(tmp_path: Path) -> None:
    with opened(tmp_path / "kcr.db") as storage:
        put(storage, "a", "1")
        put(storage, "a", "2")
        put(storage, "gone")
        remove(storage, "gone")
        # Of a running cluster: the newest changes are in the log beside the file.
        save_snapshot(tmp_path / "kcr.db", tmp_path / "snapshot")
        expected = state(storage)
        put(storage, "later")
    restore_snapshot(tmp_path / "snapshot", tmp_path / "new.db")
    assert [key for _, key in rows(tmp_path / "new.db")] == ["ns/a"]
    with opened(tmp_path / "new.db") as again:
        assert state(again) == expected
        assert again.revision == 1_000_000_005
        with pytest.raises(StatusError, match="too old resource version"):
            again.cache(CONFIG_MAPS).changes_since(6)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["kcr.db", "new.db", "snapshot"]


def test_snapshot_replaces_another_when_it_is_whole(tmp_path: Path) -> None:
    with opened(tmp_path / "kcr.db") as storage:
        put(storage, "a")
        save_snapshot(tmp_path / "kcr.db", tmp_path / "snapshot")
        before = rows(tmp_path / "snapshot")
        put(storage, "b")
    _text(tmp_path / "text")
    with pytest.raises(ConfigError, match="damaged, or no database"):
        save_snapshot(tmp_path / "text", tmp_path / "snapshot")
    assert rows(tmp_path / "snapshot") == before
    save_snapshot(tmp_path / "kcr.db", tmp_path / "snapshot")
    assert [key for _, key in rows(tmp_path / "snapshot")] == ["ns/a", "ns/b"]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        pytest.param(lambda at: save_snapshot(at / "none.db", at / "s"), "is not a data folder", id="no-journal"),
        pytest.param(lambda at: save_snapshot(at / "kcr.db", at / "x" / "s"), "No such file", id="no-folder"),
        pytest.param(lambda at: save_snapshot(at / "kcr.db", at / "kcr.db"), "is the cluster itself", id="onto-itself"),
        pytest.param(lambda at: restore_snapshot(at / "none", at / "new.db"), "there is no such file", id="no-file"),
        pytest.param(lambda at: restore_snapshot(at / "text", at / "new.db"), "damaged, or no database", id="text"),
        pytest.param(lambda at: restore_snapshot(at / "empty", at / "new.db"), "of another program", id="empty"),
        pytest.param(lambda at: restore_snapshot(at / "kcr.db", at / "kcr.db"), "has a cluster already", id="not-new"),
    ],
)
def test_snapshot_that_cannot_be_is_refused(tmp_path: Path, call: Callable[[Path], None], reason: str) -> None:
    with opened(tmp_path / "kcr.db"):
        pass
    _text(tmp_path / "text")
    (tmp_path / "empty").touch()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ConfigError, match=reason):
        call(tmp_path)
    assert sorted(tmp_path.iterdir()) == before
