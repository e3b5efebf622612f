"""The real kubectl on pods with volumes."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from kcr.testing import eventually
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]

WAITING = """\
apiVersion: batch/v1
kind: Job
metadata: {name: waiting}
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: busybox, command: [cat, /etc/late/key], volumeMounts: [{name: late, mountPath: /etc/late}]}
      volumes: [{name: late, secret: {secretName: late}}]
"""

RUNNING = """\
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: busybox
    command: [sleep, "600"]
    workingDir: /kcr-work
    volumeMounts: [{name: settings, mountPath: /etc/settings}, {name: work, mountPath: /kcr-work}]
  volumes: [{name: settings, configMap: {name: settings}}, {name: work, emptyDir: {}}]
"""


@pytest_asyncio.fixture
async def kubectl(serve: Serve, environment: Mapping[str, str]) -> AsyncIterator[Kubectl]:
    async with serve(runtime="process", jobs=True) as path:
        yield Kubectl(path, environment)


@pytest.mark.soak
async def test_job_with_a_missing_secret_waits_for_it(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(WAITING)
    await kubectl(f"apply -f {tmp_path}/job.yaml")

    async def is_described() -> bool:
        described = await kubectl("describe pods -l batch.kubernetes.io/job-name=waiting")
        return 'MountVolume.SetUp failed for volume "late" : secret "late" not found' in described

    await eventually(is_described)
    assert "ContainerCreating" in await kubectl("get pods")
    assert "condition met" not in await kubectl("wait --for=condition=complete job/waiting --timeout=1s", code=1)
    await kubectl("create secret generic late --from-literal=key=here")
    await kubectl("wait --for=condition=complete job/waiting --timeout=30s")
    assert await kubectl("logs job/waiting") == "here"


@pytest.mark.soak
async def test_pod_makes_jobs_that_kubectl_shows(kubectl: Kubectl) -> None:
    await kubectl("create serviceaccount controller")
    await kubectl("apply -f examples/patterns/controller-pod/job.yaml")
    await kubectl("wait --for=condition=complete job/controller --timeout=60s")
    assert sorted((await kubectl("logs job/controller")).splitlines())[0] == "item-apple Complete"
    assert "item-cherry" in await kubectl("get jobs")
    await kubectl("delete job controller")
    await kubectl("wait --for=delete job/item-cherry --timeout=30s")


@pytest.mark.soak
async def test_commands_in_a_pod_see_its_volumes(kubectl: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(RUNNING)
    await kubectl("create configmap settings --from-literal=key=one")
    await kubectl(f"apply -f {tmp_path}/pod.yaml")
    await kubectl("wait --for=condition=Ready pod/p --timeout=30s")
    assert await kubectl("exec p -- cat /etc/settings/key") == "one"
    (tmp_path / "file").write_text("copied")
    await kubectl(f"cp {tmp_path}/file p:/kcr-work/file")
    assert await kubectl("exec p -- sh -c", "pwd; cat file") == "/kcr-work\ncopied"
    await kubectl("patch configmap settings -p", '{"data": {"key": "two"}}')

    async def is_updated() -> bool:
        return await kubectl("exec p -- cat /etc/settings/key") == "two"

    await eventually(is_updated)
