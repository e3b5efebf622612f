"""`python -m bench memory`: what kcr and kube-controller-manager keep in memory, in turn, each on embedded servers.

Idle, after Jobs have come and gone, and for each pod in the cache; also how soon they are ready, what an import loads,
and the size of the wheel. `KUBEBUILDER_ASSETS` names a folder with
kube-controller-manager, as for `kcm`; without one kcr runs alone, beside those budgets that are no ratios.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path

from bench.budgets import OURS, UPSTREAM, Budget, Figures, show
from bench.jobs import Shape, connected, first, played, run
from bench.jobs_controller import READY_FILE, Controller, kcr_run
from bench.jobs_load import LABEL
from bench.jobs_server import embedded_server
from bench.kcm import find_program, upstream_command
from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.app.process import fast_loop
from kcr.client import Client
from kcr.client.wire.transport import target
from kcr.errors import leaves
from tests.kit.wheels import build, checkout

JOBS, PODS = 8_000, 20_000
SMALL = 20, 200
# So many Jobs are there at a time.
AT_ONCE = 500
# Until idle connections are closed, and memory is given back.
SETTLE_SECONDS = 125.0
IDLE, GROWN, CACHED, CACHED_KB = "idle, MB", "after the Jobs, MB more", "bytes per cached pod", "KB per cached pod"
READY, READY_CACHED = "ready after start, s", "the same with all pods, s"
MODULES, WHEEL = "modules of ours in FakeManager", "wheel, kB"
BUDGETS: Mapping[str, Budget] = {
    IDLE: Budget(0.75),
    GROWN: Budget(6, is_ratio=False),
    CACHED: Budget(0.5),
    CACHED_KB: Budget(1.6, is_ratio=False),
    READY: Budget(1, is_ratio=False),
    READY_CACHED: Budget(2, is_ratio=False),
    MODULES: Budget(200, is_ratio=False),
    WHEEL: Budget(870, is_ratio=False),
}
# As in the image.
ALLOCATOR = "env MALLOC_MMAP_THRESHOLD_=131072"
# The least of so many starts counts: others share the machine.
STARTS = 5


async def measure(command: str, jobs: int, pods: int, settle: float) -> dict[str, float]:
    """Return the memory of a controller at rest, its growth by Jobs that are gone, and by pods that it caches.

    Args:
        command: Its command line.
        jobs: How many Jobs come and go.
        pods: How many pods are there for another process of it.
        settle: How many seconds it has before it is looked at.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = argparse.Namespace(command=command, indexed=False)
        async with (
            embedded_server(folder) as (kubeconfig, process), connected(kubeconfig, process) as server,
            played(server, "default") as (load, label), Controller(command, kubeconfig, folder) as controller,
        ):  # fmt: skip
            await first(load, label, controller, options)
            idle = await _at_rest(controller, settle)
            ready = await _ready(command, kubeconfig, folder)
            for begin in range(0, jobs, AT_ONCE):
                await run(load, f"{label}-{begin}", Shape(min(AT_ONCE, jobs - begin), 1), controller, options)
                await _delete(server.client, label)
            grown = await _at_rest(controller, settle) - idle
        async with (
            embedded_server(folder, pods=pods) as (kubeconfig, process), connected(kubeconfig, process) as server,
            played(server, "default") as (load, label), Controller(command, kubeconfig, folder) as controller,
        ):  # fmt: skip
            await first(load, label, controller, options)
            cached = (await _at_rest(controller, settle) - idle) / pods
            ready_cached = await _ready(command, kubeconfig, folder)
    found = {IDLE: idle / 1e6, GROWN: grown / 1e6, CACHED: cached, CACHED_KB: cached / 1e3}
    return found | ({READY: ready, READY_CACHED: ready_cached} if ready and ready_cached else {})


async def _ready(command: str, kubeconfig: Path, folder: Path) -> float | None:
    """Return how many seconds it takes to be ready, if it says so."""
    took = []
    for _ in range(STARTS if READY_FILE in command else 0):
        async with Controller(command, kubeconfig, folder) as controller:
            took.append(controller.ready_seconds or inf)
    return min(took, default=None)


def sizes() -> dict[str, float]:
    """Return how many modules of ours a test loads, and the size of the wheel."""
    code = "import sys; from kcr.testing import FakeManager; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    with tempfile.TemporaryDirectory() as name:
        wheel = build(checkout(Path(name) / "kcr"), "build_wheel", Path(name) / "wheel")
        return {MODULES: sum(one.startswith("kcr") for one in loaded), WHEEL: wheel.stat().st_size / 1e3}


async def _at_rest(controller: Controller, settle: float) -> int:
    await asyncio.sleep(settle)
    controller.check()
    return controller.usage.resident


async def _delete(client: Client, label: str) -> None:
    for kind in (Job, Pod):
        query = {"labelSelector": f"{LABEL}={label}", "propagationPolicy": "Background"}
        await client.request("DELETE", target(kind.resource.path("default"), query))


def main(arguments: Sequence[str]) -> None:
    """Measure both controllers, and print the rows."""
    parser = argparse.ArgumentParser(
        prog="python -m bench memory", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="few Jobs and pods: does it run at all?")
    options = parser.parse_args(arguments)
    (jobs, pods), settle = (SMALL, 1.0) if options.small else ((JOBS, PODS), SETTLE_SECONDS)
    commands = {OURS: f"{ALLOCATOR} {kcr_run('job,ttl')}"}
    if (program := find_program()) is not None:
        commands = {UPSTREAM: upstream_command(program), **commands}
    print(f"memory ({jobs:,} Jobs, {pods:,} pods; {' beside '.join(commands)})", flush=True)
    found: dict[str, list[Figures]] = {OURS: [], UPSTREAM: []}
    try:
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            for name, command in commands.items():
                found[name].append(runner.run(measure(command, jobs, pods, settle)))
            found[OURS] = [{**found[OURS][0], **sizes()}]
    except* RuntimeError as errors:
        sys.exit("\n".join(f"bench: {error}" for error in leaves(errors)))
    show(BUDGETS, found[OURS], found[UPSTREAM], is_small=options.small)
