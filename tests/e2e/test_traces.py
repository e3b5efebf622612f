"""Traces of `kcr run`, with the commands of the guide and no collector."""

import asyncio
import json
import re
import shlex
import sys
import tomllib
from collections.abc import Mapping
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest

from kcr.testing import eventually
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import ROOT, Serve
from tests.kit.documents import blocks

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: hello, namespace: default}
spec:
  managedBy: kcr.dev/job-controller
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}
"""
(INSTALL, RUN) = next(
    block.text.splitlines() for block in blocks(ROOT / "docs" / "guide" / "observe.md") if "opentelemetry" in block.text
)


def test_extra_of_the_guide_brings_what_it_says() -> None:
    assert "kcr[tracing]" in shlex.split(INSTALL)
    brought = [line for line in requires("kcr") or () if 'extra == "tracing"' in line]
    assert {re.split("[<>=~]", line)[0] for line in brought} == {"opentelemetry-api", "opentelemetry-distro"}
    # Nothing of it is needed by those who do not ask for it.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [line for line in project["dependencies"] if "opentelemetry" in line]


def spans_in(text: str) -> list[dict[str, Any]]:
    """Return the spans that the console exporter printed."""
    decoder, found, at = json.JSONDecoder(), list[dict[str, Any]](), 0
    while (at := text.find("{", at)) >= 0:
        span, at = decoder.raw_decode(text, at)
        found.append(span)
    return found


@pytest.mark.soak
@NEEDS_KUBECTL
@pytest.mark.asyncio
async def test_command_of_the_guide_traces_a_job(environment: Mapping[str, str], serve: Serve, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}:{environment['PATH']}"
    exporters = {"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}
    async with serve() as kubeconfig:
        log = tmp_path / "run.err"
        with log.open("wb") as stderr:
            running = await asyncio.create_subprocess_shell(
                f"exec env {RUN} --log-format json --log-level debug",
                env={**environment, **exporters, "PATH": path, "KUBECONFIG": str(kubeconfig)},
                stdout=asyncio.subprocess.PIPE, stderr=stderr,
            )  # fmt: skip
        try:
            await eventually(lambda: "workers run" in log.read_text(), seconds=60)
            await Kubectl(kubeconfig, environment)("apply -f -", typed=JOB)
            await eventually(lambda: "Job completed" in log.read_text(), seconds=30)
        finally:
            running.terminate()
            out, _ = await running.communicate()
    assert running.returncode == 0
    spans = spans_in(out.decode())
    roots = {span["context"]["trace_id"]: span for span in spans if span["name"] == "reconcile job"}
    created = next(span for span in spans if span["name"] == "POST /api/v1/namespaces/{namespace}/pods")
    root = roots[created["context"]["trace_id"]]
    assert (root["context"]["span_id"], root["parent_id"]) == (created["parent_id"], None)
    assert (root["attributes"]["kcr.name"], root["resource"]["attributes"]["service.name"]) == ("hello", "kcr")
    assert created["attributes"]["server.address"] == "127.0.0.1"
    line = next(json.loads(line) for line in log.read_text().splitlines() if "Created pod" in line)
    assert f"0x{line['trace_id']}" == root["context"]["trace_id"]
