"""The commands and manifests of the guide on Jobs at scale do as its text says."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from kcr.app.logs import configure_logs
from kcr.cli.main import exit_code_of
from tests.kit import cronjob_harness
from tests.kit.documents import ROOT, blocks
from tests.kit.harness import create, finished, manifest
from tests.kit.served_cluster import served_cluster

GUIDE = ROOT / "docs" / "guide" / "jobs-at-scale.md"
COMMANDS = [line for block in blocks(GUIDE) if block.language == "console" for line in block.text.splitlines()]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_commands_of_the_guide_create_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix: dict[str, Any] = {"completions": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0}
    configure_logs(None, "critical")
    with served_cluster(tmp_path) as served:
        client = served.cluster.client
        served.call(create(client, manifest("pi")))
        served.call(create(client, manifest("matrix", **matrix, annotations={"sim.kcr.dev/by-index": "1=1"})))
        served.call(cronjob_harness.create(client, cronjob_harness.manifest("hello")))
        for name in ("pi", "matrix"):
            served.call(finished(client, name))
        monkeypatch.setenv("KUBECONFIG", str(served.kubeconfig))
        monkeypatch.setenv("HOME", str(tmp_path))
        for line in COMMANDS:
            program, *arguments = shlex.split(line)
            assert (program, exit_code_of(arguments)) == ("kcr", 0)
    configure_logs("json", "debug")
    printed = capsys.readouterr().out.splitlines()
    assert printed[:2] == ["job.batch/pi-rerun-1 created", "job.batch/matrix-rerun-1 created"]
    assert printed[2].startswith("job.batch/hello-m")
