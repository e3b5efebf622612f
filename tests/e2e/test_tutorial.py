"""The tutorial, word for word: its operator, its test, its commands and what they print."""

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import ROOT, Start
from tests.kit.documents import blocks, files, run_tests_of

TUTORIAL = ROOT / "docs" / "tutorial.md"
FILES = files(TUTORIAL)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


def without_moments(text: str) -> str:
    """Return an output without what differs from run to run: ages, and the ends of names of pods."""
    return re.sub(r"\b\d+s\b", "0s", re.sub(r"broken-\w{5}\b", "broken-00000", text))


def test_every_block_is_run() -> None:
    assert [block.file or block.language for block in blocks(TUTORIAL)] == [
        "report.py", "test_report.py", "console", "reports.yaml", "console", "console", "text",
    ]  # fmt: skip


def test_operator_passes_its_test(pytester: pytest.Pytester) -> None:
    (test, *_) = (block.text for block in blocks(TUTORIAL) if block.language == "console")
    assert test == "pytest -q test_report.py\n"
    assert "1 passed" in (said := run_tests_of(FILES, pytester)), said


@NEEDS_KUBECTL
@pytest.mark.asyncio
async def test_commands_print_what_the_tutorial_shows(
    tmp_path: Path, environment: Mapping[str, str], kcr: Start
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (_, start, use), (shown,) = ([block.text for block in blocks(TUTORIAL) if block.language == of and not block.file]
                                 for of in ("console", "text"))  # fmt: skip
    generate, dev = start.splitlines()
    shell = Kubectl(tmp_path, {**environment, "PATH": f"{Path(sys.executable).parent}:{environment['PATH']}"})
    await shell.in_shell(generate, tmp_path)
    async with kcr(*shlex.split(dev)[1:], folder=tmp_path) as running:
        await running.kubeconfig()
        said = await shell.in_shell(use, tmp_path)
        assert without_moments(shown) in without_moments(said), said
        assert re.search(r"^archive-\S+ +Complete", said, re.MULTILINE)
        assert "first is archived" in running.err + running.out
