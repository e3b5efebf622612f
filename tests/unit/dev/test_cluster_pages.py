"""`/debug/kcr/cluster` and `/debug/kcr/logs`: their parameters and answers."""

import asyncio
from datetime import UTC
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from kcr.api.batch import CronJob, Job
from kcr.api.core import Pod
from kcr.api.explanation import Code, Explanation
from kcr.api.meta import Key, Resource
from kcr.serving.ports import ProbeRequest, ProbeResponse
from kcr.testing import FakeManager, build
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.dev.cluster_pages import LOG_BYTES, ClusterPages
from kcr_devcluster.dev.cluster_state import ClusterOverview
from kcr_devcluster.dev.display.explanations import Explanations
from kcr_devcluster.dev.metric_history import STEP_SECONDS, MetricsOverview

pytestmark = pytest.mark.kcr_virtual

PI = build.job("pi")
LOG = b"one\ntwo\nthree"


def read_log(pod: Key, container: str, limit: int) -> bytes:
    if pod != Key("default", "pi-x"):
        raise StatusError(404, "NotFound", f'pods "{pod.name}" not found')
    assert (container, limit) == ("main", LOG_BYTES)
    return LOG


async def explain(kind: type[Resource], key: Key) -> Explanation:
    return Explanation(Code.WAITING, f"{kind.resource.kind} {key.name} waits")


@pytest.fixture
def manager() -> FakeManager:
    manager = FakeManager()
    manager.informer(Job).add(PI)
    manager.informer(CronJob).add(CronJob(metadata=build.metadata("nightly")))
    manager.informer(Pod).add(build.pod("pi-x", owner=PI))
    manager.informer(Pod).add(build.pod("bare"))
    return manager


async def ask(manager: FakeManager, path: str, **query: Any) -> ProbeResponse:
    path = f"/debug/kcr/{path}"
    pages = ClusterPages(manager, UTC, read_log, Explanations(manager.client, explain), CollectorRegistry())
    return await pages.routes[path](ProbeRequest(path, {name: [value] for name, value in query.items()}))


@pytest.mark.parametrize(
    ("job", "pods"),
    [
        pytest.param("", ["bare"], id="no-job"),
        pytest.param("default/pi", ["pi-x"], id="of-a-job"),
        pytest.param("pi", ["pi-x"], id="of-the-default-namespace"),
    ],
)
async def test_cluster_is_json_with_the_pods_asked_for(manager: FakeManager, job: str, pods: list[str]) -> None:
    answer = await ask(manager, "cluster", job=job)
    assert (answer.status, answer.content_type) == (200, "application/json")
    shown = msgspec.json.decode(answer.body, type=ClusterOverview)
    assert [(one.name, one.why) for one in shown.jobs] == [("pi", "Job pi waits")]
    assert (shown.explanation is not None) is bool(job)
    assert [one.name for one in shown.cron_jobs] == ["nightly"]
    assert [one.name for one in shown.pods] == pods


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        pytest.param("", LOG, id="whole"),
        pytest.param("9", LOG, id="more-than-there-is"),
        pytest.param("2", b"two\nthree", id="two"),
        pytest.param("0", b"", id="none"),
    ],
)
async def test_log_is_text_with_the_lines_asked_for(manager: FakeManager, tail: str, expected: bytes) -> None:
    answer = await ask(manager, "logs", namespace="default", pod="pi-x", container="main", tail=tail)
    assert (answer.status, answer.body, answer.content_type) == (200, expected, "text/plain; charset=utf-8")


@pytest.mark.parametrize(
    ("path", "query", "status", "line"),
    [
        pytest.param("cluster", {"job": "a/b/c"}, 400, "'a/b/c' is not a Job: write job=NAMESPACE/NAME", id="no-key"),
        pytest.param("logs", {"pod": "gone"}, 404, 'pods "gone" not found', id="no-such-pod"),
        pytest.param("logs", {}, 400, "no pod is named: write namespace=NAMESPACE&pod=NAME", id="no-pod"),
        pytest.param(
            "logs", {"pod": "pi-x", "tail": "-1"}, 400, "'-1' is not a number of lines: write tail=100", id="tail"
        ),
        *(
            pytest.param(
                "metrics",
                {"since": since},
                400,
                f"'{since}' is not a moment: write since=SECONDS, as in the last answer's times",
                id=f"since-{since}",
            )
            for since in ("now", "nan", "-inf")
        ),
    ],
)
async def test_refusal_is_one_line(
    manager: FakeManager, path: str, query: dict[str, str], status: int, line: str
) -> None:
    assert await ask(manager, path, **query) == ProbeResponse(status, f"{line}\n".encode())


async def test_metrics_are_sampled_while_the_manager_runs(manager: FakeManager) -> None:
    pages = ClusterPages(manager, UTC, read_log, Explanations(manager.client, explain), CollectorRegistry())

    async def times(**query: list[str]) -> list[float]:
        answer = await pages.routes["/debug/kcr/metrics"](ProbeRequest("/debug/kcr/metrics", query))
        return msgspec.json.decode(answer.body, type=MetricsOverview).times

    async with asyncio.TaskGroup() as group:
        running = group.create_task(manager.run())
        await manager.wait_ready()
        await asyncio.sleep(10 * STEP_SECONDS)
        all_times = await times()
        assert len(all_times) >= 10
        assert await times(since=[repr(all_times[-3])]) == all_times[-2:]
        running.cancel()
