"""`python -m bench memory`: what kcr and kube-controller-manager keep in memory, in turn, each on embedded servers.

Idle, after Jobs have come and gone, and for each pod in the cache. `KUBEBUILDER_ASSETS` names a folder with
kube-controller-manager, as for `kcm`; without one kcr runs alone, beside those budgets that are no ratios.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.jobs import Shape, connected, first, played, run
from bench.jobs_controller import Controller, kcr_run
from bench.jobs_load import LABEL
from bench.jobs_server import embedded_server
from bench.kcm import OURS, UPSTREAM, Budget, Figures, find_program, rows, upstream_command
from kcr.api.batch import Job
from kcr.api.core import Pod
from kcr.app.process import fast_loop
from kcr.client import Client
from kcr.client.wire.requests import target
from kcr.errors import leaves

JOBS, PODS = 8_000, 20_000
SMALL = 20, 200
# So many Jobs are there at a time.
AT_ONCE = 500
# Until caches are frozen, and memory is given back.
SETTLE_SECONDS = 40.0
IDLE, GROWN, CACHED = "idle, MB", "after the Jobs, MB more", "bytes per cached pod"
BUDGETS: Mapping[str, Budget] = {
    IDLE: Budget(0.75),
    GROWN: Budget(6, is_ratio=False),
    CACHED: Budget(0.5),
}


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
            for begin in range(0, jobs, AT_ONCE):
                await run(load, f"{label}-{begin}", Shape(min(AT_ONCE, jobs - begin), 1), controller, options)
                await _delete(server.client, label)
            grown = await _at_rest(controller, settle) - idle
        async with (
            embedded_server(folder, pods=pods) as (kubeconfig, process), connected(kubeconfig, process) as server,
            played(server, "default") as (load, label), Controller(command, kubeconfig, folder) as controller,
        ):  # fmt: skip
            await first(load, label, controller, options)
            cached = await _at_rest(controller, settle) - idle
    return {IDLE: idle / 1e6, GROWN: grown / 1e6, CACHED: cached / pods}


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
    commands = {OURS: kcr_run("job,ttl")}
    if (program := find_program()) is not None:
        commands = {UPSTREAM: upstream_command(program), **commands}
    print(f"memory ({jobs:,} Jobs, {pods:,} pods; {' beside '.join(commands)})", flush=True)
    found: dict[str, list[Figures]] = {OURS: [], UPSTREAM: []}
    try:
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            for name, command in commands.items():
                found[name].append(runner.run(measure(command, jobs, pods, settle)))
    except* RuntimeError as errors:
        sys.exit("\n".join(f"bench: {error}" for error in leaves(errors)))
    print("\n".join(rows(BUDGETS, found[OURS], found[UPSTREAM])), flush=True)
