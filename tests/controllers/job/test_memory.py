"""What a Job controller keeps of Jobs that have come and gone: bounded histories, and nothing for each Job."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0)]

# The histories of events (4,096) and of reconciles are full after the first Jobs.
FULL, JOBS = 5_000, 20_000
# Objects of kcr's types: one for 100 Jobs. Bytes: of all live objects, the server's as well, which shares the process;
# the table of a dictionary that things go in and out of may double. `python -m bench memory` measures resident memory.
MOST_OBJECTS, MOST_BYTES = 150, 1_500_000
# A process of its own, for pytest keeps a journal of a test.
STORY = """
import asyncio, gc, json, sys
from collections import Counter
from itertools import chain
from random import Random
from kcr.api.batch import Job
from kcr.api.core import Event, Pod
from kcr.app.logs import configure_logs
from kcr.testing import VirtualClock, eventually
from kcr_devcluster.testing.loop import VirtualLoop
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.cluster.node import RunResult
from tests.kit.harness import create, manifest, ttl_controller

def kept():
    # The collector knows the containers; texts and numbers are what these refer to.
    gc.collect()
    counts, sizes, seen = Counter(), Counter(), set()
    tracked = gc.get_objects()
    for one in (*tracked, *chain.from_iterable(map(gc.get_referents, tracked))):
        if one is not tracked and id(one) not in seen:
            seen.add(id(one))
            kind = f"{type(one).__module__}.{type(one).__qualname__}"
            counts[kind] += 1
            sizes[kind] += sys.getsizeof(one)
    print(json.dumps({"counts": counts, "sizes": sizes}), flush=True)

async def main(full, jobs, at_once):
    clock = VirtualClock()
    cluster = EmbeddedCluster(
        clock=clock, random=Random(0), runtime="simulated", on_run=lambda *_: RunResult(exit_code=0, run_for=0.0)
    )
    async with cluster, ttl_controller(cluster, clock, with_jobs=True):
        client = cluster.client

        async def gone():
            return not await client.list(Job) and not await client.list(Pod)

        for number in range(jobs):
            await create(client, manifest(f"job-{number}", ttlSecondsAfterFinished=0))
            if number % at_once == at_once - 1:
                await eventually(gone, seconds=600)
                # The server deletes them an hour later. Counts of hot loops are those of a while.
                await client.request("DELETE", Event.resource.path("default"))
                await clock.advance(600)
            if number + 1 in (full, jobs):
                kept()

configure_logs(None, "error")
with asyncio.Runner(loop_factory=VirtualLoop) as runner:
    runner.run(main(*map(int, sys.argv[1:])))
"""


def test_twenty_thousand_jobs_that_are_gone_leave_no_memory() -> None:
    command = [sys.executable, "-c", STORY, str(FULL), str(JOBS), "500"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    full, end = map(json.loads, done.stdout.splitlines())
    for what, most in (("counts", MOST_OBJECTS), ("sizes", MOST_BYTES)):
        grown = {kind: n - full[what].get(kind, 0) for kind, n in end[what].items()}
        if what == "counts":
            grown = {kind: max(n, 0) for kind, n in grown.items() if kind.startswith("kcr.")}
        assert sum(grown.values()) <= most, sorted(grown.items(), key=lambda one: -one[1])[:10]
