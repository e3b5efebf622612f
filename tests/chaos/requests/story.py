"""Stories of requests: one seed, one server, one story; of a story that breaks an invariant, the shortest like it.

`python -m tests.chaos.requests.story FIRST COUNT` tells the stories of some seeds until one breaks an invariant.
"""

import asyncio
import logging
import sys
from collections.abc import Coroutine, Sequence
from random import Random
from typing import NamedTuple

import msgspec
import yaml

from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.testing.loop import VirtualLoop
from tests.chaos.requests.grammar import RequestGrammar
from tests.chaos.requests.invariants import Invariants
from tests.chaos.requests.replicas import ViolationError

LENGTH = 200
_CHECK_EVERY = 20
# How often a story is told again to shorten it.
_MOST_RETELLINGS = 400
# A request, or None for a checkpoint.
Step = HTTPRequest | None


class Failure(NamedTuple):
    """A story that breaks an invariant."""

    seed: int
    steps: Sequence[Step]
    rule: str
    what: str

    def __str__(self) -> str:
        told = (_told(step) for step in self.steps)
        return "\n".join((f"seed {self.seed}: {self.rule}", *told, f"  => {self.what[:4000]}"))


def _told(step: Step) -> str:
    if step is None:
        return "  check"
    head = f"  {step.method} {step.target} {dict(step.headers)}"
    return f"{head}\n    {step.body[:3000]!r}" if step.body else head


def failure_of(seed: int, *, length: int = LENGTH, shorten: bool = True) -> Failure | None:
    """Tell the story of a seed; return the shortest that breaks the same invariant, None where all hold."""
    logging.getLogger("kcr_devcluster.apiserver.server").setLevel(logging.CRITICAL)
    failure = _run(_draw(seed, length))
    return failure and (_shortest(failure) if shorten else failure)


def _run(story: Coroutine[None, None, Failure | None]) -> Failure | None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(story)


async def _draw(seed: int, length: int) -> Failure | None:
    world, steps = Invariants(seed), list[Step]()
    grammar = RequestGrammar(Random(f"requests {seed}"), world.server)
    try:
        for number in range(1, length + 1):
            steps.append(await grammar.draw())
            await world.send(steps[-1])  # type: ignore[arg-type]
            if number % _CHECK_EVERY == 0:
                steps.append(None)
                await world.check()
    except ViolationError as found:
        return Failure(seed, steps, found.rule, found.what)
    finally:
        world.server.close()
    return None


async def _replay(seed: int, steps: Sequence[Step]) -> Failure | None:
    world = Invariants(seed)
    try:
        for step in steps:
            await (world.check() if step is None else world.send(await _renewed(world, step)))
    except ViolationError as found:
        return Failure(seed, steps, found.rule, found.what)
    finally:
        world.server.close()
    return None


async def _renewed(world: Invariants, request: HTTPRequest) -> HTTPRequest:
    """Return a PUT with the uid and the version that the object has in this telling of the story."""
    if request.method != "PUT" or b"uid" not in request.body:
        return request
    response = await world.server.handle(HTTPRequest("GET", request.target.partition("?")[0]))
    try:
        given, current = yaml.safe_load(request.body), msgspec.json.decode(response.body)  # type: ignore[arg-type]
        metadata = {name: current["metadata"][name] for name in ("uid", "resourceVersion")}
        body = msgspec.json.encode({**given, "metadata": {**given["metadata"], **metadata}})
    except (yaml.YAMLError, ValueError, KeyError, TypeError):
        return request
    return request._replace(body=body, headers={**request.headers, "Content-Type": "application/json"})


def _shortest(failure: Failure) -> Failure:
    """Leave out steps while the same invariant breaks: first many at once, then each by itself."""
    requests = [step for step in failure.steps[:-1] if step is not None]
    # Most checkpoints find nothing, and they take the most time.
    failure = _like(failure, [*requests, failure.steps[-1]]) or failure
    told, size = 0, len(failure.steps) // 2
    while size and told < _MOST_RETELLINGS:
        start = 0
        while start < len(failure.steps) and told < _MOST_RETELLINGS:
            told += 1
            shorter = _like(failure, [*failure.steps[:start], *failure.steps[start + size :]])
            if shorter is None:
                start += size
            else:
                failure = shorter
        size //= 2
    return failure


def _like(failure: Failure, steps: Sequence[Step]) -> Failure | None:
    """Return the failure of a story if it breaks the same invariant."""
    found = _run(_replay(failure.seed, steps))
    return found if found is not None and found.rule == failure.rule else None


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int((*sys.argv, "1")[2])
    for seed in range(first, first + count):
        if (failure := failure_of(seed, shorten="--whole" not in sys.argv)) is not None:
            print(failure)
            break
