"""One seed has one trace: a run is told again by its number, in every process."""

import asyncio
import hashlib
import os
import subprocess
import sys
from random import Random

import pytest

from kcr.testing.loop import VirtualLoop
from tests.chaos.mutations.mutations import MutatedRequests
from tests.chaos.mutations.valid_requests import BUILTIN_KINDS, collection_of
from tests.chaos.requests.invariants import Invariants

SEED, LENGTH = 61, 30


def trace_of(seed: int) -> str:
    """Return the hash of the requests that a seed draws, and of the server's responses."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_trace_of(seed))


async def _trace_of(seed: int) -> str:
    collections = tuple(dict.fromkeys(map(collection_of, BUILTIN_KINDS)))
    world, requests = Invariants(seed, BUILTIN_KINDS, collections), MutatedRequests(Random(seed))
    found = hashlib.sha256()
    for kind in BUILTIN_KINDS:
        found.update(repr(requests.valid.of_kind(kind)).encode())
    for _ in range(LENGTH):
        request = requests.request()
        response = await world.server.handle(request)
        found.update(repr((request, response.status)).encode())
    world.server.close()
    return found.hexdigest()


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_requests_of_a_seed_are_the_same_in_every_process(hash_seed: str) -> None:
    program = f"from {__name__} import trace_of; print(trace_of({SEED}))"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == trace_of(SEED)
