"""`python -m bench kcm`: kube-controller-manager and kcr in turn on servers of one kind, and the ratios of their costs.

`KUBEBUILDER_ASSETS` names a folder with etcd, kube-apiserver and kube-controller-manager, which all run from there.
With `--embedded` each shape has an embedded server of its own instead. Without kube-controller-manager kcr runs alone,
beside those budgets that are no ratios. Client-side rate limits are off. What ends the pods counts on neither side.
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
from statistics import median
from typing import NamedTuple

from bench.jobs import CPU, P50, PER_POD, Shape, measure
from bench.jobs_controller import KUBECONFIG, kcr_run
from kcr.app.process import fast_loop
from kcr.errors import leaves
from kcr_devcluster.testing.controlplane import control_plane, find_assets

PROGRAM = "kube-controller-manager"
UPSTREAM, OURS = "kube-controller-manager", "kcr"
RATE, PEAK = "pods per second", "controller, MB at most"
ROUNDS = 3

Figures = Mapping[str, float]


class Budget(NamedTuple):
    """What kcr may need, or has to reach.

    Attributes:
        limit: As a part of upstream's figure, or the figure itself.
        is_floor: Whether it is the least.
        is_ratio: Whether it is a part of upstream's figure.
    """

    limit: float
    is_floor: bool = False
    is_ratio: bool = True

    def verdict(self, figure: float) -> str:
        """Return the budget in words, beside the figure or the ratio that it is for."""
        held = figure >= self.limit if self.is_floor else figure <= self.limit
        bound = f"{'at least' if self.is_floor else 'at most'} {self.limit:g}{' x' if self.is_ratio else ''}"
        return f"budget {bound}{'' if held else ': MISSED'}"


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


def rows(
    budgets: Mapping[str, Budget], ours: Sequence[Figures], upstream: Sequence[Figures], *, shown: Sequence[str] = ()
) -> Iterator[str]:
    """Yield a row for each figure: the medians of both, their ratio, and the budget.

    Args:
        budgets: The budgets of figures.
        ours: What each round has shown of kcr.
        upstream: The same of kube-controller-manager; empty when there is none.
        shown: The figures; those with budgets by default.
    """
    for what in shown or budgets:
        mine, budget = median(found[what] for found in ours), budgets.get(what)
        theirs = median(found[what] for found in upstream) if upstream else None
        row, judged = f"  {what:<28} {mine:>10.2f}", mine
        if theirs is not None:
            row += f" {theirs:>10.2f} {mine / theirs:>8.3f} x"
            judged = mine / theirs if budget is not None and budget.is_ratio else mine
        is_judged = budget is not None and (theirs is not None or not budget.is_ratio)
        yield f"{row}   {budget.verdict(judged)}" if budget is not None and is_judged else row


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
    program = assets.apiserver.with_name(PROGRAM) if assets is not None else None
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
        print("\n".join(rows(load.budgets, found[OURS], found[UPSTREAM], shown=SHOWN)), flush=True)


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
    except* RuntimeError as errors:
        sys.exit("\n".join(f"bench: {error}" for error in leaves(errors)))
