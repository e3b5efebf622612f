"""What a process says about itself at SIGUSR1."""

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

PROGRAM = """
import asyncio, os, signal, sys, threading, time
from kcr.app import logs
from kcr.app.process import fast_loop, run_to_end

async def wait_for_rain():
    await asyncio.Event().wait()

def block(seconds):
    time.sleep(seconds)

async def main():
    thread = threading.Thread(target=block, args=(1,), name="counts sheep")
    thread.start()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(wait_for_rain(), name="rain")
        await asyncio.sleep(0.01)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        block(0.6) if sys.argv[1] == "blocked" else await asyncio.sleep(0.6)
        task.cancel()
    return 7

logs.configure_logs("json", "error")
sys.exit(run_to_end(main, fast_loop() if sys.argv[2] == "fast" else None))
"""

# A stack for a thread that there is no room for stands for the limit of threads, which the superuser does not have.
NO_THREADS = """
import asyncio, os, resource, signal, sys, threading
from kcr.app import logs
from kcr.app.process import run_to_end

async def main():
    threading.stack_size(1 << 32)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 32, resource.RLIM_INFINITY))
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.sleep(0.05)
    return 7

logs.configure_logs("json", "error")
sys.exit(run_to_end(main))
"""


def stacks(*arguments: str, program: str = PROGRAM) -> list[dict[str, Any]]:
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
    assert ended.returncode == 7, ended.stderr
    return [json.loads(line) for line in ended.stderr.splitlines()]


@pytest.mark.parametrize("loop", ["standard", "fast"])
def test_signal_writes_every_task_and_thread(loop: str) -> None:
    lines = stacks("waiting", loop)
    tasks = {line["task"]: line["where"] for line in lines if line["event"] == "task"}
    assert " wait_for_rain > " in tasks["rain"]
    threads = {line["thread"]: line["where"] for line in lines if line["event"] == "thread"}
    assert threads["counts sheep"].endswith(" block")
    assert lines[0]["event"] == "stacks, because of SIGUSR1"
    assert lines[0]["tasks"] == len(tasks)


@pytest.mark.parametrize("loop", ["standard", "fast"])
def test_signal_names_the_line_that_blocks_the_loop(loop: str) -> None:
    lines = stacks("blocked", loop)
    (main,) = [line["where"] for line in lines if line.get("thread") == "MainThread"]
    assert main.endswith(" block")
    assert " main > " in main


def test_signal_is_answered_where_no_thread_can_be_started() -> None:
    lines = stacks(program=NO_THREADS)
    assert lines[0]["event"] == "stacks, because of SIGUSR1"
    (main,) = [line["where"] for line in lines if line.get("thread") == "MainThread"]
    assert main.endswith(" main")


def test_signal_is_the_systems_own_again_afterwards() -> None:
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
