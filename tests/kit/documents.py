"""The code in a document, as a reader would paste it."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

import kcr.testing

# A run of pytest inside pytest forgets the modules that it has loaded, and these names keep what they found there.
for _name in dir(kcr.testing):
    getattr(kcr.testing, _name)

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"# file: (\S+)\n")


class Block(NamedTuple):
    """A block of code: its language, the file that its first line names, and its text without that line."""

    language: str
    file: str
    text: str


def blocks(document: Path) -> list[Block]:
    """Return the blocks of code in a document, in order."""
    found = []
    for language, text in _FENCE.findall(document.read_text(encoding="utf-8")):
        named = _NAME.match(text)
        found.append(Block(language, named[1] if named else "", text[named.end() :] if named else text))
    return found


def files(document: Path) -> dict[str, str]:
    """Return the blocks that name a file, by its name."""
    return {block.file: block.text for block in blocks(document) if block.file}


def run_tests_of(pages: Mapping[str, str], pytester: pytest.Pytester, *options: str) -> str:
    """Write the files of documents to an empty folder, run pytest there, and return what it prints.

    It runs in this process, where all that it imports is there already.

    Args:
        pages: The texts by the name of their files.
        pytester: The folder, and its runs of pytest.
        options: More arguments of pytest.
    """
    settings = (
        "[pytest]\nfilterwarnings =\n    error\n    ignore:Module already imported:pytest.PytestAssertRewriteWarning\n"
        # Hypothesis counts references, which Python 3.14 borrows.
        "    ignore:It looks like .register_random.:Warning\n"
        "asyncio_default_fixture_loop_scope = function\n"
    )
    for name, text in {**pages, "pytest.ini": settings}.items():
        (pytester.path / name).write_text(text, encoding="utf-8")
    done = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider", *options)
    return f"{done.stdout}{done.stderr}"
