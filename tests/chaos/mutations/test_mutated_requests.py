"""Mutated requests of all kinds: no hang, no exception, no fault of the server but the real one's, nothing broken.

A failing seed is told again by its number; `KCR_SEEDS` says how many hundreds there are.
"""

import asyncio
import logging
from random import Random

import msgspec
import pytest

from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.testing.loop import VirtualLoop
from tests.chaos.mutations.mutations import MutatedRequests
from tests.chaos.mutations.valid_requests import BUILTIN_KINDS, collection_of
from tests.chaos.requests.invariants import Invariants
from tests.chaos.requests.replicas import ViolationError
from tests.chaos.requests.schemas import SchemaDraw
from tests.kit.custom_resources import DEFINITIONS
from tests.kit.environment import setting

LENGTH = 100
QUICK, ALL = 2, int(setting("KCR_SEEDS", "10000")) // LENGTH
COLLECTIONS = tuple(dict.fromkeys(collection_of(kind) for kind in BUILTIN_KINDS))


def violation_of(seed: int) -> str:
    """Send a hundred requests to a server; return what is wrong with the first whose response is."""
    logging.getLogger("kcr_devcluster.apiserver.server").setLevel(logging.CRITICAL)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_violation_of(seed))


async def _violation_of(seed: int) -> str:
    random = Random(f"mutations {seed}")
    world, requests = Invariants(seed, BUILTIN_KINDS, COLLECTIONS), MutatedRequests(random)
    # The first request for APIServices stores the local ones.
    request = HTTPRequest("GET", next(path for path in COLLECTIONS if path.endswith("/apiservices")))
    await world.server.handle(request)
    try:
        for plural in ("widgets", "things"):
            request = HTTPRequest("POST", DEFINITIONS, {}, msgspec.json.encode(SchemaDraw(random).definition(plural)))
            await world.send(request)
        for kind in BUILTIN_KINDS:
            request = HTTPRequest("POST", collection_of(kind), {}, msgspec.json.encode(requests.valid.of_kind(kind)))
            await world.send(request)
        for number in range(LENGTH):
            if number % 25 == 10:
                await _record(world, requests)
            request = requests.request()
            await world.send(request)
        request = HTTPRequest("GET", "/", {}, b"the checks at the end")
        await world.check()
    except ViolationError as found:
        sent = f"{request.method} {request.target[:500]} {dict(request.headers)}\n{request.body[:3000]!r}"
        return f"seed {seed}: {found.rule}\n{sent[:5000]}\n=> {found.what[:3000]}"
    finally:
        world.server.close()
    return ""


async def _record(world: Invariants, requests: MutatedRequests) -> None:
    """Have requests drawn from what the server has now, too."""
    for path in COLLECTIONS:
        response = await world.server.handle(HTTPRequest("GET", path))
        assert isinstance(response.body, bytes)
        listed = msgspec.json.decode(response.body)
        head = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
        requests.valid.record(path, [{**head, **item} for item in listed["items"]])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(QUICK))
def test_some_mutated_requests_break_nothing(seed: int) -> None:
    assert violation_of(seed) == ""


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(QUICK, QUICK + ALL))
def test_mutated_requests_break_nothing(seed: int) -> None:
    assert violation_of(seed) == ""
