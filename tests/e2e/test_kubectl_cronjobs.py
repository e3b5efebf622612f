"""The real kubectl on CronJobs. Whether a run comes is not the matter here: no controller is running."""

import re
from collections.abc import AsyncIterator, Mapping

import pytest
import pytest_asyncio

from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.e2e.processes import Serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]


@pytest_asyncio.fixture
async def kubectl(serve: Serve, environment: Mapping[str, str]) -> AsyncIterator[Kubectl]:
    async with serve() as path:
        yield Kubectl(path, environment)


def table(text: str) -> list[list[str]]:
    """The cells of a printed table; columns are three blanks apart."""
    return [re.split(r" {3,}", line.strip()) for line in text.splitlines()]


async def create(kubectl: Kubectl, name: str = "hello") -> None:
    created = await kubectl(
        f"create cronjob {name} --image=busybox --restart=Never", "--schedule=*/5 * * * *", "--", "sh", "-c", "date"
    )
    assert created == f"cronjob.batch/{name} created\n"


@pytest.mark.soak
async def test_cron_job_is_created_shown_and_suspended(kubectl: Kubectl) -> None:
    await create(kubectl)
    heads, (name, *cells, age) = table(await kubectl("get cronjobs"))
    assert heads == ["NAME", "SCHEDULE", "TIMEZONE", "SUSPEND", "ACTIVE", "LAST SCHEDULE", "AGE"]
    assert [name, *cells] == ["hello", "*/5 * * * *", "<none>", "False", "0", "<none>"]
    assert re.fullmatch(r"\d+s", age)
    heads, (*_, containers, images, selector) = table(await kubectl("get cj -o wide"))
    assert heads[-3:] == ["CONTAINERS", "IMAGES", "SELECTOR"]
    assert (containers, images, selector) == ("hello", "busybox", "<none>")
    assert "cronjob.batch/hello" in await kubectl("get all")
    patch = '{"spec":{"suspend":true,"timeZone":"Asia/Tokyo"}}'
    assert await kubectl("patch cronjob hello -p", patch) == "cronjob.batch/hello patched\n"
    assert table(await kubectl("get cj hello"))[1][1:4] == ["*/5 * * * *", "Asia/Tokyo", "True"]


@pytest.mark.soak
async def test_describe_tells_what_a_cron_job_does(kubectl: Kubectl) -> None:
    await create(kubectl)
    lines = dict(
        re.split(r": +", line, maxsplit=1)
        for line in (await kubectl("describe cronjob hello")).splitlines()
        if re.match(r"\S.*: +\S", line)
    )
    assert lines["Schedule"] == "*/5 * * * *"
    assert lines["Concurrency Policy"] == "Allow"
    assert lines["Successful Job History Limit"] == "3"
    assert lines["Starting Deadline Seconds"] == "<unset>"
    assert (lines["Last Schedule Time"], lines["Active Jobs"], lines["Events"]) == ("<unset>", "<none>", "<none>")
