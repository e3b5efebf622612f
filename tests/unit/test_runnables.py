import asyncio
import sysconfig
from pathlib import Path

import pytest
from structlog.contextvars import bind_contextvars, get_contextvars

import kcr
from kcr.runnables import Line, RunnableGroup, await_stack, own_lines, running, shown
from kcr.testing import VirtualClock

pytestmark = pytest.mark.kcr_virtual


class Part:
    """Runs until cancelled, and notes when."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self._name = name
        self._notes = notes

    async def run(self) -> None:
        self._notes.append(f"{self._name} runs")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._notes.append(f"{self._name} ends")


async def test_late_runnable_has_the_context_of_its_group(kcr_clock: VirtualClock) -> None:
    found: list[dict[str, object]] = []
    group = RunnableGroup("informers")

    async def informer() -> None:
        found.append(get_contextvars())

    async def reconcile() -> None:
        bind_contextvars(reconcile_id="1")
        group.add(informer, "late")

    bind_contextvars(program="mine")
    async with group, asyncio.TaskGroup() as workers:
        workers.create_task(reconcile())
    assert found == [{"program": "mine"}]


async def test_inner_stage_ends_before_the_outer_one(kcr_clock: VirtualClock) -> None:  # CM-20, CM-22
    notes: list[str] = []
    outer, inner = RunnableGroup("outer"), RunnableGroup("inner")
    outer.add(Part("informer", notes).run, "informer")
    inner.add(Part("controller", notes).run, "controller")

    async def main() -> None:
        async with outer:
            await asyncio.sleep(1)
            async with inner:
                inner.add(Part("late", notes).run, "late")
                await asyncio.get_running_loop().create_future()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(main())
        await kcr_clock.advance(2)
        task.cancel()
    assert notes[:3] == ["informer runs", "controller runs", "late runs"]
    # Those of one stage end together, in no order.
    assert sorted(notes[3:5]) == ["controller ends", "late ends"]
    assert notes[5:] == ["informer ends"]


async def test_stage_that_is_over_takes_nothing_in() -> None:  # CM-21
    stage = RunnableGroup("controllers")
    async with stage:
        pass
    with pytest.raises(RuntimeError, match="controllers late: the manager is stopping"):
        stage.add(Part("late", []).run, "late")


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


async def test_component_runs_while_the_context_lives(kcr_clock: VirtualClock) -> None:
    notes: list[str] = []
    async with running(Part("controller", notes), kcr_clock.settle) as part:
        notes.append("body")
        assert isinstance(part, Part)
    assert notes == ["controller runs", "body", "controller ends"]


async def test_failure_of_the_body_is_raised_as_it_is(kcr_clock: VirtualClock) -> None:
    notes: list[str] = []
    with pytest.raises(AssertionError, match="not ready"):
        async with running(Part("controller", notes), kcr_clock.settle):
            raise AssertionError("not ready")
    assert notes == ["controller runs", "controller ends"]


class Broken:
    """Fails after a second."""

    async def run(self) -> None:
        await asyncio.sleep(1)
        raise OSError("port taken")


@pytest.mark.parametrize("ready_after", [0, 60], ids=["running", "starting"])
async def test_failure_of_the_component_ends_the_body_and_is_raised_as_it_is(ready_after: float) -> None:
    with pytest.raises(OSError, match="port taken"):
        async with running(Broken(), lambda: asyncio.sleep(ready_after)):
            await asyncio.sleep(60)
    assert asyncio.get_running_loop().time() == 1


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
