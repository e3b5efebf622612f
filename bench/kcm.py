"""`python -m bench kcm`: kube-controller-manager and kcr in turn on servers of one kind, and the ratios of their costs.

`KUBEBUILDER_ASSETS` names a folder with etcd, kube-apiserver and kube-controller-manager, which all run from there.
With `--embedded` each shape has an embedded server of its own instead. Without kube-controller-manager kcr runs alone,
beside those budgets that are no ratios. Client-side rate limits are off. What ends the pods counts on neither side.
Then come the budgets of the parts: the client beside aiohttp, the informer, and four replicas beside one.
"""

import argparse
import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import shards
from bench.budgets import OURS, UPSTREAM, Budget, Figures, measured_apart, show
from bench.client import ALONE, METERED
from bench.jobs import CPU, P50, PER_POD, Shape, measure
from bench.jobs_controller import KUBECONFIG, kcr_run
from kcr.app.process import fast_loop
from kcr.errors import leaves
from kcr_devcluster.testing.controlplane import control_plane, find_assets

RATE, PEAK = "pods per second", "controller, MB at most"
ROUNDS = 3


class Load(NamedTuple):
    """One shape, with the budgets of its figures."""

    shape: Shape
    indexed: bool
    budgets: Mapping[str, Budget]

    def __str__(self) -> str:
        return f"{self.shape}{', Indexed' if self.indexed else ''}"


LOADS = (
    Load(Shape(20, 1, one_by_one=True), False, {P50: Budget(0.05)}),
    Load(
        Shape(100, 10), False,
        {CPU: Budget(0.95), RATE: Budget(1.05, is_floor=True), PER_POD: Budget(2.8, is_ratio=False)},
    ),
    Load(
        Shape(500, 1), False,
        {CPU: Budget(0.95), RATE: Budget(1.05, is_floor=True), PER_POD: Budget(6.5, is_ratio=False)},
    ),
    Load(Shape(1, 1000), True, {CPU: Budget(0.8), RATE: Budget(1.2, is_floor=True)}),
)  # fmt: skip
SMALL = (Load(Shape(2, 1, one_by_one=True), False, {}), Load(Shape(3, 2), True, {}))
SHOWN = (CPU, RATE, PER_POD, PEAK, P50)
CREATE = "create, µs of CPU"
CLIENT = {CREATE: Budget(1.1, beside="aiohttp")}
REPLICAS = {what: Budget(limit, is_ratio=False) for what, limit in shards.BUDGETS.items()}
INFORMER = {name: Budget(40_000, is_floor=True, is_ratio=False) for name in ("kcr, changes", "kcr, initial state")}
# Requests, events, and the load of the replicas.
PARTS = 10_000, 30_000, shards.Size(shards.BUDGET_JOBS, 10, 4, 8, rate=15.0)
SMALL_PARTS = 400, 500, shards.Size(6, 3, 2, 4)


def upstream_command(program: Path) -> str:
    """Return the command line of kube-controller-manager with the controllers of Jobs alone."""
    flags = (
        "--controllers=job-controller,ttl-after-finished-controller", "--leader-elect=false", "--secure-port=0",
        "--kube-api-qps=-1",
    )  # fmt: skip
    return f"{shlex.join((str(program), *flags))} --kubeconfig={KUBECONFIG}"


def find_program() -> Path | None:
    """Return kube-controller-manager beside kube-apiserver, if there is one."""
    assets = find_assets(os.environ)
    program = assets.apiserver.with_name(UPSTREAM) if assets is not None else None
    return program if program is not None and program.is_file() else None


@contextmanager
def the_server(*, embedded: bool) -> Iterator[tuple[str | None, Path | None]]:
    """Run the real server, and give its kubeconfig, None where there is none; and kube-controller-manager, if any."""
    assets, program = find_assets(os.environ), find_program()
    if embedded or assets is None or program is None:
        yield None, program
        return
    with tempfile.TemporaryDirectory(prefix="kcr-") as folder, control_plane(assets, Path(folder)) as started:
        yield str(started.kubeconfig), program


async def measure_all(loads: Sequence[Load], rounds: int, commands: Mapping[str, str], kubeconfig: str | None) -> None:
    """Run all shapes with both controllers in turn, and print the rows of each."""
    for load in loads:
        found: dict[str, list[Figures]] = {name: [] for name in (OURS, UPSTREAM)}
        print(f"kcm ({load}; {rounds} rounds)", flush=True)
        for _ in range(rounds):
            for name, command in commands.items():
                options = argparse.Namespace(
                    command=command, kubeconfig=kubeconfig, namespace="default", indexed=load.indexed
                )
                found[name].append(await measure(options, load.shape))
        show(load.budgets, found[OURS], found[UPSTREAM], shown=SHOWN)


def measure_parts(runner: asyncio.Runner, *, is_small: bool) -> None:
    """Measure the client, the informer and several replicas, and print the rows of each."""
    requests, events, load = SMALL_PARTS if is_small else PARTS
    print("kcm (client over HTTPS, eight requests at a time; beside aiohttp alone)", flush=True)
    found = measured_apart("client", requests)
    ours, alone = {CREATE: found[f"POST, {METERED}"]}, {CREATE: found[f"POST, {ALONE}"]}
    show(CLIENT, [ours], [alone], is_small=is_small)
    print("kcm (informer, watch events per CPU second)", flush=True)
    show(INFORMER, [measured_apart("throughput", events)], is_small=is_small)
    print(f"kcm ({load.replicas} replicas, {load.shards} shards, {load.jobs:,} Jobs; of a single replica)", flush=True)
    show(REPLICAS, [runner.run(shards.measure(load, ("default",), moves=False))], is_small=is_small)


def main(arguments: Sequence[str]) -> None:
    """Measure what was asked for, and print it."""
    parser = argparse.ArgumentParser(
        prog="python -m bench kcm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="default %(default)s")
    parser.add_argument("--embedded", action="store_true", help="the embedded server, though there is a real one")
    parser.add_argument("--small", action="store_true", help="small shapes: does it run at all?")
    options = parser.parse_args(arguments)
    loads, rounds = (SMALL, 1) if options.small else (LOADS, options.rounds)
    try:
        with (
            the_server(embedded=options.embedded or options.small) as (kubeconfig, program),
            asyncio.Runner(loop_factory=fast_loop()) as runner,
        ):
            commands = {OURS: kcr_run("job,ttl")}
            if program is not None:
                commands = {UPSTREAM: upstream_command(program), **commands}
            print(f"{' beside '.join(commands)}; {'kube-apiserver' if kubeconfig else 'embedded server'}", flush=True)
            runner.run(measure_all(loads, rounds, commands, kubeconfig))
            measure_parts(runner, is_small=options.small)
    except* RuntimeError as errors:
        sys.exit("\n".join(f"bench: {error}" for error in leaves(errors)))
