"""How long the rehearsal of an upgrade takes: a snapshot of Jobs with their pods, two hours, both versions of this kcr.

The goal is a minute for 5,000 objects on two free cores: each version takes one. The snapshot is taken of an embedded
cluster in virtual time. All its pods run, and end in the first minute: more happens than in most clusters of the size.
"""

import asyncio
import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter
from typing import TypeVar

from kcr.api.batch import Job
from kcr.client import Client
from kcr.controllers.job.controller import Options, setup
from kcr.manager import Manager
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from kcr_devcluster.rehearsal.comparison import compare
from kcr_devcluster.rehearsal.hiding import DataHider
from kcr_devcluster.rehearsal.snapshot_file import Head, read_snapshot, write_snapshot
from kcr_devcluster.rehearsal.taking import Taken, take, wanted_by
from kcr_devcluster.rehearsal.versions import Plan, Version, rehearse
from kcr_devcluster.testing.loop import START, VirtualClock, VirtualLoop

T = TypeVar("T")
_PODS, _SECONDS, _LIMIT = 4, 7200.0, 600.0


def rehearsal(size: int) -> dict[str, float]:
    """Return the figures.

    Args:
        size: How many objects: a fifth of them Jobs, each with four pods that run.
    """
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=VirtualLoop) as runner:
        file = Path(folder, "bench.kcr")
        clock = VirtualClock()
        taken = runner.run(_taken(clock, size))
        head = Head(kcr="bench", kubernetes="", server="", time=START, controllers=("job",), kinds=taken.kinds)
        write_snapshot(file, head, taken.objects)
        snapshot, read = _timed(lambda: read_snapshot(file))
        versions = [Version(name, Path(sys.executable)) for name in ("old", "new")]
        (old, new), ran = _timed(lambda: rehearse(snapshot, versions, Plan(("job",), _SECONDS, _LIMIT)))
        found, compared = _timed(lambda: compare(snapshot, old, new))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds in all": read + ran + compared,
        "seconds of the processor, each version": (used.ru_utime + used.ru_stime) / len(versions),
        "seconds of the comparison": compared,
        "objects": len(snapshot.objects),
        "differences": len(found),
        "requests of a version": sum(count for *_, count in new.requests),
    }


async def _taken(clock: VirtualClock, size: int) -> Taken:
    running = RunResult(run_for=3600.0)
    async with EmbeddedCluster(clock=clock, random=Random(0), on_run=lambda *_: running) as cluster:
        manager = Manager(Client(cluster.transport), clock=clock, random=Random(1))
        setup(manager, Options(take_over=True))
        async with manager.running():
            for number in range(size // (_PODS + 1)):
                await cluster.client.create_manifest(Job, _job(f"job-{number}"), "default")
            await clock.advance(300)
        return await take(cluster.client, wanted_by(manager), DataHider(()))


def _job(name: str) -> dict[str, object]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"parallelism": _PODS, "completions": _PODS, "template": {"spec": pod}},
    }  # fmt: skip


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = perf_counter()
    done = work()
    return done, perf_counter() - began
