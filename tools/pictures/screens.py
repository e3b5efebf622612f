"""Screenshots of the web page, as WebP: what the tests of the page show, in a headless Chromium.

Browsers draw letters differently, so a picture is not compared with a new one. `SCREENS` names what it shows, and its
hash is kept beside the pictures: a picture is stale once one of these files has changed.
"""

import asyncio
import base64
import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from kcr.serving.debug.state import ControllerState, DebugState
from tests.kit.debug_clusters import cluster_overview, job_pods
from tests.kit.debug_metrics import Waves
from tests.kit.debug_pages import ShownProcess, showing
from tests.kit.debug_states import debug_state, in_trouble, process_state
from tools.browser import find_chromium
from tools.devtools import Browser, browsing

ROOT = Path(__file__).parents[2]
_PAGE = ("kcr/serving/debug/page.html", "tests/kit/debug_states.py", "tools/pictures/screens.py")
_DEV = (*_PAGE, "devcluster/kcr_devcluster/dev/cluster_page.css", "devcluster/kcr_devcluster/dev/cluster_page.js")
# The files that each picture shows.
SCREENS: Mapping[str, Sequence[str]] = {
    "page": _PAGE,
    "page-dev": (*_DEV, "tests/kit/debug_clusters.py"),
    "page-metrics": (
        *_DEV, "devcluster/kcr_devcluster/dev/metrics_page.css", "devcluster/kcr_devcluster/dev/metrics_page.js",
        "devcluster/kcr_devcluster/dev/metric_history.py", "tests/kit/debug_metrics.py",
    ),
}  # fmt: skip
# So that rates and the curve of failing keys are drawn.
SECONDS = 6
_QUALITY = 60


def digest(name: str) -> str:
    """Return the hash of what a screenshot shows."""
    found = hashlib.sha256()
    for source in SCREENS[name]:
        found.update((ROOT / source).read_bytes())
    return found.hexdigest()


def _at_second(state: DebugState, second: int) -> DebugState:
    """Return a state as it was some seconds after the first: more reconciles, and more failing keys up to its own."""

    def grown(controller: ControllerState) -> ControllerState:
        share = 0.4 + 0.6 * min(1.0, second / SECONDS)
        per_second = {"success": 12, "requeue_after": 3, "error": 31 if controller.failing else 0}
        results = {name: total + per_second[name] * second for name, total in controller.results.items()}
        return replace(controller, results=results, failing=round(controller.failing * share))

    process = replace(state.process, now=state.process.now + timedelta(seconds=second))
    return replace(state, process=process, controllers=tuple(map(grown, state.controllers)))


async def _take(browser: Browser, process: ShownProcess, fragment: str, text: str, height: int = 800) -> bytes:
    """Return a screenshot of a page that shows a text, after its state has changed for some seconds."""
    first = process.state
    process.state = _at_second(first, 0)
    async with browser.open(process.url + fragment, height=height) as tab:
        await tab.wait_for(text)
        for second in range(1, SECONDS + 1):
            process.state = _at_second(first, second)
            asked = len(process.questions)
            while len(process.questions) < asked + 2:
                await tab.evaluate("new Promise((done) => setTimeout(done, 100))")
        answer = await tab.call("Page.captureScreenshot", format="webp", quality=_QUALITY)
        return base64.b64decode(answer["data"])


async def _screens() -> dict[str, bytes]:
    chromium = find_chromium(os.environ.get("KCR_CHROMIUM", ""))
    if chromium is None:
        sys.exit("no Chromium: run `python -m tools.browser`, or set KCR_CHROMIUM")
    found, waves = dict[str, bytes](), Waves()
    waves.pass_time(120)
    async with browsing(chromium) as browser:
        async with showing(in_trouble()) as (process, _):
            found["page"] = await _take(browser, process, "", "1,000 keys", 620)
        dev = process_state(command="kcr dev", server="", uptime_seconds=683, memory_bytes=78 << 20)
        async with showing(debug_state(process=dev, leadership=None)) as (process, _):
            process.cluster, process.job_pods, process.metrics = cluster_overview(), job_pods(), waves.history
            process.log = "frame 6: 214 tiles\nframe 6: allocating 9 GiB\n"
            fragment = "#job=default/render&pod=default/render-6-f2x9q"
            found["page-dev"] = await _take(browser, process, fragment, "allocating 9 GiB")
            found["page-metrics"] = await _take(browser, process, "#view=metrics", "website_pages", 860)
    return found


def screens() -> dict[str, bytes]:
    """Take all screenshots, and return them by their names."""
    return asyncio.run(_screens())
