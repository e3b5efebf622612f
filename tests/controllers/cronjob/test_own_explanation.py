"""What the CronJob controller says of a CronJob itself: from its own store and memory."""

from zoneinfo import ZoneInfo

import pytest

from kcr.api.batch import CronJob, Job
from kcr.api.meta import Key
from kcr.cli.objects.look import look
from kcr.cli.target import ObjectName
from kcr.errors import ServerError
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.cronjob_harness import at, create, cronjob_controller, manifest, names_of, until
from tests.kit.explanations import EXPLAINERS
from tests.kit.open_manager import explanation_of

pytestmark = pytest.mark.kcr_virtual

HELLO = Key("default", "hello")


async def test_explanation_names_the_zone_of_the_controller(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(server.client, manifest(schedule="0 12 * * *"))
    async with cronjob_controller(server, kcr_clock, cronjob_time_zone=ZoneInfo("Europe/Berlin")) as manager:
        await until(kcr_clock, at("09:59:30"))
        inside = await explanation_of(manager, "cronjob", HELLO)
        outside = await look(server.client, ObjectName(CronJob, "hello"), HELLO, kcr_clock.now(), EXPLAINERS)
    zone = "schedule '0 12 * * *' in Europe/Berlin, the zone of its controller, concurrencyPolicy Allow"
    assert (inside.headline, inside.wanted) == ("runs next in 30s, at 2026-06-01 12:00 Europe/Berlin", zone)
    # From outside the zone is not known.
    assert outside.explanation.headline == "runs next in 120m, at 2026-06-01 12:00 UTC"


async def test_start_without_an_answer_is_named(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    await create(server.client, manifest())
    faults = FaultyTransport(server.transport)
    faults.on("create", Job, nth=1).lose_reply("cut")
    async with cronjob_controller(server, kcr_clock, transport=faults) as manager:
        faults.on("get", Job).fail(ServerError(500, "InternalError", "no"))
        await until(kcr_clock, at("10:00:01"))
        found = await explanation_of(manager, "cronjob", HELLO)
        (name,) = await names_of(server.client)
        assert (
            found.reasons[-1] == f"the create of Job {name} had no answer: it is looked up before anything is decided"
        )
        faults.heal()
        await until(kcr_clock, at("10:00:50"))
        found = await explanation_of(manager, "cronjob", HELLO)
    assert (found.headline, found.present[:14]) == (
        "runs next in 10s, at 2026-06-01 10:01 UTC", "1 running Job:",
    )  # fmt: skip


async def test_absent_cronjob_is_not_in_the_store(server: EmbeddedCluster, kcr_clock: VirtualClock) -> None:
    async with cronjob_controller(server, kcr_clock) as manager:
        found = await explanation_of(manager, "cronjob", HELLO)
    assert found.headline == "is not in the store of this controller"
