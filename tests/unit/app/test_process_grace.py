"""How a process ends that something keeps: each program runs in a process of its own."""

import asyncio
import re
import signal
import subprocess
import sys
import threading
from textwrap import dedent
from types import CoroutineType

import pytest

from kcr.app.process import outermost_of, run_to_end

# Each starts a process, which imports kcr.
pytestmark = pytest.mark.timeout(60)

SECONDS = 0.3

# What a library does, by the line that has to be named.
KEEPERS = {
    "thread": """
        def pump():
            time.sleep(60)

        def keep():
            threading.Thread(target=pump, name="metrics pump").start()
    """,
    "nested-loop": """
        async def poll():
            await asyncio.sleep(60)

        def pump():
            asyncio.run(poll())

        def keep():
            threading.Thread(target=pump, name="metrics pump").start()
    """,
    "executor": """
        from concurrent.futures import ThreadPoolExecutor

        def pump():
            time.sleep(60)

        def keep():
            ThreadPoolExecutor(thread_name_prefix="metrics pump").submit(pump)
    """,
    "default-executor": """
        def pump():
            time.sleep(60)

        def keep():
            asyncio.get_running_loop().run_in_executor(None, pump)
    """,
    "exit-handler": """
        import atexit

        def pump():
            time.sleep(60)

        def keep():
            atexit.register(pump)
    """,
}

PROGRAM = """
import asyncio, os, signal, sys, threading, time
from kcr.app import process
from kcr.errors import LeadershipLostError
process.GRACE_SECONDS = {seconds}
{keeper}
async def main():
    keep()
    {end}
    await asyncio.sleep(60)

print("begins")
sys.exit(process.run_to_end(main, {loop}))
"""

TERM = "os.kill(os.getpid(), signal.SIGTERM)"


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)


def program(keeper: str, end: str, loop: str = "None") -> str:
    return PROGRAM.format(seconds=SECONDS, keeper=dedent(KEEPERS[keeper]), end=end, loop=loop)


@pytest.mark.parametrize(
    "loop",
    [pytest.param("None", id="asyncio"), pytest.param("process.fast_loop()", id="uvloop", marks=pytest.mark.soak)],
)
@pytest.mark.parametrize("keeper", KEEPERS)
def test_what_keeps_the_process_after_a_signal_is_named_and_left_behind(keeper: str, loop: str) -> None:
    ended = run(program(keeper, TERM, loop))
    assert ended.returncode == 128 + signal.SIGTERM, ended.stderr
    assert_names(keeper, ended.stderr)
    # What was printed is not lost.
    assert ended.stdout == "begins\n"


@pytest.mark.parametrize(
    "keeper", [pytest.param(one, marks=[] if one == "thread" else pytest.mark.soak) for one in KEEPERS]
)
def test_what_keeps_the_process_after_a_lost_lease_is_named_and_left_behind(keeper: str) -> None:
    ended = run(program(keeper, "raise LeadershipLostError('lease ns/a: lost')"))
    assert ended.returncode == 1
    assert "lease ns/a: lost" in ended.stderr
    assert_names(keeper, ended.stderr)


def assert_names(keeper: str, text: str) -> None:
    last = text.splitlines()[-1]
    if keeper == "exit-handler":
        assert last.startswith("Error: exit handler does not end (where=<string>:"), text
    else:
        name = "(asyncio|uvloop)_0" if keeper == "default-executor" else "metrics pump"
        assert re.match(rf"Error: thread does not end \(thread={name}", last), text
    assert " pump" in last


def test_code_of_the_command_is_kept_by_a_forced_end() -> None:
    ended = run(program("thread", "return 7"))
    assert ended.returncode == 7
    assert_names("thread", ended.stderr)


def test_each_thread_that_keeps_the_process_is_named() -> None:
    ended = run(program("thread", f"keep(); {TERM}"))
    assert ended.stderr.count("thread does not end (thread=metrics pump") == 2


def test_daemons_and_threads_that_end_in_time_do_not_force_the_end() -> None:
    keeper = """
        def keep():
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
            threading.Thread(target=time.sleep, args=(0.1,)).start()
    """
    ended = run(PROGRAM.format(seconds=SECONDS, keeper=dedent(keeper), end=TERM, loop="None"))
    assert (ended.returncode, ended.stderr) == (0, "")


def test_program_that_goes_on_after_the_command_is_left_to_itself() -> None:
    after = f"print('ended', process.run_to_end(main)); time.sleep({SECONDS} + 0.5); print('goes on')\n"
    text = program("thread", TERM).partition("sys.exit(")[0].replace("sleep(60)", "sleep(0.1)")
    ended = run(text + after)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "begins\nended None\ngoes on\n"


STUCK = """
import asyncio
import kcr
from kcr.api.core import ConfigMap
from kcr.app import process
from kcr.errors import LeadershipLostError
from kcr.testing import FakeManager
process.GRACE_SECONDS = 0.3

class Stuck:
    async def reconcile(self, key):
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass

class Fails:
    name = "fails"

    async def run(self):
        await asyncio.sleep(0.1)
        raise kcr.KcrError("the disk is full")

async def main():
    manager = FakeManager()
    controller = manager.add_controller("stuck", Stuck(), graceful_shutdown_timeout=0.1)
    controller.queue.add(kcr.Key("default", "a"))
    manager.add(Fails())
    period = process.GracePeriod()
    await manager.run(on_failure=lambda error: period.begin_on_loop(1, error))
    return 0

process.run_to_end(main)
"""


@pytest.mark.soak
def test_reconcile_that_ignores_the_failure_of_another_part_is_named_and_left_behind() -> None:
    ended = run(STUCK)
    assert ended.returncode == 1
    assert "Error: failed (error=the disk is full)\n" in ended.stderr
    assert "Error: task does not end (task=stuck worker 0" in ended.stderr


def test_process_of_others_outlives_a_command() -> None:
    async def main() -> int:
        return 0

    before = threading.active_count()
    assert run_to_end(main) == 0
    assert threading.active_count() == before


def test_coroutine_that_waits_again_is_not_the_outermost() -> None:
    async def waiting() -> None:
        await asyncio.sleep(0)

    coroutine, here = waiting(), sys._getframe()
    coroutine.send(None)
    assert isinstance(coroutine, CoroutineType)
    suspended = coroutine.cr_frame
    assert suspended is not None
    assert suspended.f_back is None
    coroutine.close()
    outermost = here
    while outermost.f_back is not None:
        outermost = outermost.f_back
    # The thread ran the coroutine, which was suspended while its callers were looked for.
    frames = iter((suspended, here, here))
    assert outermost_of(lambda: next(frames)) is outermost
