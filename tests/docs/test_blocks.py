"""Each block of code in the documents is run by a test."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.docs.test_links import DOCUMENTS
from tests.kit.documents import ROOT, Block, blocks

# What a reader runs; others are output, trees of folders and diagrams.
LANGUAGES = frozenset({"python", "yaml", "json", "console", "sh", "go", "diff"})
# Made from docstrings, whose examples are run where they stand; and the rules that were implemented from.
LEFT_OUT = ("docs/reference/kcr", "docs/spec")
_USE = re.compile(r"(?:from|import) (\w+)|\b(\w+):[a-z]|([\w-]+\.(?:py|yaml|txt))")
_QUOTED = re.compile(r"[\"'/]([\w-]+)[\"'.]")
TESTS = "\n".join(
    re.sub(r"(?m)#.*$", "", path.read_text(encoding="utf-8"))
    for path in (ROOT / "tests").rglob("*.py")
    if path != Path(__file__)
)


def documents() -> dict[str, list[Block]]:
    """Return the documents with code, by their paths."""
    found = {str(path.relative_to(ROOT)): blocks(path) for path in DOCUMENTS}
    return {
        path: code
        for path, code in found.items()
        if not path.startswith(LEFT_OUT) and any(block.language in LANGUAGES for block in code)
    }


def is_read(path: str, tests: str = TESTS) -> bool:
    """Return whether a test reads a document: it names the file, or for a runbook the folder."""
    name = Path(path)
    return (
        f'"{name.name}"' in tests
        or f"/{name.name}" in tests
        or (name.parent.name == "runbooks" and "runbooks" in tests)
    )


def uses(text: str) -> set[str]:
    """Return the files and modules that code uses: it imports them, or names them as `module:setup` or in quotes.

    A manifest needs no more than its name in quotes.
    """
    modules = {name for found in _USE.findall(text) for name in found if name}
    return modules | {f"{name}.yaml" for name in _QUOTED.findall(text)}


def unused(code: Iterable[Block], tests: str = TESTS) -> list[str]:
    """Return the files of blocks that neither a test nor another block uses."""
    everything, used = list(code), uses(tests)
    others = [uses(block.text) for block in everything]
    found = []
    for number, block in enumerate(everything):
        names = {block.file, block.file.partition(".")[0]}
        is_used = names & used or any(names & one for place, one in enumerate(others) if place != number)
        if block.file and not block.file.startswith("test_") and not is_used:
            found.append(block.file)
    return found


@pytest.mark.parametrize("path", documents())
def test_document_with_code_is_read_by_a_test(path: str) -> None:
    assert is_read(path)


def test_file_of_a_block_is_used() -> None:
    assert unused(block for code in documents().values() for block in code) == []


def test_python_has_a_file_name_where_it_is_no_signature() -> None:
    unnamed = {path: sum(block.language == "python" and not block.file for block in code)
               for path, code in documents().items()}  # fmt: skip
    assert {path: count for path, count in unnamed.items() if count} == {
        "docs/guide/scale.md": 1, "docs/guide/writing-controllers.md": 1,
    }  # fmt: skip


def test_block_without_a_test_is_found() -> None:
    assert not is_read("docs/guide/new.md")
    code = [Block("python", "never_run.py", "1"), Block("python", "a.py", "import b"), Block("yaml", "b.yaml", "")]
    assert unused(code, "python a.py") == ["never_run.py"]
