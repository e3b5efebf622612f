"""The web page of the debug port, in a real browser."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from kcr.testing import eventually
from tests.e2e.processes import Start
from tests.kit.debug_clusters import (
    cluster_overview,
    deployment_overview,
    job_overview,
    job_pods,
    pod_overview,
    warning_overview,
)
from tests.kit.debug_metrics import Waves
from tests.kit.debug_pages import showing
from tests.kit.debug_states import (
    controller_state,
    debug_state,
    in_trouble,
    informer_state,
    key_detail,
    key_state,
    loop_state,
    process_state,
    run_state,
)
from tests.kit.environment import setting
from tests.kit.page_faults import FAULTS
from tools.browser import find_chromium
from tools.devtools import Browser, Tab, browsing

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        find_chromium(setting("KCR_CHROMIUM")) is None,
        reason="no Chromium: run `python -m tools.browser`, or set KCR_CHROMIUM",
    ),
]

# What a browser writes when the path that only `kcr dev` serves is not there.
ABSENT = "Failed to load resource: the server responded with a status of 404"
HOSTILE = '<script>window.hacked = 1</script><img src="http://evil.example/x" onerror="window.hacked = 1">'


@pytest_asyncio.fixture
async def browser() -> AsyncIterator[Browser]:
    found = find_chromium(setting("KCR_CHROMIUM"))
    assert found is not None, "otherwise skipped"
    async with browsing(found) as running:
        yield running


def assert_calm(tab: Tab, url: str) -> None:
    """Assert that the page asked its own server alone, and that the browser had nothing to complain of."""
    origin = url.removesuffix("/debug/kcr")
    assert [asked for asked in tab.requested if not asked.startswith((origin, "data:"))] == []
    assert [text for text in tab.complaints if not text.startswith(ABSENT)] == []


async def rows_of(tab: Tab) -> list[str]:
    """Return the first column of the keys that the page lists."""
    found: list[str] = await tab.evaluate(
        "[...document.querySelectorAll('tbody td:first-child .link')].map((each) => each.textContent)"
    )
    return found


@pytest.mark.soak
async def test_thousand_keys_in_trouble_are_seen_at_a_glance(browser: Browser) -> None:
    async with showing(in_trouble()) as (process, _), browser.open(process.url) as tab:
        await tab.wait_for("1,000 keys")
        top, card = await tab.text("header"), await tab.text("[aria-label='Controller job']")
        assert "700 keys failing" in top
        assert "leads, renewed 1.1 s ago" in top
        assert "Informer pods: watch pods: 403 Forbidden" in top
        for text in (
            "10 of 10", "280\noldest 41 s · 220 at 0, 60 at -100", "520", "exceeded quota: compute", "140",
            "transport.py:148 send < actions.py:212 create_pods < reconciler.py:88 reconcile",
            "pods: version 918273, the store has 918102", "backoff 600", "Last reconciles", "Slowest",
        ):  # fmt: skip
            assert text in card
        # The controller in trouble comes first, and of its keys the first of the server's order.
        assert (await rows_of(tab))[:2] == ["render/frame-0000", "render/frame-0001"]
        assert len(await rows_of(tab)) == 50
        await tab.click(".more .link")
        await eventually(lambda: _has_rows(tab, 250))
        later = process.state.process.now + timedelta(seconds=10)
        controllers = (msgspec.structs.replace(process.state.controllers[1], results={"error": 31_977}),)
        process.state = in_trouble(process=process_state(now=later), controllers=controllers)
        await tab.wait_for("10.0 /s")
        assert_calm(tab, process.url)


async def _has_rows(tab: Tab, count: int) -> bool:
    return len(await rows_of(tab)) == count


async def test_keys_are_filtered_and_sorted(browser: Browser) -> None:
    async with showing(in_trouble()) as (process, _), browser.open(process.url) as tab:
        await tab.wait_for("1,000 keys")
        await tab.press("/")
        await tab.type("not signed")
        await tab.wait_for("40 of 1,000 keys")
        assert (await rows_of(tab))[0] == "web/frame-0660"
        await tab.click("th button", "Retries")
        assert await tab.text("th[aria-sort=descending]") == "Retries ↓"
        assert (await rows_of(tab))[0] == "web/frame-0665"
        await tab.click(".chip", "deferred")
        await tab.wait_for("40 of 1,000 keys")
        assert (await rows_of(tab))[0].startswith("etl/merge-")


async def test_hostile_texts_are_inert(browser: Browser) -> None:
    key = key_state(f"default/{HOSTILE}", "backoff", error=HOSTILE, reasons=(HOSTILE,), waits_for=(HOSTILE,))
    controller = controller_state(name=HOSTILE, failing=1, keys=(key,), recent=(run_state(key.key, "error", HOSTILE),))
    state = debug_state(
        controller,
        process=process_state(not_ready=(HOSTILE,), command=HOSTILE),
        informers=(informer_state(HOSTILE, 1, last_error=HOSTILE),),
        loop=loop_state(blocked_at=HOSTILE),
    )
    async with showing(state) as (process, _):
        process.details = (msgspec.structs.replace(key_detail(key.key, HOSTILE), unconfirmed=(HOSTILE,)),)
        told: dict[str, Any] = {"why": HOSTILE, "warning": warning_overview(HOSTILE, HOSTILE, about=HOSTILE)}
        process.cluster = cluster_overview(
            jobs=(job_overview(HOSTILE, **told),), pods=(pod_overview(HOSTILE, reason=HOSTILE),),
            deployments=(deployment_overview(HOSTILE, **told),),
        )  # fmt: skip
        async with browser.open(process.url) as tab:
            await assert_shown_as_text(tab)


async def assert_shown_as_text(tab: Tab) -> None:
    await tab.wait_for("Other pods")
    # The name, the explanation, and the reason and message of the warning.
    assert (await tab.text("[aria-label=Jobs]")).count(HOSTILE) == 4
    assert (await tab.text("[aria-label=Deployments]")).count(HOSTILE) == 4
    await tab.click("nav button", "Controllers")
    await tab.wait_for(HOSTILE, "main")
    await tab.click(".link", HOSTILE)
    await tab.wait_for("Sent and not answered", "aside")
    assert (await tab.text("aside")).count(HOSTILE) >= 3
    assert await tab.evaluate("[window.hacked ?? 0, document.images.length, document.scripts.length]") == [0, 0, 1]
    # Neither would a script that got in run: the header forbids it.
    await tab.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {text: 'window.hacked = 1'}))"
    )
    assert await tab.evaluate("window.hacked ?? 0") == 0
    assert any("Content Security Policy" in text for text in tab.complaints)


@pytest.mark.soak
async def test_process_that_is_gone_is_said_to_be(browser: Browser) -> None:
    async with showing(in_trouble()) as (process, server), browser.open(process.url) as tab:
        await tab.wait_for("1,000 keys")
        await server.cleanup()
        await tab.wait_for("No answer", "header")
        assert "The process does not answer, since " in await tab.text(".alerts")
        assert await tab.evaluate("document.title") == "kcr run · no answer"
        assert "1,000 keys" in await tab.text("main.stale")


async def test_key_opens_its_detail_by_keyboard(browser: Browser) -> None:
    async with showing(in_trouble()) as (process, _), browser.open(f"{process.url}?token=secret") as tab:
        process.details = (key_detail("render/frame-0003"),)
        await tab.wait_for("1,000 keys")
        await tab.evaluate(
            "[...document.querySelectorAll('tbody .link')].find((each) => each.textContent.endsWith('0003')).focus()"
        )
        await tab.press("Enter")
        await tab.wait_for("waits 38s before it creates pods again", "aside")
        detail = await tab.text("aside")
        for text in (
            "it tries again (",
            "in 38 s",
            "the quota compute",
            "raise the quota",
            "create pods render/render-0003-0-x2k4f",
        ):
            assert text in detail
        assert "/debug/kcr/key?key=render%2Fframe-0003&controller=job&token=secret" in process.questions
        await tab.press("Escape")
        await eventually(lambda: _is_closed(tab))
        assert await tab.evaluate("document.activeElement.textContent") == "render/frame-0003"
        assert_calm(tab, process.url)


async def _is_closed(tab: Tab) -> bool:
    return not await tab.text("aside")


async def test_page_asks_for_nothing_while_hidden_or_paused(browser: Browser) -> None:
    async def is_quiet(tab: Tab) -> bool:
        asked = len(process.questions)
        await tab.evaluate("new Promise((done) => setTimeout(done, 1300))")
        return len(process.questions) == asked

    def hide(hidden: str) -> str:
        return f"""Object.defineProperty(document, 'hidden', {{value: {hidden}, configurable: true}});
                   document.dispatchEvent(new Event('visibilitychange'))"""

    async with showing(debug_state()) as (process, _), browser.open(process.url) as tab:
        # A second of the page passes in a tenth.
        await tab.evaluate("const real = window.setTimeout; window.setTimeout = (done, ms) => real(done, ms / 10)")
        await tab.wait_for("No key waits or has failed.")
        assert not await is_quiet(tab)
        await tab.evaluate(hide("true"))
        # A question may be on its way.
        await eventually(lambda: is_quiet(tab))
        assert await is_quiet(tab)
        await tab.evaluate(hide("false"))
        assert not await is_quiet(tab)
        await tab.press("p")
        await tab.wait_for("Resume", "#pause")
        await eventually(lambda: is_quiet(tab))
        assert await is_quiet(tab)


@pytest.mark.soak
async def test_jobs_of_kcr_dev_are_drawn_with_pods_and_logs(browser: Browser) -> None:
    async with showing(debug_state(process=process_state(command="kcr dev"))) as (process, _):
        process.cluster, process.job_pods = cluster_overview(), job_pods(left_out=160)
        process.log = "frame 1 rendered\nframe 2 rendered\n"
        async with browser.open(process.url) as tab:
            await tab.wait_for("2 running, 1 waiting, 1 suspended, 2 complete, 1 failed")
            jobs = await tab.text("[aria-label=Jobs]")
            assert "14 / 20" in jobs
            assert "7 pods failed · Failed: BackoffLimitExceeded: Job has reached" in jobs
            assert await tab.evaluate("document.querySelector('.stack .succeeded').style.width") == "70%"
            assert "in 2m51s" in await tab.text("[aria-label=CronJobs]")
            assert 'unknown time zone "Mars/Olympus"' in await tab.text("[aria-label=CronJobs]")
            assert (
                "waits for 1 pod that cannot be scheduled\nLast warning 4 s ago: FailedScheduling (x3): 0/1 nodes"
                in jobs
            )
            deployments = await tab.text("[aria-label=Deployments]")
            assert "web-5d9c-x8x2f\nCrashLoopBackOff\n4 restarts" in deployments
            assert "Last warning 4 s ago: BackOff (x5): Back-off restarting" in deployments
            others = await tab.text("[aria-label='Other pods']")
            assert "ImagePullBackOff" in others
            assert "web-" not in others
            await tab.click(".job", "render")
            await tab.wait_for("160 pods more not drawn")
            assert "creates no pod before one of them ends" in await tab.text(".explained")
            assert await tab.evaluate("document.querySelectorAll('.pod .failed').length") == 2
            assert await tab.evaluate("document.querySelectorAll('.pod').length") == 22
            await tab.click(".pod", "exit 137 · OOMKilled")
            await tab.wait_for("frame 2 rendered", "pre")
            process.log += "frame 3 rendered\n"
            await tab.wait_for("frame 3 rendered", "pre")
            await tab.click(".below", "web-5d9c-4jq2m")
            await tab.wait_for("Log of default/web-5d9c-4jq2m", "[aria-label=Deployments]")
            process.cluster = cluster_overview(jobs=())
            await tab.wait_for("There are no Jobs.", "[aria-label=Jobs]")
            assert any("logs?namespace=default&pod=render-6-f2x9q&tail=500" in asked for asked in process.questions)
            assert_calm(tab, process.url)


async def test_metrics_are_plotted_by_controller_and_read_by_keyboard(browser: Browser) -> None:
    waves = Waves()
    waves.pass_time(60)
    async with showing(debug_state()) as (process, _):
        process.cluster, process.metrics = cluster_overview(), waves.history
        async with browser.open(f"{process.url}#view=metrics") as tab:
            await tab.wait_for("website_renders_total", "[aria-label='Your metrics']")
            own = await tab.text("[aria-label='Your metrics']")
            assert "Pages that are served" in own
            assert re.search(r"rendered\n[\d.]+ /s", own)
            assert re.search(r"p50\n\d+ ms\np90\n\d+ ms\np99\n\d+ ms", own)
            controllers = await tab.text("[aria-label=Controllers]")
            assert "controller_runtime_reconcile_time_seconds · p99 by controller" in controllers
            assert re.search(r"Queue depth\n.*\njob\n\d+\nwebsite\n\d+", controllers, re.DOTALL)
            assert "PATCH 200" in await tab.text("[aria-label=Requests]")
            assert await tab.evaluate("document.querySelectorAll('[aria-label=Process] path').length") >= 3
            # Only what is new is asked for, and the plot goes on.
            waves.pass_time(1)
            await eventually(lambda: _has_moments(tab, 61))
            assert any(f"metrics?since={waves.history.since(0).times[-2]:.15g}" in asked for asked in process.questions)
            await tab.click(".chip", "website")
            await tab.wait_for("p50", "[aria-label=Controllers]")
            assert "job" not in (await tab.text("[aria-label=Controllers]")).split()
            await tab.evaluate("document.querySelector('[role=slider][aria-label=website_pages]').focus()")
            await tab.press("Home")
            await eventually(lambda: _reads(tab, "website_pages", r"\d\d:\d\d:\d\d: value 120"))
            await tab.press("Escape")
            await eventually(lambda: _reads(tab, "website_pages", "value 135"))
            await tab.press("Tab")
            await tab.press("/")
            await tab.type("paused_objects")
            await tab.wait_for("kcr_paused_objects", "[aria-label=Found]")
            assert_calm(tab, process.url)


async def _has_moments(tab: Tab, count: int) -> bool:
    most = await tab.evaluate("Number(document.querySelector('[role=slider]').getAttribute('aria-valuemax'))")
    return bool(most + 1 == count)


async def _reads(tab: Tab, plot: str, expected: str) -> bool:
    """Return whether a screen reader reads a value of a plot."""
    element = f"document.querySelector('[role=slider][aria-label={plot}]')"
    return bool(re.fullmatch(expected, await tab.evaluate(f"{element}.getAttribute('aria-valuetext')")))


@pytest.mark.soak
async def test_each_tab_fits_a_phone_and_a_desk_and_is_read_in_light_and_dark(browser: Browser) -> None:
    waves, found = Waves(), []
    waves.pass_time(30)
    async with showing(in_trouble()) as (process, _):
        process.cluster, process.job_pods, process.metrics = cluster_overview(), job_pods(), waves.history
        for view, text in {"jobs": "CronJobs", "metrics": "more metrics", "controllers": "Informers"}.items():
            for width, dark in ((390, False), (390, True), (1300, False), (1300, True)):
                address = f"{process.url}#view={view}&job=default/render"
                async with browser.open(address, width=width, dark=dark) as tab:
                    await tab.wait_for(text, "main")
                    found += [f"{view} at {width}: {fault}" for fault in await tab.evaluate(FAULTS)]
    assert not found


async def test_page_of_a_real_process_shows_its_jobs_and_keys(browser: Browser, kcr: Start) -> None:
    async with kcr("dev", "-f", "examples/hello-cron.yaml", "-f", "examples/pi-python.yaml") as dev:
        await eventually(lambda: "job pi: Complete" in dev.err)
        (address,) = re.findall(r"^  page (\S+)$", dev.err, re.MULTILINE)
        async with browser.open(address) as tab:
            await tab.wait_for("1 / 1", "[aria-label=Jobs]")
            assert "in " in await tab.text("[aria-label=CronJobs] tbody")
            await tab.click(".job", "pi")
            await tab.wait_for("Choose a pod to see its log.")
            await tab.click(".pod")
            await tab.wait_for("3.14", "pre")
            await tab.click("nav button", "Metrics")
            await tab.wait_for("POST 201", "[aria-label=Requests]")
            await tab.wait_for("jobs", "[aria-label=Caches]")
            await tab.click("nav button", "Controllers")
            await tab.wait_for("jobs.batch", "[aria-label=Informers]")
            await tab.click(".link", "default/pi")
            await tab.wait_for("Last reconciles", "aside")
            assert "Controller job" in await tab.text("aside")
            assert_calm(tab, address.partition("?")[0])
