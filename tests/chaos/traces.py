"""Traces of stories: what a seed makes happen, in order, as one hash.

`python -m tests.chaos.traces` writes the hashes of some seeds to `traces.txt` beside this module. They are the same in
every process and with every version of Python; the suite compares them.
"""

import asyncio
import hashlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import structlog
from structlog.testing import LogCapture

from kcr_devcluster.testing.loop import VirtualLoop
from tests.chaos import job_runs, shard_runs
from tests.chaos.mutations.mutations import MutatedRequests
from tests.chaos.mutations.valid_requests import BUILTIN_KINDS, collection_of
from tests.chaos.requests.invariants import Invariants

RECORD = Path(__file__).with_name("traces.txt")
COMMAND = ".venv/bin/python -m tests.chaos.traces"
SEEDS = (("jobs", 3), ("jobs", 11), ("shards", 3), ("requests", 61))
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
    """Return a function that runs a story and returns its log, without names that are drawn for spans."""

    def trace(seed: int) -> str:
        capture = LogCapture()
        structlog.configure(processors=[capture])
        run(seed)
        structlog.reset_defaults()
        lines = (
            sorted((name, str(value)) for name, value in entry.items() if name != "reconcile_id")
            for entry in capture.entries
        )
        return "\n".join(map(repr, lines))

    return trace


TRACES: Mapping[str, Callable[[int], str]] = {
    "jobs": logs_of(job_runs.wrongs_of),
    "shards": logs_of(shard_runs.wrongs_of),
    "requests": trace_of_requests,
}


def hash_of(name: str, seed: int) -> str:
    """Return the hash of a trace."""
    return hashlib.sha256(TRACES[name](seed).encode()).hexdigest()


def recorded() -> dict[tuple[str, int], str]:
    """Return the hashes of the record, by name and seed."""
    rows = (line.split() for line in RECORD.read_text().splitlines() if not line.startswith("#"))
    return {(name, int(seed)): value for name, seed, value in rows}


def main(arguments: list[str]) -> None:
    """Print the hash of a trace, or record those of all seeds."""
    if arguments:
        name, seed = arguments
        print(hash_of(name, int(seed)))
        return
    rows = "".join(f"{name} {seed} {hash_of(name, seed)}\n" for name, seed in SEEDS)
    RECORD.write_text(f"# Made by `{COMMAND}`: the story, the seed, and the hash of its trace.\n{rows}")


if __name__ == "__main__":
    main(sys.argv[1:])
