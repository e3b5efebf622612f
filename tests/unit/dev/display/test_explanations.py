"""Which objects are explained for the page, and how often."""

import asyncio

import pytest
from msgspec.structs import replace

from kcr.api.apps import Deployment
from kcr.api.batch import Job, JobStatus
from kcr.api.explanation import Code, Explanation
from kcr.api.meta import Condition, Key, Resource
from kcr.errors import NotFoundError
from kcr.testing import FakeManager, VirtualClock, build
from kcr_devcluster.dev.display.explanations import BUDGET_SECONDS, Explanations

pytestmark = pytest.mark.kcr_virtual


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
        return Explanation(Code.WAITING, f"{key.name} waits")


def jobs(count: int) -> list[Job]:
    return [build.job(f"job-{number}") for number in range(count)]


async def test_object_is_explained_once_in_two_seconds(kcr_clock: VirtualClock) -> None:
    explainer = Explainer()
    explanations = Explanations(FakeManager().client, explainer.explain)
    found = [*jobs(1), build.job("gone")]
    for _ in range(2):
        await explanations.refresh(found, None)
    assert explainer.asked == ["Job job-0", "Job gone"]
    assert explanations.last.explanations == {"uid-job-0": Explanation(Code.WAITING, "job-0 waits")}
    await kcr_clock.advance(2)
    await explanations.refresh(found, None)
    assert len(explainer.asked) == 4
    await explanations.refresh([], None)
    assert explanations.last.explanations == {}


async def test_job_that_is_shown_in_full_is_explained_as_rarely(kcr_clock: VirtualClock) -> None:
    explainer = Explainer()
    explanations = Explanations(FakeManager().client, explainer.explain)
    fine = replace(build.job("fine"), status=JobStatus(active=1, ready=1))
    # The page asks for all, and for the one.
    for asked in (None, fine.key, None, fine.key):
        await explanations.refresh([fine], asked)
    assert explainer.asked == ["Job fine"]


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
    ended = replace(build.job("ended"), status=JobStatus(conditions=(Condition(type="Complete", status="True"),)))
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
