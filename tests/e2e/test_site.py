"""The documentation as a site, built by `make docs` and opened from its files in a real browser."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from aiohttp import web

from tests.kit.documents import ROOT
from tools.browser import find_chromium
from tools.devtools import Tab, browsing
from tools.site.__main__ import build

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.soak,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("furo") is None, reason="no Sphinx: run `make docs`"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    build(folder)
    return folder


def test_each_document_is_a_page(site: Path) -> None:
    documents = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    assert not [path for path in documents if not (site / path).with_suffix(".html").exists()]
    overview = (site / "llms.txt").read_text().splitlines()
    sources = [line.partition("](")[2].partition(")")[0] for line in overview if line.startswith("- [")]
    assert len(sources) > 90
    assert not [source for source in sources if not (site / source).is_file()]


@asynccontextmanager
async def served(site: Path) -> AsyncIterator[str]:
    """Serve the files of the site, and give the address."""
    application = web.Application()
    application.router.add_static("/", site)
    runner = web.AppRunner(application)
    await runner.setup()
    server = web.TCPSite(runner, "127.0.0.1", 0)
    await server.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@pytest.mark.asyncio
@pytest.mark.skipif(find_chromium() is None, reason="no Chromium: run `python -m tools.browser`, or set KCR_CHROMIUM")
async def test_site_is_searched_and_asks_no_other_host(site: Path) -> None:
    chromium = find_chromium()
    assert chromium is not None, "otherwise skipped"

    def assert_calm(tab: Tab, origin: str) -> None:
        assert [url for url in tab.requested if not url.startswith((origin, "data:"))] == []
        assert tab.complaints == []

    async def colour(tab: Tab) -> str:
        return str(await tab.evaluate("getComputedStyle(document.body).backgroundColor"))

    async with browsing(chromium) as browser, served(site) as origin:
        async with browser.open(f"{origin}/index.html") as tab:
            await tab.wait_for("Kubernetes controllers in Python.")
            light = await colour(tab)
            assert "Writing controllers" in await tab.text(".sidebar-drawer")
            assert_calm(tab, origin)
        async with browser.open(f"{origin}/index.html", dark=True) as tab:
            await tab.wait_for("Kubernetes controllers in Python.")
            assert await colour(tab) != light
        async with browser.open(f"{origin}/search.html?q=podFailurePolicy") as tab:
            await tab.wait_for("matching the search query", "#search-results", seconds=30)
            assert "/docs/" in await tab.evaluate("document.querySelector('#search-results li a').href")
            assert_calm(tab, origin)
        async with browser.open(f"file://{site}/docs/reference/kcr.html") as tab:
            await tab.wait_for("reconciler: Reconciler")
            assert_calm(tab, "file://")
