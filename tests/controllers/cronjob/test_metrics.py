"""When CronJobs run next, and which runs they have missed."""

from typing import Any

import msgspec
import pytest

from kcr.api.batch import CronJob
from kcr.api.meta import Key
from kcr.manager import Manager
from kcr.testing import VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import TEN, at, change, complete, create, cronjob_controller, manifest, names_of, until

pytestmark = pytest.mark.kcr_virtual

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
QUOTA = {
    "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"count/jobs.batch": "0"}},
}  # fmt: skip


def next_run(manager: Manager, name: str = "hello") -> float | None:
    labels = {"namespace": "default", "cronjob": name}
    return manager.metrics.registry.get_sample_value("kcr_cronjob_next_schedule_seconds", labels)


def missed(manager: Manager) -> dict[str, float]:
    """The missed runs by cause, of causes that were counted."""
    families = [metric for metric in manager.metrics.registry.collect() if metric.name == "kcr_cronjob_missed"]
    return {one.labels["cause"]: one.value for metric in families for one in metric.samples if one.value}


async def test_next_run_follows_the_one_that_was_started(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(server.client, manifest())
    async with cronjob_controller(server, kcr_clock) as manager:
        await until(kcr_clock, at("09:59:30"))
        assert next_run(manager) == TEN.timestamp()
        await until(kcr_clock, at("10:00:30"))
        assert next_run(manager) == at("10:01:00").timestamp()
        await change(server.client, suspend=True)
        await kcr_clock.advance(1)
        assert next_run(manager) is None
        assert missed(manager) == {}


async def test_pass_for_a_notice_is_no_run(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    # The clocks of Berlin change on 25 October.
    cron = manifest(schedule="0 12 1 12 *", timeZone="Europe/Berlin")
    cron["metadata"]["annotations"] = {"kcr.dev/clock-change-notice": "168h"}
    await create(server.client, cron)
    async with cronjob_controller(server, kcr_clock) as manager:
        await kcr_clock.advance(1)
        assert next_run(manager) == at("11:00:00", "2026-12-01").timestamp()


async def test_run_that_is_refused_stays_due_and_is_missed(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await server.client.request("POST", QUOTAS, msgspec.json.encode(QUOTA))
    await create(server.client, manifest())
    async with cronjob_controller(server, kcr_clock) as manager:
        await until(kcr_clock, at("10:00:30"))
        assert (next_run(manager), missed(manager)) == (TEN.timestamp(), {})
        await until(kcr_clock, at("10:02:30"))
        assert (next_run(manager), missed(manager)) == (at("10:02:00").timestamp(), {"not_created": 2})
        await server.client.request("DELETE", f"{QUOTAS}/q")
        await until(kcr_clock, at("10:03:30"))
        assert next_run(manager) == at("10:04:00").timestamp()
        assert len(await names_of(server.client)) in (1, 2)


async def test_runs_that_an_active_one_forbids_are_missed(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(server.client, manifest(concurrencyPolicy="Forbid"))
    async with cronjob_controller(server, kcr_clock) as manager:
        await until(kcr_clock, at("10:03:30"))
        # 10:03 is due still, until 10:04 is.
        assert missed(manager) == {"forbid": 2}
        (name,) = await names_of(server.client)
        await complete(server.client, name, at("10:03:40"))
        await until(kcr_clock, at("10:04:30"))
        # It was started late, which is not missed.
        assert missed(manager) == {"forbid": 2}
        assert await names_of(server.client) == ["hello-29671800", "hello-29671803"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        # 10:05 is started.
        pytest.param({}, {"not_running": 5}, id="without-deadline"),
        pytest.param({"startingDeadlineSeconds": 10}, {"deadline": 6}, id="deadline-over"),
        pytest.param({"suspend": True}, {}, id="suspended"),
    ],
)
async def test_runs_without_a_controller_are_missed(
    server: EmbeddedCluster, kcr_clock: VirtualClock, spec: dict[str, Any], expected: dict[str, int]
) -> None:
    await create(server.client, manifest(**spec))
    await until(kcr_clock, at("10:05:30"))
    async with cronjob_controller(server, kcr_clock) as manager:
        await kcr_clock.advance(15)
        assert missed(manager) == expected
        await change(server.client, suspend=False)
        await kcr_clock.advance(5)
        assert missed(manager) == expected


async def test_bound_keeps_the_runs_that_come_first(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(server.client, manifest("late", "0 12 * * *"))
    await create(server.client, manifest("soon", "0 11 * * *"))
    async with cronjob_controller(server, kcr_clock, max_metric_cronjobs=1) as manager:
        await kcr_clock.advance(1)
        assert (next_run(manager, "soon"), next_run(manager, "late")) == (at("11:00:00").timestamp(), None)
        await server.client.delete(CronJob, Key("default", "soon"))
        await kcr_clock.advance(1)
        assert (next_run(manager, "soon"), next_run(manager, "late")) == (None, at("12:00:00").timestamp())
