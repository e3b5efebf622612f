"""What a process says about itself at SIGUSR1."""

import json
import signal
import subprocess
import sys
from typing import Any

import pytest

PROGRAM = """
import asyncio, os, sys, threading
from kcr.app import logs
from kcr.app.process import fast_loop, run_to_end

async def wait_for_rain():
    await asyncio.Event().wait()

def block():
    os.write(1, b"blocks\\n")  # at once: another thread writes as well
    os.read(0, 1)  # until the test closes it

async def main():
    thread = threading.Thread(target=block, name="counts sheep")
    thread.start()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(wait_for_rain(), name="rain")
        await asyncio.sleep(0)
        block() if sys.argv[1] == "blocked" else await asyncio.to_thread(block)
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


def stacks(*arguments: str) -> list[dict[str, Any]]:
    """Return what a program writes at the signal, which it gets once two of its threads block."""
    command, pipe = [sys.executable, "-c", PROGRAM, *arguments], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert [process.stdout.readline() for _ in range(2)] == ["blocks\n"] * 2
        process.send_signal(signal.SIGUSR1)
        first = json.loads(process.stderr.readline())
        lines = [json.loads(process.stderr.readline()) for _ in range(first["threads"] + first["tasks"])]
        _, rest = process.communicate()
    assert (process.returncode, rest) == (7, "")
    return [first, *lines]


@pytest.mark.parametrize("loop", ["standard", "fast"])
def test_signal_writes_every_task_and_thread(loop: str) -> None:
    lines = stacks("waiting", loop)
    tasks = {line["task"]: line["where"] for line in lines if line["event"] == "task"}
    assert " wait_for_rain > " in tasks["rain"]
    threads = {line["thread"]: line["where"] for line in lines if line["event"] == "thread"}
    assert threads["counts sheep"].endswith(" block")
    assert lines[0]["event"] == "stacks, because of SIGUSR1"
    assert lines[0]["tasks"] == len(tasks)


@pytest.mark.soak
@pytest.mark.parametrize("loop", ["standard", "fast"])
def test_signal_names_the_line_that_blocks_the_loop(loop: str) -> None:
    lines = stacks("blocked", loop)
    (main,) = [line["where"] for line in lines if line.get("thread") == "MainThread"]
    assert main.endswith(" block")
    assert " main > " in main


def test_signal_is_answered_where_no_thread_can_be_started() -> None:
    ended = subprocess.run([sys.executable, "-c", NO_THREADS], capture_output=True, check=False, text=True, timeout=60)
    assert ended.returncode == 7, ended.stderr
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert lines[0]["event"] == "stacks, because of SIGUSR1"
    (main,) = [line["where"] for line in lines if line.get("thread") == "MainThread"]
    assert main.endswith(" main")


def test_signal_is_the_systems_own_again_afterwards() -> None:
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
