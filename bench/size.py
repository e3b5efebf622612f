"""`python -m bench size`: how big a cluster one replica serves: its memory, its time to ready, its CPU at rest.

The server holds so many running pods, and answers over HTTPS from another process. The replica is `kcr run` with the
Job controller, which caches them all. At rest nothing changes: what it still uses are its timers, probes of its event
loop and bookmarks.
"""

import argparse
import asyncio
import os
import platform
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench.jobs_controller import Controller, Usage, kcr_run
from bench.jobs_server import embedded_server
from kcr.app.process import fast_loop

SIZES = (5_000, 50_000, 200_000)
SMALL = (200,)
REST_SECONDS = 60.0
START_SECONDS = 300.0
# After the ready file, until caches are frozen and the allocator is quiet.
SETTLE_SECONDS = 5.0


class Figures(NamedTuple):
    """What a replica takes for so many pods; bytes, and seconds, of which `rest_cpu` is in a minute without changes."""

    pods: int
    ready_seconds: float
    ready_cpu: float
    resident: int
    peak: int
    rest_cpu: float

    def row(self) -> str:
        """Return the row of the table in docs/guide/operate.md."""
        return (
            f"| {self.pods:,} | {self.resident / 1e6:,.0f} MB | {self.peak / 1e6:,.0f} MB | {self.ready_seconds:.1f} s "
            f"| {self.ready_cpu:.1f} s | {self.rest_cpu / 60:.2%} |"
        )


async def measure(pods: int, rest_seconds: float) -> Figures:
    """Start a replica beside a server with so many pods, and measure it from outside."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with (
            embedded_server(folder, pods=pods) as (kubeconfig, _),
            Controller(kcr_run("job"), kubeconfig, folder, start_seconds=START_SECONDS) as replica,
        ):
            started = replica.usage
            assert replica.ready_seconds is not None
            await asyncio.sleep(SETTLE_SECONDS)
            before = replica.usage
            await asyncio.sleep(rest_seconds)
            return figures(pods, replica.ready_seconds, started, before, replica.usage, rest_seconds)


def figures(pods: int, ready_seconds: float, started: Usage, before: Usage, after: Usage, rest: float) -> Figures:
    """Return the figures from the usage when it was ready, when it had settled, and so many seconds later."""
    at_rest = (after.cpu_seconds - before.cpu_seconds) * 60 / rest
    return Figures(pods, ready_seconds, started.cpu_seconds, after.resident, after.peak, at_rest)


def machine() -> str:
    """Return the machine and the day."""
    day = datetime.now(UTC).date()  # noqa: TID251  # the day of the measurement itself
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {day}"


def main(arguments: list[str]) -> None:
    """Measure one size after the other, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench size", description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, nargs="+", help=f"how many; default: {' '.join(map(str, SIZES))}")
    parser.add_argument("--rest", type=float, default=REST_SECONDS, help="seconds at rest; default: %(default)g")
    parser.add_argument("--small", action="store_true", help="check that it works")
    options = parser.parse_args(arguments)
    sizes, rest = (SMALL, 1.0) if options.small else (options.pods or SIZES, options.rest)
    print(machine())
    print("| pods | memory | peak | ready after | CPU until ready | CPU at rest, of one core |")
    print("|---|---|---|---|---|---|")
    for pods in sizes:
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            print(runner.run(measure(pods, rest)).row(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
