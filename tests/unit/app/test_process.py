"""How a command ends."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from kcr.app.process import run_to_end


def test_exit_code_of_the_command_is_returned() -> None:
    async def main() -> int:
        return 3

    assert run_to_end(main) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_lets_the_command_end_in_order(number: signal.Signals) -> None:  # CM-25
    ended: list[str] = []

    async def main() -> int:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("in order")
        return 0

    assert run_to_end(main) is None
    assert ended == ["in order"]


def test_second_signal_is_ignored_by_the_patient() -> None:
    async def main() -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0)
        return 0

    assert run_to_end(main, force_on_second_signal=False) is None


def test_cancellation_without_a_signal_is_an_error() -> None:
    async def main() -> int:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_to_end(main)


HANG = """
import asyncio

async def hang():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
"""

STUBBORN = f"""{HANG}
import os, signal
from kcr.app import process
process.GRACE_SECONDS = 0.1

async def main():
    os.kill(os.getpid(), signal.SIGTERM)
    await hang()

process.run_to_end(main)
"""


def test_what_does_not_end_is_named_and_left_behind() -> None:  # CM-23
    ended = subprocess.run([sys.executable, "-c", STUBBORN], capture_output=True, text=True, check=False)
    assert ended.returncode == 128 + signal.SIGTERM
    assert "task does not end" in ended.stderr
    assert "hang > tasks.py" in ended.stderr


STUCK = """
import asyncio, os, random, signal
import kcr
from kcr.api.core import ConfigMap
from kcr.app import process
from kcr.testing import FakeManager, build
process.GRACE_SECONDS = 0.3

class Stuck:
    async def reconcile(self, key):
        while key.name == "a":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass
        return kcr.Result()

async def main():
    manager = FakeManager()
    for name in ("idle", "stuck"):
        controller = manager.add_controller(
            name, Stuck(), watches=[kcr.watch(ConfigMap)], workers=3, graceful_shutdown_timeout=0.1
        )
    manager.recorder("stuck")
    controller.queue.add(kcr.Key("default", "a"))
    asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGTERM)
    await manager.run()

process.run_to_end(main)
"""


@pytest.mark.soak
def test_stuck_reconcile_alone_is_named_at_the_end() -> None:
    ended = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, check=False)
    assert ended.returncode == 128 + signal.SIGTERM
    cancelled, named = ended.stderr.splitlines()
    assert cancelled == (
        "Warning: stuck: reconciles cancelled, shutdown timed out (after_seconds=0.1, keys=['default/a'])"
    )
    assert named.startswith("Error: task does not end (task=stuck worker 0, where=")
    assert "reconcile > tasks.py" in named


BLOCKED = """
import os, signal, threading, time
from kcr.app import process
process.GRACE_SECONDS = 0.2

def block():
    time.sleep(60)

async def main():
    for after in {times}:
        threading.Timer(after, os.kill, (os.getpid(), signal.SIGTERM)).start()
    block()

process.run_to_end(main, {loop})
"""


@pytest.mark.parametrize("loop", ["None", "process.fast_loop()"], ids=["asyncio", "uvloop"])
def test_process_with_a_blocked_loop_ends_by_force(loop: str) -> None:
    code = BLOCKED.format(times="[0.1]", loop=loop)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode == 128 + signal.SIGTERM
    assert ended.stderr.startswith("Error: event loop is blocked, ending by force (where=")
    assert ended.stderr.endswith("main > <string>:7 block)\n")


def test_second_signal_ends_a_blocked_process_at_once() -> None:
    code = BLOCKED.format(times="[0.1, 0.15]", loop="None")
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGTERM, "")


STALLED = f"""{HANG}
import os, signal, sys, threading
from kcr.app import process
process.GRACE_SECONDS = 0.2

def flood():
    while True:
        sys.stderr.write("line" * 1000)

async def main():
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    {{work}}

process.run_to_end(main)
"""


@pytest.mark.soak
@pytest.mark.parametrize(
    "work",
    [
        pytest.param("flood()", id="loop-writes"),
        pytest.param("threading.Thread(target=flood, daemon=True).start(); await hang()", id="thread-writes"),
    ],
)
def test_process_ends_though_nothing_reads_its_stderr(work: str) -> None:
    with subprocess.Popen([sys.executable, "-c", STALLED.format(work=work)], stderr=subprocess.PIPE) as process:
        try:
            assert process.wait(timeout=8) == 128 + signal.SIGTERM
        finally:
            process.kill()
