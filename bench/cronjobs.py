"""`python -m bench cronjobs`: many CronJobs due in the same minute, and how late their Jobs are.

The skew of a run is the moment at which the server has its Job, less the moment at which it was due. Beside it, before
and after in the same run, a bare loop that posts as many Jobs with the same concurrency: its skew counts from its
start. Each has an embedded server of its own, over HTTPS in another process.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from bench.jobs import Server, connected, show
from bench.jobs_controller import Controller, kcr_run
from bench.jobs_load import in_parallel, job
from bench.jobs_server import CREATED, embedded_server
from kcr.api.batch import CronJob, Job
from kcr.api.meta import controller_of
from kcr.app.process import fast_loop
from kcr.client import Client, HttpTransport, load_config
from kcr.clock import SystemClock
from kcr.errors import leaves

MOST, SMALL = 5000, 20
WORKERS = 5
MAKERS = 20
# Before the moment: for the controller to start. After it: for the last Job to come.
LEAD_SECONDS, LATE_SECONDS = 15.0, 300.0
P99_RATIO, RATIO = "p99 to that of the bare loop", 1.1


def cron_job(name: str, due: datetime) -> dict[str, Any]:
    """Return the manifest of a CronJob that is due at a moment, and a day later again."""
    template = {"spec": job(name, 1, label="cron", indexed=False)["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {"schedule": f"{due.minute} {due.hour} * * *", "timeZone": "Etc/UTC", "jobTemplate": template},
    }


async def post(kubeconfig: Path, count: int, hands: int) -> None:
    """Post so many Jobs, as fast as it goes; print when that began, as seconds of the epoch."""
    async with HttpTransport(load_config(str(kubeconfig))) as wire:
        client = Client(wire)
        await client.server_version()  # so that the connection is there, as the controller's is

        async def one(name: str) -> None:
            await client.create_manifest(Job, job(name, 1, label="bare", indexed=False), "default")

        print(SystemClock().now().timestamp(), flush=True)
        await in_parallel([f"bare-{number}" for number in range(count)], hands, one)


@asynccontextmanager
async def _server(folder: Path, write_ms: float) -> AsyncIterator[Server]:
    async with (
        embedded_server(folder, write_ms=write_ms) as (kubeconfig, process),
        connected(kubeconfig, process) as server,
    ):
        yield server


async def _created(server: Server) -> list[float]:
    return msgspec.json.decode(await server.client.request("GET", f"{CREATED}jobs"), type=list[float])


async def _all_created(server: Server, controller: Controller, count: int) -> list[float]:
    """Return when so many Jobs were created; fewer of them when the rest is too late."""
    created: list[float] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(LATE_SECONDS):
            while len(created := await _created(server)) < count:
                controller.check()
                await asyncio.sleep(1)
    return created


async def bare(folder: Path, options: argparse.Namespace, count: int) -> list[float]:
    """Return the skews of a bare loop, in seconds and in order."""
    async with _server(folder, options.write_ms) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.cronjobs", str(server.kubeconfig), str(count), str(options.workers),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, _ = await process.communicate()
        began = float(out)
        return sorted(moment - began for moment in await _created(server))


async def scheduled(folder: Path, options: argparse.Namespace, count: int, making_seconds: float) -> dict[str, Any]:
    """Return the skews of a controller's runs, and what they cost."""
    clock = SystemClock()
    async with _server(folder, options.write_ms) as server:
        soon = clock.now() + timedelta(seconds=making_seconds + LEAD_SECONDS)
        due = soon.replace(second=0, microsecond=0) + timedelta(minutes=1)
        names = [f"cron-{number}" for number in range(count)]
        await in_parallel(
            names, MAKERS, lambda name: server.client.create_manifest(CronJob, cron_job(name, due), "default")
        )
        command = options.command.replace("{workers}", str(options.workers))
        async with Controller(command, server.kubeconfig, folder) as controller:
            before, asked = controller.usage, await server.asked()
            if clock.now() >= due:
                raise RuntimeError(f"{count} CronJobs were not there in time: this machine is too busy")
            await asyncio.sleep((due - clock.now()).total_seconds())
            created = await _all_created(server, controller, count)
            total = await server.quiet()
            used = controller.usage
        jobs = await server.client.list(Job)
    owners = [owner.uid for one in jobs if (owner := controller_of(one.metadata)) is not None]
    return {
        "skews": sorted(moment - due.timestamp() for moment in created),
        "started": len(set(owners)),
        "twice": len(owners) - len(set(owners)),
        "cpu": used.cpu_seconds - before.cpu_seconds,
        "asked": total - asked,
    }


async def measure(options: argparse.Namespace, count: int) -> dict[str, float]:
    """Run the bare loop, the controller, and the bare loop again; return the figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loop = await bare(folder, options, count)
        seen = await scheduled(folder, options, count, 2 * loop[-1])
        again = await bare(folder, options, count)
    found: dict[str, float] = {"started": seen["started"], "started twice": seen["twice"]}
    for what, skews in (("CronJobs", seen["skews"]), ("bare loop before", loop), ("bare loop after", again)):
        found |= {f"{what}, skew p50 ms": p(skews, 0.50) * 1000, f"{what}, skew p99 ms": p(skews, 0.99) * 1000}
    # The mean of both, for what else this machine does changes with time.
    found[P99_RATIO] = 2 * p(seen["skews"], 0.99) / (p(loop, 0.99) + p(again, 0.99))
    found["controller CPU, ms per CronJob"] = seen["cpu"] / count * 1000
    return found | {f"  {verb} {resource}": n / count for (verb, resource), n in sorted(seen["asked"].items())}


def p(ordered: Sequence[float], part: float) -> float:
    """Return the value below which a part of all values lies."""
    return ordered[int(len(ordered) * part)]


def main(arguments: Sequence[str]) -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(
        prog="python -m bench cronjobs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, metavar="N", help=f"so many CronJobs; default {MOST:,}")
    parser.add_argument(
        "--workers", type=int, default=WORKERS, metavar="N", help="concurrency of both; default %(default)s"
    )
    parser.add_argument(
        "--command",
        default=kcr_run("cronjob", "--workers={workers}"),
        help="the controller; as for `jobs`, and {workers}",
    )
    parser.add_argument(
        "--write-ms", type=float, default=0.0, metavar="MS",
        help="how long each write takes the server at least: some 5 where etcd puts it on disks; default: no time, so "
        "that all depends on how much CPU either side needs",
    )  # fmt: skip
    parser.add_argument("--small", action="store_true", help="a few CronJobs: does it run at all?")
    options = parser.parse_args(arguments)
    count = options.count or (SMALL if options.small else MOST)
    print(
        f"cronjobs ({count:,} due in the same minute, {options.workers} at a time, writes of {options.write_ms:g} ms)",
        flush=True,
    )
    try:
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            show(runner.run(measure(options, count)), {P99_RATIO: RATIO})
    except* RuntimeError as errors:
        sys.exit("\n".join(f"bench: {error}" for error in leaves(errors)))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(post(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
