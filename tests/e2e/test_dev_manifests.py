"""What `kcr dev -f` takes, and what it refuses."""

from pathlib import Path

import pytest

from kcr.testing import eventually
from tests.e2e.processes import Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio]

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: busybox, command: [echo, %s]}]
"""

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: busybox}]}
"""


@pytest.mark.soak
async def test_unknown_field_is_refused_by_file_object_and_field(kcr: Start, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text((JOB % ("typo", "hello")).replace("  template:", "  completion: 2\n  template:"))
    async with kcr("dev", "-f", str(path), "--wait") as dev:
        assert await dev.end() == 1
        assert dev.err.splitlines()[-1] == f'kcr: {path}: Job typo: unknown field "spec.completion"'


@pytest.mark.soak
async def test_folder_of_manifests_is_applied(kcr: Start, tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(JOB % ("b", "bee"))
    (tmp_path / "a.yaml").write_text(JOB % ("a", "ay"))
    (tmp_path / "notes.txt").write_text("no manifest")
    async with kcr("dev", "-f", str(tmp_path), "--wait") as dev:
        assert await dev.end() == 0, dev.err
        assert dev.err.index("job.batch/a created") < dev.err.index("job.batch/b created")
        assert sorted(line.partition(" | ")[2] for line in dev.out.splitlines()) == ["ay", "bee"]


# It waits for the period of twenty seconds; tests/controllers/garbage_collector has the rule, in virtual time.
@pytest.mark.soak
async def test_oldest_finished_pod_beyond_the_threshold_is_deleted(kcr: Start, tmp_path: Path) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec:\n  restartPolicy: Never\n  containers: [%s]\n"
    container = "{name: main, image: busybox, command: ['true']}"
    path = tmp_path / "pods.yaml"
    path.write_text("---\n".join(pod % (name, container) for name in ("a", "b")))
    async with kcr("dev", "-f", str(path), "--terminated-pod-gc-threshold", "1") as dev:
        await eventually(lambda: "pod a: deleted" in dev.err, seconds=60)
        assert "pod b: Succeeded" in dev.err
        assert "pod b: deleted" not in dev.err


@pytest.mark.soak
async def test_objects_without_a_controller_are_said(kcr: Start, tmp_path: Path) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(DEPLOYMENT)
    async with kcr("dev", "--no-controllers", "--runtime", "simulated", "-f", str(path)) as dev:
        await eventually(lambda: "deployment.apps/web created" in dev.err)
        assert "none of kcr's controllers run here: Jobs and CronJobs wait for kcr run" in dev.err
        assert "Warning: deployments.apps are stored by this server, and nothing here acts on them" in dev.err
