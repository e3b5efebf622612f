"""What `kcr explain` prints, for tests that compare whole texts."""

import re
from collections.abc import Iterable
from textwrap import dedent

from kcr.api.batch import Job
from kcr.api.meta import Key
from kcr.cli.objects.look import look
from kcr.cli.objects.screen import COLUMNS, LINES
from kcr.cli.objects.show import lines_of
from kcr.cli.objects.target import ObjectName
from tests.kit.scenario import Simulation

_COMMAND = re.compile(r" *(kubectl|kcr) .*")


async def explained(sim: Simulation, name: str = "pi") -> str:
    """Return what `kcr explain` prints of a Job; the random ends of pods' names are `x`."""
    target, key, now = ObjectName(Job, name), Key("default", name), sim.clock.now()
    return screen(lines_of(target, key, await look(sim.client, target, key, now), now))


def screen(lines: Iterable[str]) -> str:
    """Return lines as one text, and check that they fit one screen; commands may be longer, for they are copied."""
    found = list(lines)
    assert len(found) <= LINES, "it has to fit one screen"
    assert not [line for line in found if len(line) > COLUMNS and not _COMMAND.fullmatch(line)]
    return re.sub(r"\b(pi(-\d)?)-[a-z0-9]{5}\b", r"\1-x", "\n".join(found)) + "\n"


def text(block: str) -> str:
    """Return an expected text, as it stands in a test."""
    return dedent(block).lstrip("\n")
