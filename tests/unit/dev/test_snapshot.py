"""Files, lines and exit codes of `kcr snapshot`; what is in them is `tests/unit/apiserver/storage/test_journal.py`."""

import os
from pathlib import Path

import pytest

from kcr.cli.main import exit_code_of
from kcr_devcluster.cluster.datadir import DataDir, lock_folder
from tests.kit.command_lines import assert_refused

pytestmark = pytest.mark.usefixtures("logs_of_commands")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    DataDir(tmp_path / "data").close()
    return tmp_path / "data"


def test_folder_is_saved_and_restored(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot, new = str(data.with_name("snapshot")), str(data.with_name("new"))
    assert exit_code_of(["snapshot", "save", snapshot, "--data-dir", str(data)]) == 0
    assert exit_code_of(["snapshot", "restore", snapshot, "--data-dir", new]) == 0
    assert capsys.readouterr().err == (
        f"kcr snapshot: saved to {snapshot}\n"
        f"kcr snapshot: restored: start it with `kcr dev --data-dir {new}`\n"
    )  # fmt: skip


def test_folder_comes_from_the_variable_of_kcr_dev(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCR_DEV_DATA_DIR", str(data))
    assert exit_code_of(["snapshot", "save", str(data.with_name("snapshot"))]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        pytest.param([], 2, "name the file to write with -o, or one of the commands save and restore", id="nothing"),
        pytest.param(["-o", "s", "--controllers", "none"], 2, "no controller is named 'none'", id="no-controller"),
        pytest.param(["-o", "s", "--kubeconfig", "none"], 1, "kubeconfig none does not exist", id="no-cluster"),
        pytest.param(["save", "s"], 2, "Missing option '--data-dir'", id="no-folder"),
        pytest.param(["save", "s", "--data-dir", "none"], 1, "none is not a data folder", id="another-folder"),
        pytest.param(["restore", "none", "--data-dir", "new"], 1, "none: there is no such file", id="no-file"),
        pytest.param(["restore", "data/kcr.db", "--data-dir", "data"], 1, "data has a cluster already", id="not-new"),
    ],
)
def test_refusal_is_one_line(
    data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    line: str,
) -> None:
    monkeypatch.chdir(data.parent)
    assert_refused(["snapshot", *arguments], code, f"kcr: {line}", capsys)


def test_folder_in_use_is_not_restored_into(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot, used = str(data.with_name("snapshot")), data.with_name("used")
    assert exit_code_of(["snapshot", "save", snapshot, "--data-dir", str(data)]) == 0
    lock = lock_folder(used)
    try:
        assert exit_code_of(["snapshot", "restore", snapshot, "--data-dir", str(used)]) == 1
    finally:
        os.close(lock)
    assert "is in use by another kcr dev" in capsys.readouterr().err


def test_damaged_folder_ends_the_cluster_in_one_line(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "kcr.db").write_bytes(b"no database at all" * 1000)
    assert exit_code_of(["dev", "--data-dir", str(data), "--kubeconfig", str(data.with_name("config"))]) == 1
    error = capsys.readouterr().err
    assert f"kcr: {data}/kcr.db is damaged, or no database of kcr: file is not a database" in error
    assert error.splitlines()[-1].startswith("kcr: ")
