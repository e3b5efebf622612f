"""Commands in the containers of the process runtime, as exec, probes and lifecycle hooks run them."""

import asyncio
import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kcr.api.meta import ObjectMeta
from kcr.clock import SystemClock
from kcr.testing import eventually
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node.commands import (
    MAX_OUTPUT_BYTES,
    CommandError,
    ContainerCommand,
    TerminalSize,
    exec_sync,
)
from kcr_devcluster.cluster.node.logs import Logs
from kcr_devcluster.cluster.node.pods import KubeletContainer, KubeletPod
from kcr_devcluster.cluster.node.process_pods.process_runtime import ProcessRuntime, process_runtime
from kcr_devcluster.cluster.node.runtime import Exit, NodeInfo, RunningContainer, StartDeferred
from tests.kit.command_streams import RecordedStreams
from tests.kit.node_pods import process_lives

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.skipif(shutil.which("bash") is None, reason="these tests run bash"),
]


@pytest_asyncio.fixture
async def runtime() -> AsyncIterator[ProcessRuntime]:
    async with (
        EmbeddedCluster(runtime=None) as cluster,
        process_runtime(cluster.client, Logs(SystemClock()), NodeInfo("node")) as runtime,
    ):
        yield runtime


@pytest_asyncio.fixture
async def container(runtime: ProcessRuntime) -> RunningContainer:
    return await start(runtime)


async def start(runtime: ProcessRuntime, script: str = "exec sleep 600") -> RunningContainer:
    pod = KubeletPod(metadata=ObjectMeta(name="a", namespace="default", uid="1"))
    container = KubeletContainer(name="main", image="bash", command=("bash", "-c", script))
    run = await runtime.start(pod, container, 0, lambda exit_: None)
    assert not isinstance(run, StartDeferred | Exit)
    return run


def bash(script: str, *, stdin: bool = False, tty: bool = False) -> ContainerCommand:
    return ContainerCommand(("bash", "-c", script), stdin=stdin, tty=tty)


async def test_command_has_the_surroundings_of_its_container(container: RunningContainer) -> None:
    code, output = await exec_sync(container, ("bash", "-c", 'echo $HOSTNAME; test "$HOME" = "$PWD"; echo $?'))
    assert (code, output) == (0, b"a\n0\n")


async def test_output_and_errors_are_apart(container: RunningContainer) -> None:
    streams = RecordedStreams()
    code = await container.exec(bash("echo out; echo err >&2; kill -9 $$"), streams)
    assert (code, streams.out, streams.err) == (137, b"out\n", b"err\n")


async def test_standard_input_reaches_the_command_and_ends(container: RunningContainer) -> None:
    streams = RecordedStreams()
    streams.type("a\nb\n")
    streams.type("")
    assert await container.exec(ContainerCommand(("wc", "-l"), stdin=True), streams) == 0
    assert streams.out.strip() == b"2"


async def test_command_without_standard_input_finds_its_end(container: RunningContainer) -> None:
    assert await exec_sync(container, ("cat",), timeout_seconds=5) == (0, b"")


async def test_terminal_has_a_size_and_echoes(container: RunningContainer) -> None:
    streams = RecordedStreams()
    streams.sizes.put_nowait(TerminalSize(columns=99, rows=33))
    async with asyncio.TaskGroup() as group:
        script = 'until [ "$(stty size)" = "33 99" ]; do sleep 0.02; done; echo "$TERM" >&2; read line; echo "<$line>"'
        running = group.create_task(container.exec(bash(script, stdin=True, tty=True), streams))
        await eventually(lambda: b"xterm" in streams.out)
        streams.type("typed\n")
        assert await running == 0
    assert streams.out == b"xterm\r\ntyped\r\n<typed>\r\n" and streams.err == b""


async def test_interrupt_typed_into_a_terminal_is_a_signal(container: RunningContainer) -> None:
    streams = RecordedStreams()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(container.exec(bash("echo up; sleep 600", stdin=True, tty=True), streams))
        await eventually(lambda: b"up" in streams.out)
        streams.type("\x03")
        assert await running == 130


async def test_slow_reader_slows_the_command_down(container: RunningContainer) -> None:
    streams = RecordedStreams()
    assert streams.reads is not None
    streams.reads.clear()
    script = "head -c 3000000 /dev/zero; echo $? >&2"
    async with asyncio.TaskGroup() as group:
        running = group.create_task(container.exec(bash(script), streams))
        await streams.writing.wait()
        assert not running.done() and streams.err == b""
        streams.reads.set()
        assert await running == 0
    assert (len(streams.out), streams.err) == (3_000_000, b"0\n")


async def test_command_whose_reader_is_gone_is_killed(container: RunningContainer) -> None:
    streams = RecordedStreams()
    streams.reads = None
    async with asyncio.timeout(5):
        assert await container.exec(bash("echo x; sleep 600"), streams) == 137


async def test_command_beyond_its_time_is_killed(container: RunningContainer) -> None:
    with pytest.raises(TimeoutError):
        await exec_sync(container, ("sleep", "600"), timeout_seconds=0.05)


async def test_long_output_of_a_short_command_is_cut(container: RunningContainer) -> None:
    code, output = await exec_sync(container, ("head", "-c", "100000", "/dev/zero"))
    assert (code, len(output)) == (0, MAX_OUTPUT_BYTES)


async def test_command_ends_with_its_container(container: RunningContainer) -> None:
    streams = RecordedStreams()
    script = "sleep 600 & setsid sleep 600 & echo $$ $(jobs -p); wait"
    async with asyncio.TaskGroup() as group:
        running = group.create_task(container.exec(bash(script), streams))
        await eventually(lambda: streams.out.endswith(b"\n"))
        container.kill()
        assert await running == 137
    processes = [int(word) for word in streams.out.split()]
    await eventually(lambda: not any(map(process_lives, processes)))


async def test_process_in_the_background_stays_until_the_container_ends(container: RunningContainer) -> None:
    code, output = await exec_sync(container, ("bash", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"))
    process = int(output)
    assert code == 0 and process_lives(process)
    container.kill()
    await eventually(lambda: not process_lives(process))


@pytest.mark.parametrize(
    ("program", "message"),
    [
        pytest.param("no-such-program", "executable file not found in $PATH", id="missing"),
        pytest.param("/", "permission denied", id="directory"),
    ],
)
async def test_program_that_cannot_start_says_why(container: RunningContainer, program: str, message: str) -> None:
    with pytest.raises(CommandError, match=message.replace("$", r"\$")):
        await exec_sync(container, (program,))


async def test_container_that_has_ended_runs_no_command(runtime: ProcessRuntime) -> None:
    container = await start(runtime, "exit 0")

    async def refuses() -> bool:
        try:
            await exec_sync(container, ("true",))
        except CommandError as error:
            return "does not run" in str(error)
        return False

    await eventually(refuses)
