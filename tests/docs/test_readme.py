"""The README: its programs run as a reader would paste them, and its tables are true."""

import re
import shlex
from pathlib import Path

import pytest

import kcr
from kcr.api.core import Namespace
from kcr.cli.main import exit_code_of
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.documents import ROOT, blocks, files, run_tests_of
from tests.kit.generated import imported

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
FILES = files(README)
TWELVE = 12


def section(heading: str) -> str:
    """Return the text below a heading."""
    (found,) = re.findall(rf"^## {heading}.*?\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    return str(found)


def test_readme_is_short_and_each_block_of_code_is_run() -> None:
    assert len(TEXT.splitlines()) < 200
    assert [block.file or block.text for block in blocks(README)] == [
        "make demo\nmake test\n",  # tests/e2e/test_demo.py; the other one is this run
        *FILES,
    ]
    assert list(FILES) == ["greeter.py", "website.py", "test_website.py"]


@pytest.mark.kcr_virtual
async def test_twelve_lines_label_every_namespace(kcr_cluster: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    assert len([line for line in FILES["greeter.py"].splitlines() if line]) == TWELVE
    manager = kcr.Manager(kcr_cluster.client, clock=kcr_clock)
    with imported(FILES["greeter.py"], "greeter") as greeter:
        greeter.setup(manager)
        async with manager.running():
            await kcr_clock.advance(1)
    assert {found.metadata.labels["greeted"] for found in await kcr_cluster.client.list(Namespace)} == {"yes"}


@pytest.mark.timeout(60)
def test_operator_passes_its_test(pytester: pytest.Pytester) -> None:
    assert "1 passed" in (said := run_tests_of(FILES, pytester)), said


def test_commands_for_the_operator_are_those_of_kcr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "website.py").write_text(FILES["website.py"], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (types,) = re.findall(r"`(kcr types generate [^`]+)`", section("Twelve names"))
    assert exit_code_of(shlex.split(types)[1:]) == 0
    assert "class ResourceQuota(" in (tmp_path / "quota.py").read_text(encoding="utf-8")
    generate, roles = re.findall(r"`(kcr (?:crd|rbac) generate [^`]+)`", section("An operator"))
    assert exit_code_of(shlex.split(generate)[1:]) == 0
    assert (tmp_path / "manifests" / "example.dev_websites.yaml").exists()
    assert exit_code_of(shlex.split(roles)[1:]) == 0
    assert "- configmaps\n" in capsys.readouterr().out


def test_twelve_names_are_public() -> None:
    names = re.findall(r"^\| `(\w+)` \|", section("Twelve names"), re.MULTILINE)
    assert len(names) == TWELVE
    used = set(re.findall(r"kcr\.(\w+)", section("Twelve names") + section("An operator")))
    assert {*names, *used} - {"api", "testing", *dir(kcr)} == set()


def test_each_claim_about_others_has_a_page_and_a_test() -> None:
    rows = re.findall(
        r"^\| (.+) \| \[[^]]+\]\((\S+?)\) \| \[test\]\((\S+)\) \|$", section("What the others"), re.MULTILINE
    )
    assert len(rows) == section("What the others").count("\n| ") - 1
    for _, page, test in rows:
        assert (ROOT / page.partition("#")[0]).exists()
        assert re.search(r"^(async )?def test_", (ROOT / test).read_text(encoding="utf-8"), re.MULTILINE), test
