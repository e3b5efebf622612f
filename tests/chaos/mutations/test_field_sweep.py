"""No field of a built-in kind that is left out, null or empty is a fault of the server.

`KCR_SWEPT_KINDS` names kinds, with commas between them; without it, `make soak` sweeps all.
"""

import asyncio
import logging
from random import Random

import pytest

from kcr_devcluster.testing.loop import VirtualLoop
from tests.chaos.mutations.field_sweep import Swept, faults_of, places, sweep_server, swept_field, swept_objects
from tests.chaos.mutations.valid_requests import BUILTIN_KINDS
from tests.kit.environment import setting

DRAWN = 200
CHOSEN = setting("KCR_SWEPT_KINDS", "").split(",")
KINDS = {f"{kind.type.api_version} {kind.type.kind}": kind for kind in BUILTIN_KINDS}


async def faults(objects: list[Swept]) -> list[str]:
    server = await sweep_server()
    try:
        return [fault for swept in objects for fault in await faults_of(server, swept)]
    finally:
        server.close()


def run(objects: list[Swept]) -> list[str]:
    logging.getLogger("kcr_devcluster.apiserver.server").setLevel(logging.CRITICAL)
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(faults(objects))


@pytest.mark.timeout(60)
def test_some_fields_may_be_left_out_or_empty() -> None:
    random = Random("swept fields")
    kinds = random.choices(BUILTIN_KINDS, k=DRAWN)
    drawn = [(kind, random.choice(tuple(places(kind)))) for kind in kinds]
    assert run([random.choice(tuple(swept_field(kind, place))) for kind, place in drawn]) == []


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", [name for name in KINDS if CHOSEN == [""] or name.split()[1] in CHOSEN])
def test_every_field_may_be_left_out_or_empty(name: str) -> None:
    assert run(list(swept_objects(KINDS[name]))) == []
