"""YAML that every reader takes for what it is; and a full disk: the former file stays, and one line names it."""

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.cli.main import exit_code_of
from kcr.cli.output import show
from kcr_devcluster.yaml_json import load_yaml
from tests.kit.full_disk import full_disk

# Its definition is larger than the disk.
KINDS = """
import kcr

class GadgetSpec(kcr.Object):
    size: int = 1

class Gadget(kcr.Resource, api_version="example.dev/v1", plural="gadgets"):
    spec: GadgetSpec = GadgetSpec()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "full_disk_kinds.py").write_text(KINDS)
    (tmp_path / "full").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("command", "file"),
    [
        pytest.param("types generate v1/Pod -o full/types.py", "full/types.py", id="types"),
        pytest.param(
            "crd generate full_disk_kinds -o full", "full/example.dev_gadgets.yaml", id="definitions"
        ),
        pytest.param("rbac generate -o full/role.yaml", "full/role.yaml", id="role"),
    ],
)  # fmt: skip
def test_full_disk_leaves_the_former_file_and_is_one_line(
    command: str, file: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code_of(command.split()) == 0
    written = (folder / file).read_text()
    assert written
    (folder / file).write_text("before")
    with full_disk(200):
        assert exit_code_of(command.split()) == 1
    assert capsys.readouterr().err == f"kcr: cannot write {file}: File too large: free some space\n"
    assert (folder / file).read_text() == "before"
    assert [path.name for path in (folder / "full").iterdir()] == [Path(file).name]


def test_project_on_a_full_disk_leaves_no_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(folder.iterdir())
    with full_disk(1_000):
        assert exit_code_of(["init", "shop"]) == 1
    shown = capsys.readouterr()
    assert shown.err == "kcr: cannot write shop/README.md: File too large: free some space\n"
    assert shown.out == ""
    assert set(folder.iterdir()) == before


# Texts that a reader of YAML 1.1, or of 1.2, takes for something else when they stand bare.
_WORDS = (
    "12e3",
    "0o14",
    "1_000",
    "1:30",
    "yes",
    "y",
    "No",
    "null",
    "~",
    "on",
    "2026-01-01",
    "0x1f",
    "1.0",
    "<<",
    "=",
    "",
)


@pytest.mark.parametrize("text", _WORDS)
def test_text_stays_a_text(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    show({"label": text, text or "-": 1}, "yaml")
    assert load_yaml(capsys.readouterr().out) == {"label": text, text or "-": 1}


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.integers(), st.none(), st.booleans())))
def test_documents_are_read_as_they_were(value: dict[str, object]) -> None:
    with StringIO() as out, redirect_stdout(out):
        show(value, "yaml")
        assert load_yaml(out.getvalue()) == value
