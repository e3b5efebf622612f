"""Which objects are explained for the page, and how often."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from kcr.api.apps import Deployment
from kcr.api.batch import Job, JobStatus
from kcr.api.explanation import Explanation
from kcr.api.meta import Condition, Key, Resource
from kcr.cli.display.explanations import BUDGET_SECONDS, Explanations, is_in_question
from kcr.errors import NotFoundError
from kcr.testing import FakeManager, VirtualClock, build

pytestmark = pytest.mark.kcr_virtual


def with_condition(kind: str, **fields: Any) -> JobStatus:
    return JobStatus(conditions=(Condition(type=kind, status="True"),), **fields)


@pytest.mark.parametrize(
    ("status", "fields", "expected"),
    [
        pytest.param(JobStatus(), {}, True, id="no-pods"),
        pytest.param(JobStatus(active=2, ready=1), {"parallelism": 2, "completions": 2}, True, id="one-not-ready"),
        pytest.param(JobStatus(active=2, ready=2), {"parallelism": 5, "completions": 5}, True, id="some-refused"),
        pytest.param(JobStatus(active=2, ready=2), {"parallelism": 2, "completions": 9}, False, id="all-run"),
        pytest.param(JobStatus(active=1, ready=1, succeeded=8), {"parallelism": 2, "completions": 9}, False, id="last"),
        pytest.param(JobStatus(), {"managed_by": "example.com/q"}, True, id="managed-by-another"),
        pytest.param(with_condition("Suspended"), {}, False, id="suspended"),
        pytest.param(with_condition("Complete", succeeded=1), {}, False, id="complete"),
        pytest.param(with_condition("Failed", failed=1), {}, False, id="failed"),
    ],
)
def test_only_what_the_status_leaves_open_is_in_question(
    status: JobStatus, fields: dict[str, Any], expected: bool
) -> None:
    assert is_in_question(replace(build.job("pi", **fields), status=status)) is expected


class Explainer:
    """Explains, and takes some time for it."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.asked: list[str] = []
        self._seconds = seconds

    async def explain(self, kind: type[Resource], key: Key) -> Explanation:
        self.asked.append(f"{kind.resource.kind} {key.name}")
        await asyncio.sleep(self._seconds)
        if key.name == "gone":
            raise NotFoundError(404, "NotFound", "gone")
        return Explanation(headline=f"{key.name} waits")


def jobs(count: int) -> list[Job]:
    return [build.job(f"job-{number}") for number in range(count)]


async def test_object_is_explained_once_in_two_seconds(kcr_clock: VirtualClock) -> None:
    explainer = Explainer()
    explanations = Explanations(FakeManager().client, explainer.explain)
    found = [*jobs(1), build.job("gone")]
    for _ in range(2):
        await explanations.refresh(found, None)
    assert explainer.asked == ["Job job-0", "Job gone"]
    assert explanations.last.explanations == {"uid-job-0": Explanation(headline="job-0 waits")}
    await kcr_clock.advance(2)
    await explanations.refresh(found, None)
    assert len(explainer.asked) == 4
    await explanations.refresh([], None)
    assert explanations.last.explanations == {}


async def test_many_objects_are_explained_by_turns(kcr_clock: VirtualClock) -> None:
    explainer = Explainer(seconds=BUDGET_SECONDS / 5)
    explanations = Explanations(FakeManager().client, explainer.explain)
    for _ in range(2):
        await explanations.refresh(jobs(10), None)
    assert explainer.asked == [f"Job job-{number}" for number in range(10)]
    assert len(explanations.last.explanations) == 10


async def test_object_that_takes_long_is_explained_less_often(kcr_clock: VirtualClock) -> None:
    explainer = Explainer(seconds=0.2)
    explanations = Explanations(FakeManager().client, explainer.explain)
    for seconds in (0, 5, 4, 2):
        await kcr_clock.advance(seconds)
        await explanations.refresh(jobs(1), None)
    # At 0 s, and at 11 s: not before ten seconds have passed.
    assert len(explainer.asked) == 2


async def test_job_that_is_shown_in_full_goes_first(kcr_clock: VirtualClock) -> None:
    explainer = Explainer(seconds=BUDGET_SECONDS)
    explanations = Explanations(FakeManager().client, explainer.explain)
    ended = replace(build.job("ended"), status=with_condition("Complete"))
    await explanations.refresh([*jobs(3), ended], ended.key)
    assert explainer.asked == ["Job ended"]


async def test_deployments_that_are_not_available_are_explained() -> None:
    manager, explainer = FakeManager(), Explainer()
    explanations = Explanations(manager.client, explainer.explain)
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "busybox"}]}}
    manifest = {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    await manager.client.create_manifest(Deployment, manifest, "default")
    await explanations.refresh([], None)
    assert explainer.asked == ["Deployment web"]
    assert [type(one) for one in explanations.last.deployments] == [Deployment]
