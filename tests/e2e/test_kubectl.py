"""The real kubectl: the README's tour on `kcr dev`, and what it shows of Jobs and pods."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import ROOT, Serve, Start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]


@pytest_asyncio.fixture
async def kubectl(serve: Serve, environment: Mapping[str, str]) -> AsyncIterator[Kubectl]:
    async with serve(runtime="process", jobs=True) as path:
        yield Kubectl(path, environment)


async def test_tour_of_the_readme_works(kcr: Start, environment: Mapping[str, str]) -> None:
    async with kcr("dev") as dev:
        await tour(Kubectl(await dev.kubeconfig(), environment))


async def tour(kubectl: Kubectl) -> None:
    assert await kubectl("apply -f examples/pi-python.yaml") == "job.batch/pi created\n"
    assert await kubectl("wait --for=condition=complete job/pi --timeout=60s") == "job.batch/pi condition met\n"
    listed = await kubectl("get jobs,pods -o wide")
    assert "job.batch/pi" in listed
    assert "Complete" in listed
    assert "1/1" in listed
    assert "kcr-node-0" in listed
    assert "Completed" in listed
    assert (await kubectl("logs job/pi")).startswith("3.14159265358979")
    assert await kubectl("apply -f examples/pi-python.yaml") == "job.batch/pi unchanged\n"
    assert (await kubectl("delete job pi")).startswith('job.batch "pi" deleted')  # from 1.34 on with its namespace
    await kubectl("wait --for=delete pod --selector=batch.kubernetes.io/job-name=pi --timeout=60s")
    assert (await kubectl("get pods")).startswith("No resources found")


async def test_describe_tells_a_jobs_story(kubectl: Kubectl) -> None:
    await kubectl("create -f examples/hello-job.yaml")
    await kubectl("wait --for=condition=complete job/job-example --timeout=60s")
    # The last event may come a moment after the condition.
    while "Job completed" not in (text := await kubectl("describe job job-example")):
        pass
    assert "Pods Statuses:    0 Active (0 Ready) / 1 Succeeded / 0 Failed" in text
    assert "Created pod: job-example-" in text


@pytest.mark.soak
async def test_pods_selected_by_job_name_are_named(kubectl: Kubectl) -> None:
    await kubectl("create -f examples/hello-job.yaml")
    await kubectl("wait --for=condition=complete job/job-example --timeout=60s")
    selected = "--selector=batch.kubernetes.io/job-name=job-example"
    name = await kubectl(f"get pods {selected} --output=jsonpath={{.items[*].metadata.name}}")
    assert name.startswith("job-example-")
    assert await kubectl(f"logs {name}") == "Hello world!\n"
    assert "Started container main" in await kubectl(f"describe pod {name}")


async def test_invalid_job_is_refused_by_field(kubectl: Kubectl, tmp_path: Path) -> None:
    invalid = tmp_path / "invalid.yaml"
    text = (ROOT / "examples/pi.yaml").read_text(encoding="utf-8").replace("Never", "Always")
    invalid.write_text(text, encoding="utf-8")
    refused = await kubectl(f"create -f {invalid}", code=1)
    assert 'The Job "pi" is invalid: spec.template.spec.restartPolicy' in refused


async def test_watch_shows_each_step_of_a_pod(kubectl: Kubectl) -> None:
    await kubectl("create -f examples/hello-job.yaml")
    process = await kubectl.start("get pods -w")
    assert process.stdout is not None
    steps: list[str] = []
    try:
        while b"job-example-" not in await process.stdout.readline():
            pass
        # The watch is on, or follows from the list just printed: nothing of this Job is missed.
        await kubectl("create -f examples/pi-python.yaml")
        while "Completed" not in steps:
            name, _, status, *_ = (await process.stdout.readline()).decode().split()
            if name.startswith("pi-") and status not in steps:
                steps.append(status)
    finally:
        process.kill()
        await process.wait()
    assert steps == ["Pending", "ContainerCreating", "Running", "Completed"]


async def test_token_of_a_service_account_signs_in(kubectl: Kubectl) -> None:
    assert "serviceaccount/builder created" in await kubectl("create serviceaccount builder")
    token = (await kubectl("create token builder --duration=20m")).strip()
    # In this kubeconfig the user has a token already; the one of the command line goes before it.
    shown = await kubectl(f"auth whoami --token={token} --output=jsonpath={{.status.userInfo.username}}")
    assert shown == "system:serviceaccount:default:builder"
    assert "Unauthorized" in await kubectl(f"auth whoami --token={token}x", code=1)
