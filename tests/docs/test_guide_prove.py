"""The guide from nothing to a proven operator: its finding, word for word, and its tests as a reader runs them."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import kcr
from kcr.api import codec
from kcr.api.batch import Job
from kcr.api.crd import crd_manifest
from kcr.cli.main import exit_code_of
from kcr.testing import eventually
from kcr_devcluster.testing.explore.options import Oracle
from kcr_devcluster.testing.explore.plans import EVENT_FAULTS, JITTER, WRITE_FAULTS
from tests.kit.documents import ROOT, blocks, files, run_tests_of
from tests.kit.served_cluster import ServedCluster, served_cluster

GUIDE = ROOT / "docs" / "guide" / "prove.md"
FILES = files(GUIDE)


@pytest.mark.timeout(120)
def test_operator_of_the_guide_is_found_out_and_its_correction_is_proven(pytester: pytest.Pytester) -> None:
    said = _without_drawn_names(run_tests_of(FILES, pytester))
    assert "1 failed, 3 passed" in said
    told, *_ = printed()
    for line in _without_drawn_names(told).splitlines():
        assert line in said


@pytest.mark.timeout(60)
def test_least_role_of_the_guide_is_the_one_that_its_tests_print(pytester: pytest.Pytester) -> None:
    said = run_tests_of(FILES, pytester, "--kcr-rights", "-k", "two_writes")
    assert "1 passed" in said
    _, role, *_ = printed()
    assert role in said
    assert "not declared" not in said


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("logs_of_commands")
def test_upgrade_of_the_guide_is_rehearsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in (("old", FILES["backups.py"]), ("new", changed(FILES["backups.py"]))):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".venv").symlink_to(sys.prefix)
        (tmp_path / name / "backups.py").write_text(text)
    monkeypatch.chdir(tmp_path / "old")
    monkeypatch.syspath_prepend(str(tmp_path / "old"))
    taken, rehearsed = (line.strip("()").split("kcr ", 1)[1] for line in commands().splitlines())
    try:
        with served_cluster(tmp_path) as served:
            create_backup(served)
            arguments = taken.replace("--context prod", f"--kubeconfig {served.kubeconfig}").split()
            assert exit_code_of(arguments) == 0
    finally:
        sys.modules.pop("backups", None)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert exit_code_of(rehearsed.split()) == 1
    shown = capsys.readouterr().out
    assert without_environment(printed()[-1]) == without_environment(shown)


def changed(text: str) -> str:
    """The next version, as the guide has the change."""
    lines = next(block.text for block in blocks(GUIDE) if block.language == "diff").splitlines()[2:]
    removed = "".join(f"{line[1:]}\n" for line in lines if line.startswith("-"))
    assert removed in text
    first, *added = [f"{line[1:]}\n" for line in lines if line.startswith("+")]
    return text.replace(removed, "".join(added)).replace("import msgspec\n", f"{first}\nimport msgspec\n", 1)


def commands() -> str:
    return next(block.text for block in blocks(GUIDE) if block.language == "sh" and "rehearse" in block.text)


def create_backup(served: ServedCluster) -> None:
    """Create what the operator has made by the time of the snapshot."""
    backups = importlib.import_module("backups")

    client: Any = served.cluster.client

    async def create() -> None:
        await client.request("POST", DEFINITIONS, codec.encode(crd_manifest(backups.Backup)))
        metadata = kcr.ObjectMeta(name="nightly", namespace="default")
        backup = await client.create(backups.Backup(metadata=metadata, spec=backups.BackupSpec(source="/data")))
        named = kcr.ObjectMeta(name="nightly-lft7s", namespace="default", generate_name="nightly-")
        named_key = kcr.Key("default", named.name)
        job = Job(metadata=named, spec=backups.job_spec(backup))
        await client.create(kcr.set_controller(job, backup))

        async def has_ended() -> bool:
            return (await client.get(Job, named_key)).status.completion_time is not None

        await eventually(has_ended)
        await client.patch_status(backup, backups.replace(backup, status=backups.BackupStatus(job="nightly-lft7s")))

    served.call(create())


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def without_environment(text: str) -> str:
    """The report without what differs from machine to machine, and with single blanks."""
    text = re.sub(r"nightly-lft7s-\w{5}", "nightly-lft7s-…", text)
    text = re.sub(r"kcr [\d.]+, Python [\d.]+", "kcr …", text)
    return re.sub(r"from \S+, \d+ objects of \S+", "…", re.sub(" +", " ", text))


def printed() -> tuple[str, ...]:
    """What commands of the guide print."""
    return tuple(block.text for block in blocks(GUIDE) if block.language == "text")


def _without_drawn_names(text: str) -> str:
    return re.sub(r"nightly-\w{5}\b", "nightly-…", text)


def test_tables_of_the_guide_have_all_faults_and_oracles() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    names = [*WRITE_FAULTS, *EVENT_FAULTS, "hand-over", "namespace", *get_args(Oracle)]
    assert [name for name in names if f"`{name}`" not in text] == []
    assert f"`{JITTER}@" in text
