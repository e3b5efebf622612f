"""Take the screenshots of the web page that the documentation shows: `python -m tools.screenshot`.

They show what the tests of the page show: a controller with 1,000 keys in trouble, and the Jobs of `kcr dev`. It needs
a headless Chromium: `python -m tools.browser`.
"""

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

from msgspec.structs import replace

from kcr.serving.debug.state import ControllerState, DebugState
from tests.kit.debug_clusters import cluster_overview, job_pods
from tests.kit.debug_pages import ShownProcess, showing
from tests.kit.debug_states import debug_state, in_trouble, process_state
from tools.browser import find_chromium
from tools.devtools import Browser, browsing

GUIDE = Path(__file__).parent.parent / "docs/guide"
TROUBLE, DEV = GUIDE / "page.png", GUIDE / "page-dev.png"
# So that rates and the curve of failing keys are drawn.
SECONDS = 6


def at_second(state: DebugState, second: int) -> DebugState:
    """Return a state as it was some seconds after the first: more reconciles, and more failing keys up to its own."""

    def grown(controller: ControllerState) -> ControllerState:
        share = 0.4 + 0.6 * min(1.0, second / SECONDS)
        per_second = {"success": 12, "requeue_after": 3, "error": 31 if controller.failing else 0}
        results = {name: total + per_second[name] * second for name, total in controller.results.items()}
        return replace(controller, results=results, failing=round(controller.failing * share))

    process = replace(state.process, now=state.process.now + timedelta(seconds=second))
    return replace(state, process=process, controllers=tuple(map(grown, state.controllers)))


async def take(browser: Browser, process: ShownProcess, path: Path, fragment: str, text: str) -> None:
    """Take a screenshot of a page once it shows a text, and the state has changed for some seconds."""
    first = process.state
    process.state = at_second(first, 0)
    async with browser.open(process.url + fragment) as tab:
        await tab.wait_for(text)
        for second in range(1, SECONDS + 1):
            process.state = at_second(first, second)
            asked = len(process.questions)
            while len(process.questions) < asked + 2:
                await tab.evaluate("new Promise((done) => setTimeout(done, 100))")
        picture = await tab.screenshot()
    await asyncio.to_thread(path.write_bytes, picture)
    print(f"{path.relative_to(GUIDE.parent.parent)}: {len(picture) // 1000} kB")


async def main() -> None:
    """Take all screenshots."""
    chromium = find_chromium(os.environ.get("KCR_CHROMIUM", ""))
    if chromium is None:
        sys.exit("no Chromium: run `python -m tools.browser`, or set KCR_CHROMIUM")
    async with browsing(chromium) as browser:
        async with showing(in_trouble()) as (process, _):
            await take(browser, process, TROUBLE, "", "1,000 keys")
        dev = process_state(command="kcr dev", server="", uptime_seconds=83, memory_bytes=78 << 20)
        async with showing(debug_state(process=dev, leadership=None)) as (process, _):
            process.cluster, process.job_pods = cluster_overview(), job_pods()
            process.log = "frame 6: 214 tiles\nframe 6: allocating 9 GiB\n"
            await take(browser, process, DEV, "#job=default/render&pod=default/render-6-f2x9q", "allocating 9 GiB")


if __name__ == "__main__":
    asyncio.run(main())
