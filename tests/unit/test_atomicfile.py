"""Files that are replaced: whole or not at all, with their permissions, through links, and paths of other things."""

import os
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from kcr.atomicfile import is_full, replace_files
from tests.kit.full_disk import full_disk

LARGE = b"x" * 20_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    return path


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_full_disk_leaves_every_file_as_it_was(file: Path) -> None:
    other = file.with_name("other")
    with full_disk(10_000), pytest.raises(OSError, match="File too large") as failed:
        replace_files({other: b"small", file: LARGE})
    assert failed.value.filename == str(file)
    assert is_full(failed.value)
    assert file.read_bytes() == b"before"
    assert list(file.parent.iterdir()) == [file]


def test_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        replace_files({tmp_path / "new": b"a"})
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "new") == 0o640


def test_replaced_file_keeps_its_permissions(file: Path) -> None:
    file.chmod(0o604)
    replace_files({file: b"after"})
    assert (file.read_bytes(), mode_of(file)) == (b"after", 0o604)


def test_private_file_is_private_whatever_was_there(file: Path) -> None:
    file.chmod(0o644)
    replace_files({file: b"after"}, mode=0o600)
    assert mode_of(file) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_replaced_file_keeps_its_owner(file: Path) -> None:
    os.chown(file, 12, 34)
    replace_files({file: b"after"})
    assert (file.stat().st_uid, file.stat().st_gid) == (12, 34)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
def test_file_that_may_not_be_written_is_refused(file: Path) -> None:
    file.chmod(0o400)
    with pytest.raises(PermissionError) as refused:
        replace_files({file: b"after"})
    assert refused.value.filename == str(file)


def test_target_of_a_link_is_replaced_in_its_folder(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    link = folder / "link"
    link.symlink_to("../file")
    replace_files({link: b"after"})
    assert link.is_symlink()
    assert file.read_bytes() == b"after"


def test_link_to_nothing_gets_its_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    replace_files({tmp_path / "link": b"after"})
    assert (tmp_path / "target").read_bytes() == b"after"


def test_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    replace_files({pipe: b"after"})
    reader.join()
    assert read == [b"after"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_path_of_a_descriptor_is_written_to() -> None:
    read, write = os.pipe()
    replace_files({Path(f"/dev/fd/{write}"): b"after"})
    os.close(write)
    assert os.read(read, 100) == b"after"
    os.close(read)


def test_device_that_is_full_names_itself() -> None:
    with pytest.raises(OSError, match="No space left") as failed:
        replace_files({Path("/dev/full"): b"after"})
    assert failed.value.filename == "/dev/full"
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        pytest.param("folder", IsADirectoryError, id="folder"),
        pytest.param("missing/file", FileNotFoundError, id="no-folder"),
        pytest.param("file/below", NotADirectoryError, id="below-a-file"),
    ],
)
def test_error_names_the_file_that_was_asked_for(file: Path, name: str, error: type[OSError]) -> None:
    (file.parent / "folder").mkdir()
    with pytest.raises(error) as failed:
        replace_files({file.parent / name: b"after"})
    assert failed.value.filename == str(file.parent / name)


def test_name_may_be_as_long_as_the_system_takes(tmp_path: Path) -> None:
    long = tmp_path / ("é" * 127 + "x")
    replace_files({long: b"after"})
    assert long.read_bytes() == b"after"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_private_file_is_that_of_its_writer(file: Path) -> None:
    os.chown(file, 12, 34)
    replace_files({file: b"after"}, mode=0o600)
    assert (file.stat().st_uid, file.read_bytes()) == (os.geteuid(), b"after")


def test_file_behind_a_descriptor_is_written_in_place(file: Path) -> None:
    with file.open("rb") as opened:
        for folder in ("/dev/fd", "/proc/self/fd"):
            replace_files({Path(folder, str(opened.fileno())): folder.encode()})
            assert os.path.samestat(file.stat(), os.fstat(opened.fileno()))
    assert file.read_bytes() == b"/proc/self/fd"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_private_file_does_not_replace_that_of_another() -> None:
    # Not in pytest's folder, which other users may not enter.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "file")
        file.write_bytes(b"before")
        file.chmod(0o666)
        file.parent.chmod(0o777)
        os.seteuid(12)
        try:
            with pytest.raises(PermissionError, match="it belongs to another user"):
                replace_files({file: b"after"}, mode=0o600)
        finally:
            os.seteuid(0)
        assert file.read_bytes() == b"before"


def replace_in_namespace(file: Path, mode: int | None, *, mount: bool = False) -> None:
    """Replace a file in a user namespace that maps this user alone; `mount` mounts the file on its own there."""
    replace = f"replace_files({{Path(sys.argv[1]): b'after'}}, mode={mode})"
    program = f"import sys; from pathlib import Path; from kcr.atomicfile import replace_files; {replace}"
    bind = 'mount --bind "$1" "$1" && ' if mount else ""
    shell = ["sh", "-c", f'{bind}exec "$0" -c "$2" "$1"', sys.executable, str(file), program]
    command = ["unshare", "--user", "--map-root-user", "--mount", *shell]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.stderr.startswith("unshare: "):
        pytest.skip(done.stderr)
    assert not done.stderr


def test_file_that_is_a_mount_is_written_in_place(file: Path) -> None:
    same = file.stat().st_ino
    replace_in_namespace(file, 0o600, mount=True)
    assert (file.read_bytes(), mode_of(file), file.stat().st_ino) == (b"after", 0o600, same)
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_owner_that_the_namespace_does_not_map_is_left(file: Path) -> None:
    os.chown(file, 12, 34)
    file.chmod(0o646)
    replace_in_namespace(file, None)
    assert (file.read_bytes(), file.stat().st_uid, mode_of(file)) == (b"after", os.geteuid(), 0o646)
