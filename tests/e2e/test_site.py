"""The documentation as a site, built by `make docs` and opened from its files in a real browser."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from aiohttp import web

from tests.kit.documents import ROOT
from tests.kit.environment import setting
from tools.browser import find_chromium
from tools.devtools import Tab, browsing
from tools.site.__main__ import build
from tools.site.versions import connect

PAGE, MISSING = "docs/guide/upgrade.html", "docs/guide/scale.html"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.soak,
    pytest.mark.timeout(300),
    pytest.mark.skipif(find_spec("furo") is None, reason="no Sphinx: run `make docs`"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the version 0.2.0; 0.1.0 beside it has one page less."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    build(folder, "0.2.0")
    shutil.copytree(folder / "0.2.0", folder / "0.1.0")
    (folder / "0.1.0" / MISSING).unlink()
    connect(folder)
    return folder / "0.2.0"


def test_each_document_is_a_page(site: Path) -> None:
    documents = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    assert not [path for path in documents if not (site / path).with_suffix(".html").exists()]
    overview = (site / "llms.txt").read_text().splitlines()
    sources = [line.partition("](")[2].partition(")")[0] for line in overview if line.startswith("- [")]
    assert len(sources) > 90
    assert not [source for source in sources if not (site / source).is_file()]


@asynccontextmanager
async def served(site: Path) -> AsyncIterator[str]:
    """Serve the files of all versions, and give the address."""
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


NEEDS_CHROMIUM = pytest.mark.skipif(
    find_chromium(setting("KCR_CHROMIUM")) is None,
    reason="no Chromium: run `python -m tools.browser`, or set KCR_CHROMIUM",
)


@pytest.mark.asyncio
@NEEDS_CHROMIUM
async def test_site_is_searched_and_asks_no_other_host(site: Path) -> None:
    chromium = find_chromium(setting("KCR_CHROMIUM"))
    assert chromium is not None, "otherwise skipped"

    def assert_calm(tab: Tab, origin: str) -> None:
        assert [url for url in tab.requested if not url.startswith((origin, "data:"))] == []
        assert tab.complaints == []

    async def colour(tab: Tab) -> str:
        return str(await tab.evaluate("getComputedStyle(document.body).backgroundColor"))

    async with browsing(chromium) as browser, served(site.parent) as origin:
        async with browser.open(f"{origin}/0.2.0/index.html") as tab:
            await tab.wait_for("Kubernetes controllers in Python.")
            light = await colour(tab)
            assert "Writing controllers" in await tab.text(".sidebar-drawer")
            assert_calm(tab, origin)
        async with browser.open(f"{origin}/0.2.0/index.html", dark=True) as tab:
            await tab.wait_for("Kubernetes controllers in Python.")
            assert await colour(tab) != light
        async with browser.open(f"{origin}/0.2.0/search.html?q=podFailurePolicy") as tab:
            await tab.wait_for("matching the search query", "#search-results", seconds=30)
            assert "/docs/" in await tab.evaluate("document.querySelector('#search-results li a').href")
            assert_calm(tab, origin)
        async with browser.open(f"file://{site}/docs/reference/kcr.html") as tab:
            await tab.wait_for("reconciler: Reconciler")
            assert_calm(tab, "file://")


@pytest.mark.asyncio
@NEEDS_CHROMIUM
async def test_menu_leads_to_the_page_of_another_version_without_a_server(site: Path) -> None:
    chromium = find_chromium(setting("KCR_CHROMIUM"))
    assert chromium is not None, "otherwise skipped"
    top = f"file://{site.parent}"

    async def options(tab: Tab) -> list[list[str]]:
        await tab.wait_for("0.2.0 (latest)", "#versions")
        found: list[list[str]] = await tab.evaluate(
            "[...document.querySelectorAll('#versions option')]"
            ".map(one => [one.text, new URL(one.value, location).href])"
        )
        return found

    async with browsing(chromium) as browser:
        async with browser.open(f"{top}/latest/{PAGE}") as tab:
            assert await options(tab) == [["0.2.0 (latest)", f"{top}/0.2.0/{PAGE}"], ["0.1.0", f"{top}/0.1.0/{PAGE}"]]
            assert tab.complaints == []
        async with browser.open(f"{top}/0.2.0/{MISSING}") as tab:
            assert (await options(tab))[1] == ["0.1.0", f"{top}/0.1.0/index.html"]
            await tab.evaluate(
                "(menu => { menu.selectedIndex = 1; menu.dispatchEvent(new Event('change')) })"
                "(document.querySelector('#versions select'))"
            )
            await tab.wait_for("Kubernetes controllers in Python.")
            assert await tab.evaluate("location.pathname") == f"{site.parent}/0.1.0/index.html"
        async with browser.open(f"{top}/index.html") as tab:
            await tab.wait_for("Kubernetes controllers in Python.")
