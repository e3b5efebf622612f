"""Wrong inputs and their answers, and that every public callable has some: the tables are in `rows`."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.boundary.rows import (
    EXEMPT,
    METHODS,
    Row,
    answer,
    answered,
    covered,
    public_callables,
    read_rows,
    resolved,
)

pytestmark = pytest.mark.usefixtures("logs_of_commands")

ROWS = read_rows()


@pytest.fixture(scope="module")
def one_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for all rows: one for each would take longer than they do."""
    return tmp_path_factory.mktemp("rows")


@pytest.fixture
def folder(one_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Begin in an empty folder."""
    monkeypatch.chdir(one_folder)
    yield one_folder
    for path in one_folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("row", [row for row in ROWS if "await " not in row.code], ids=lambda row: row.code)
def test_wrong_input_has_its_answer(row: Row) -> None:
    assert answer(row.code) == row.answer


@pytest.mark.kcr_virtual
@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("row", [row for row in ROWS if "await " in row.code], ids=lambda row: row.code)
async def test_wrong_input_of_a_coroutine_has_its_answer(row: Row) -> None:
    assert await answered(row.code) == row.answer


def test_no_wrong_input_is_accepted_or_called_a_bug_of_kcr() -> None:
    assert not [row.code for row in ROWS if row.answer in ("", "accepted") or "this is a bug" in row.answer]
    assert len({row.code for row in ROWS}) >= 250


def test_every_public_callable_has_rows() -> None:
    missing = sorted({*public_callables()} - covered())
    assert not missing, "write wrong inputs of each into a table of tests/boundary/rows, below a heading with its name"


def test_headings_and_exemptions_name_what_there_is() -> None:
    assert not [name for name in (*covered(), *EXEMPT, *METHODS) if resolved(name) is None]
