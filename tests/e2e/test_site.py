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
from tests.kit.page_faults import FAULTS, LOADED
from tools.browser import Chromium, find_chromium
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


@pytest.fixture(scope="module")
def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def test_each_document_is_a_page(site: Path) -> None:
    documents = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    # The rules that were implemented from stay with the code.
    shown = [path for path in documents if path.parts[1] != "spec"]
    assert not (site / "docs" / "spec").exists()
    assert not [path for path in shown if not (site / path).with_suffix(".html").exists()]
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


@pytest.fixture
def chromium() -> Chromium:
    found = find_chromium(setting("KCR_CHROMIUM"))
    if found is None:
        pytest.skip("no Chromium: run `python -m tools.browser`, or set KCR_CHROMIUM")
    return found


@pytest.mark.asyncio
async def test_site_is_searched_and_asks_no_other_host(site: Path, chromium: Chromium) -> None:

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
            found = await tab.evaluate(
                "[...document.querySelectorAll('#search-results li a')].map((link) => link.href)"
            )
            assert any("/docs/guide/jobs-at-scale.html" in link for link in found)
            assert_calm(tab, origin)
        async with browser.open(f"file://{site}/docs/reference/kcr.html") as tab:
            await tab.wait_for("reconciler: Reconciler")
            assert_calm(tab, "file://")


@pytest.mark.asyncio
async def test_menu_leads_to_the_page_of_another_version_without_a_server(site: Path, chromium: Chromium) -> None:
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


@pytest.mark.asyncio
async def test_each_page_fits_a_phone_and_a_desk_and_is_read_in_light_and_dark(
    site: Path, pages: list[Path], chromium: Chromium
) -> None:
    found = []
    async with browsing(chromium) as browser:
        for page in pages:
            for width, dark in ((390, False), (1300, True)):
                async with browser.open(page.as_uri(), width=width, dark=dark) as tab:
                    await tab.evaluate(LOADED)
                    found += [f"{page.relative_to(site)} at {width}: {fault}" for fault in await tab.evaluate(FAULTS)]
    assert not found


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("body", "fault"),
    [
        pytest.param("<p>text", [], id="none"),
        pytest.param("<p style='color: #808080'>text", ["too pale: text"], id="pale"),
        pytest.param("<h1 style='color: #808080'>text", [], id="pale-and-large"),
        pytest.param("<div style='background: #000'><p>text", ["too pale: text"], id="on-its-parent"),
        pytest.param("<pre>" + "x" * 400, ["pixels wide"], id="wide"),
    ],
)
async def test_fault_of_a_page_is_seen(tmp_path: Path, chromium: Chromium, body: str, fault: list[str]) -> None:
    (tmp_path / "page.html").write_text(f"<!doctype html><body style='background: #fff'>{body}")
    async with browsing(chromium) as browser, browser.open((tmp_path / "page.html").as_uri(), width=390) as tab:
        await tab.evaluate(LOADED)
        found = await tab.evaluate(FAULTS)
        assert len(found) == len(fault)
        assert all(part in one for part, one in zip(fault, found, strict=True))
