"""The layout of volumes that consist of files.

Source: kubernetes/pkg/volume/util/atomic_writer_test.go.
"""

import os
from pathlib import Path

import pytest

from kcr_devcluster.cluster.node.volumes.atomic_writer import DATA, ProjectedFile, write_payload


def files(**contents: str) -> dict[str, ProjectedFile]:
    return {name.replace("__", "/"): ProjectedFile(text.encode(), 0o644) for name, text in contents.items()}


def shown(volume: Path) -> dict[str, str]:
    """What a program finds: the files by their paths, without the writer's own."""
    visible = [entry for entry in volume.iterdir() if not entry.name.startswith("..")]
    paths = [path for entry in visible for path in ([entry] if entry.is_file() else entry.rglob("*"))]
    return {str(path.relative_to(volume)): path.read_text() for path in paths if path.is_file()}


def test_files_are_links_through_the_data_link(tmp_path: Path) -> None:
    write_payload(tmp_path, files(key="value", sub__deep="x"))
    assert shown(tmp_path) == {"key": "value", "sub/deep": "x"}
    assert os.readlink(tmp_path / "key") == "..data/key"
    assert os.readlink(tmp_path / "sub") == "..data/sub"
    assert (tmp_path / os.readlink(tmp_path / DATA)).is_dir()


def test_new_payload_replaces_all_of_the_one_before(tmp_path: Path) -> None:
    write_payload(tmp_path, files(kept="1", gone="1"))
    before = os.readlink(tmp_path / DATA)
    write_payload(tmp_path, files(kept="2", new="2"))
    assert shown(tmp_path) == {"kept": "2", "new": "2"}
    assert not (tmp_path / before).exists()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(
        ["kept", "new", DATA, os.readlink(tmp_path / DATA)]
    )


def test_reader_of_the_version_before_keeps_its_file(tmp_path: Path) -> None:
    write_payload(tmp_path, files(key="old"))
    with (tmp_path / "key").open() as opened:
        write_payload(tmp_path, files(key="new"))
        assert (opened.read(), (tmp_path / "key").read_text()) == ("old", "new")


def test_modes_do_not_depend_on_the_mask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_payload(tmp_path, {"run": ProjectedFile(b"", 0o755), "key": ProjectedFile(b"", 0o400)})
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("run", "key")] == [0o755, 0o400]


def test_mount_points_in_a_volume_outlive_an_update(tmp_path: Path) -> None:
    write_payload(tmp_path, files(key="1"))
    (tmp_path / "inner").mkdir()
    write_payload(tmp_path, {})
    assert sorted(entry.name for entry in tmp_path.iterdir() if not entry.name.startswith("..")) == ["inner"]


def test_payload_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    write_payload(tmp_path, files(key="1"))
    before = sorted(os.listdir(tmp_path))
    for _ in range(3):
        with pytest.raises(OSError, match=r"File exists|Not a directory"):
            write_payload(tmp_path, {**files(key="2", a="file"), **files(a__b="below the file")})
    assert sorted(os.listdir(tmp_path)) == before
    assert shown(tmp_path) == {"key": "1"}
