"""One seed has one trace: a story repeats exactly in every process."""

import asyncio
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from random import Random

import pytest
import structlog
from structlog.testing import LogCapture

from kcr.testing.loop import VirtualLoop
from tests.chaos import job_runs, shard_runs
from tests.chaos.mutations.mutations import MutatedRequests
from tests.chaos.mutations.valid_requests import BUILTIN_KINDS, collection_of
from tests.chaos.requests.invariants import Invariants

REQUESTS = 30


def trace_of_requests(seed: int) -> str:
    """Return the requests that a seed draws, and the codes of the server's responses."""

    async def trace() -> str:
        collections = tuple(dict.fromkeys(map(collection_of, BUILTIN_KINDS)))
        world, requests = Invariants(seed, BUILTIN_KINDS, collections), MutatedRequests(Random(seed))
        found = [repr(requests.valid.of_kind(kind)) for kind in BUILTIN_KINDS]
        for _ in range(REQUESTS):
            request = requests.request()
            found.append(repr((request, (await world.server.handle(request)).status)))
        world.server.close()
        return "\n".join(found)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(trace())


def logs_of(run: Callable[[int], object]) -> Callable[[int], str]:
    """Return a function that runs a story and returns its log, without names that are drawn for spans.

    A task group cancels its tasks in no order, so that controllers that stop together do so in any.
    """

    def trace(seed: int) -> str:
        capture = LogCapture()
        structlog.configure(processors=[capture])
        run(seed)
        structlog.reset_defaults()
        lines = (
            sorted((name, str(value)) for name, value in entry.items() if name != "reconcile_id")
            for entry in capture.entries
            if entry["event"] != "controller stops"
        )
        return "\n".join(map(repr, lines))

    return trace


TRACES: Mapping[str, Callable[[int], str]] = {
    "jobs": logs_of(job_runs.wrongs_of),
    "shards": logs_of(shard_runs.wrongs_of),
    "requests": trace_of_requests,
}


def main(name: str, seed: str) -> None:
    """Print the hash of a trace."""
    print(hashlib.sha256(TRACES[name](int(seed)).encode()).hexdigest())


@pytest.mark.parametrize(("name", "seed"), [("jobs", 3), ("jobs", 11), ("shards", 3), ("requests", 61)])
def test_trace_of_a_seed_is_the_same_in_every_process(name: str, seed: int) -> None:
    traces = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", "import sys; from tests.chaos.test_traces import main; main(*sys.argv[1:])"]
        told = subprocess.run([*command, name, str(seed)], env=environment, capture_output=True, text=True, check=True)
        traces.add(told.stdout)
    assert len(traces) == 1
