"""The real kubectl on old manifests, and on a node that is drained (batch-api §§1.1, 12.4)."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]

# As the walk-through of CronJobs had it.
HELLO = """\
apiVersion: batch/v1beta1
kind: CronJob
metadata: {name: hello}
spec:
  schedule: "*/1 * * * *"
  suspend: true
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: OnFailure
          containers: [{name: hello, image: busybox, args: ["/bin/sh", "-c", "date; echo Hello"]}]
"""


@pytest_asyncio.fixture
async def kubectl(serve: Serve, environment: Mapping[str, str]) -> AsyncIterator[Kubectl]:
    async with serve(runtime="process", legacy_apis=True, jobs=True) as path:
        yield Kubectl(path, environment)


@pytest.mark.soak
async def test_old_manifests_are_applied_with_a_warning(kubectl: Kubectl, tmp_path: Path) -> None:
    text = await kubectl("apply -f examples/selectors/v1beta1.yaml")
    assert "job.extensions/old-report created" in text
    assert "Warning: extensions/v1beta1 Job is served for old manifests only; use batch/v1 Job" in text
    await kubectl("wait --for=condition=complete job/old-report --timeout=60s")
    assert "job.batch/old-report" in await kubectl("get all")
    old = await kubectl("get jobs.v1beta1.extensions old-report -o jsonpath={.apiVersion},{.spec.autoSelector}")
    assert old.endswith("extensions/v1beta1,true")
    new = await kubectl("get job old-report -o jsonpath={.apiVersion},{.spec.manualSelector}")
    assert new == "batch/v1,false"
    assert "patched" in await kubectl("patch jobs.extensions old-report --type=merge -p", '{"spec":{"parallelism":2}}')

    manifest = tmp_path / "hello.yaml"
    manifest.write_text(HELLO, encoding="utf-8")
    text = await kubectl(f"apply -f {manifest}")
    assert "cronjob.batch/hello created" in text
    assert "Warning: batch/v1beta1 CronJob is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob" in text
    assert "cronjob.batch/hello unchanged" in await kubectl(f"apply -f {manifest}")
    assert await kubectl("get cj hello -o jsonpath={.apiVersion}") == "batch/v1"


@pytest.mark.soak
async def test_drained_node_evicts_the_pod_of_a_job(kubectl: Kubectl) -> None:
    await kubectl("create job long --image=busybox -- sleep 1000")
    await kubectl("wait --for=jsonpath={.status.ready}=1 job/long --timeout=60s")
    text = await kubectl("drain kcr-node-0 --grace-period=1 --timeout=60s")
    assert "node/kcr-node-0 drained" in text
    assert await kubectl("get pods -o name") == ""
    await kubectl("wait --for=jsonpath={.status.failed}=1 job/long --timeout=60s")
