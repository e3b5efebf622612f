import asyncio
import sysconfig
from pathlib import Path

import pytest

import kcr
from kcr.stacks import Line, await_stack, own_lines, shown
from kcr.testing import VirtualClock

STDLIB, SITES = f"{sysconfig.get_path('stdlib')}/", f"{sysconfig.get_path('purelib')}/"
LIBRARY = [f"{SITES}aiohttp/client.py", f"{SITES}aiohttp/connector.py", f"{STDLIB}asyncio/streams.py"]
KCR = str(Path(kcr.__file__).parent / "controller" / "worker.py")


def stack(*files: str) -> list[Line]:
    return [Line(file, number, "call") for number, file in enumerate(files, start=1)]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param([KCR, "/app/site.py", "/app/dns.py"], "worker.py:1 > site.py:2 > dns.py:3", id="own-is-last"),
        pytest.param(
            [KCR, "/app/site.py", "/app/dns.py", *LIBRARY],
            "site.py:2 > dns.py:3 > … > streams.py:6", id="library-waits",
        ),
        pytest.param(
            [KCR, f"{SITES}shop/site.py", f"{SITES}shop/dns.py", *LIBRARY],
            "site.py:2 > dns.py:3 > … > streams.py:6", id="installed-program",
        ),
        pytest.param([KCR, KCR, KCR, KCR], "worker.py:2 > worker.py:3 > worker.py:4", id="no-program"),
    ],
)  # fmt: skip
def test_users_own_line_is_never_cut_off(files: list[str], expected: str) -> None:
    assert shown(stack(*files), 3).replace(" call", "") == expected


@pytest.mark.parametrize(
    ("files", "own"),
    [
        pytest.param([KCR, "/app/site.py", *LIBRARY], [1], id="own-folder"),
        pytest.param([KCR, f"{SITES}shop/site.py", *LIBRARY], [1], id="installed"),
        pytest.param([*LIBRARY[:1], KCR, f"{SITES}shop/site.py", KCR], [2], id="called-by-kcr-of-a-library"),
        pytest.param([KCR, *LIBRARY, f"{SITES}yarl/url.py"], [], id="kcrs-own-libraries"),
        pytest.param([KCR, *LIBRARY[:1], "/app/trace.py"], [2], id="own-folder-called-by-a-library"),
        pytest.param([KCR, f"{SITES}requests/api.py", f"{SITES}urllib3/pool.py"], [1], id="outermost-of-installed"),
    ],
)
def test_program_is_told_from_the_libraries_of_kcr(files: list[str], own: list[int]) -> None:
    assert [place for place, is_own in enumerate(own_lines(stack(*files))) if is_own] == own


@pytest.mark.kcr_virtual
async def test_place_of_a_task_is_its_innermost_line(kcr_clock: VirtualClock) -> None:  # CM-23
    async def inner() -> None:
        await asyncio.sleep(3600)

    async def outer() -> None:
        await inner()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(outer())
        assert await_stack(task).endswith("outer")
        await kcr_clock.settle()
        assert [part.split()[1] for part in await_stack(task).split(" > ")] == ["outer", "inner", "sleep"]
        task.cancel()
