"""hostPath volumes: what each type accepts, makes and refuses."""

from pathlib import Path

import pytest

from kcr.api.full.core_v1 import HostPathVolumeSource
from kcr_devcluster.cluster.node.volumes.contents import VolumeError
from kcr_devcluster.cluster.node.volumes.host_paths import prepare_host_path


def prepare(path: Path, kind: str | None) -> Path:
    return prepare_host_path(HostPathVolumeSource(path=str(path), type=kind))


@pytest.mark.parametrize("kind", [None, "", "DirectoryOrCreate"])
def test_missing_directory_is_made(tmp_path: Path, kind: str | None) -> None:
    assert prepare(tmp_path / "a" / "b", kind).is_dir()


def test_missing_file_is_made_empty(tmp_path: Path) -> None:
    assert prepare(tmp_path / "f", "FileOrCreate").read_bytes() == b""


def test_what_is_there_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    for kind in (None, "File", "FileOrCreate"):
        assert prepare(tmp_path / "f", kind).read_text() == "x"


@pytest.mark.parametrize(
    ("kind", "name", "why"),
    [
        pytest.param("Directory", "gone", "is not a directory", id="missing-directory"),
        pytest.param("Directory", "file", "is not a directory", id="file-for-directory"),
        pytest.param("DirectoryOrCreate", "file", "is not a directory", id="no-directory-made-of-a-file"),
        pytest.param("File", "gone", "is not a file", id="missing-file"),
        pytest.param("FileOrCreate", "", "is not a file", id="directory-for-file"),
        pytest.param("Socket", "file", "is not a socket file", id="socket"),
        pytest.param("CharDevice", "file", "is not a character device", id="device"),
    ],
)
def test_wrong_type_is_refused(tmp_path: Path, kind: str, name: str, why: str) -> None:
    # Source: kubernetes/pkg/volume/hostpath/host_path.go, checkTypeInternal.
    (tmp_path / "file").touch()
    with pytest.raises(VolumeError) as refused:
        prepare(tmp_path / name, kind)
    assert str(refused.value) == f"hostPath type check failed: {tmp_path / name} {why}"


def test_file_without_its_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VolumeError, match="No such file or directory"):
        prepare(tmp_path / "gone" / "f", "FileOrCreate")
