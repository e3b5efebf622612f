"""What `kcr explain` prints, for tests that compare whole texts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from textwrap import dedent
from urllib.parse import parse_qs, urlencode

from kcr.api.batch import Job
from kcr.api.meta import Key, Resource
from kcr.app.plugins import find_explainers
from kcr.cli.debug.port import DebugPort
from kcr.cli.objects.explain import lines_of
from kcr.cli.objects.inside import Inside, ask
from kcr.cli.objects.look import look
from kcr.cli.objects.screen import COLUMNS, LINES
from kcr.cli.target import ObjectName, parse_object, resolved
from kcr.client import Client
from kcr.client.explainers import Explainer
from kcr.clock import Clock
from kcr.serving.debug.access import DebugOptions
from kcr.serving.debug.routes import DebugPages
from kcr.serving.debug.sources import StateSources
from kcr.serving.health import Health
from kcr.serving.ports import ProbeRequest, ProgramLoop
from tests.kit.open_manager import OpenManager
from tests.kit.scenario import Simulation

# Those of the plugins of kcr.
EXPLAINERS = find_explainers((), print)
_COMMAND = re.compile(r" *(kubectl|kcr) .*")


async def explained(sim: Simulation, name: str = "pi") -> str:
    """Return what `kcr explain` prints of a Job; the random ends of pods' names are `x`."""
    target, key, now = ObjectName(Job, name), Key("default", name), sim.clock.now()
    return screen(lines_of(target, key, await look(sim.client, target, key, now, EXPLAINERS), now))


async def explained_object(
    client: Client,
    clock: Clock,
    what: str,
    namespace: str = "default",
    manager: OpenManager | None = None,
    explainers: Sequence[Explainer] = EXPLAINERS,
) -> str:
    """Return what `kcr explain KIND/NAME` prints of an object of any kind.

    Args:
        client: Where to read.
        clock: What time it is.
        what: The object, as the command line names it.
        namespace: Where it is.
        manager: The manager whose debug port is asked too; None for none.
        explainers: Those of plugins.
    """
    target = await resolved(client, parse_object(what))
    key, now = Key(namespace if target.kind.resource.namespaced else "", target.name), clock.now()
    inside = None if manager is None else await inside_of(manager, target.kind, key)
    return screen(lines_of(target, key, await look(client, target, key, now, explainers, inside), now, inside))


class _OwnPort(DebugPort):
    """The debug port of a manager in this process."""

    pages: DebugPages

    async def get(self, path: str, query: Mapping[str, str] = {}, seconds: float = 5.0) -> bytes:
        values = parse_qs(urlencode(query), keep_blank_values=True)
        request = ProbeRequest(f"/debug/kcr{path}", values, client="127.0.0.1", host="localhost:8081")
        answer = await self.pages.answer(request)
        assert answer is not None and answer.status == 200, answer
        return answer.body


async def inside_of(manager: OpenManager, kind: type[Resource], key: Key) -> Inside:
    """Return what the controllers of a manager know of a key, as its debug port says."""
    sources = StateSources(Health(), manager.clock)
    sources.controllers, sources.options = manager.by_name, DebugOptions(command="kcr run")
    port = _OwnPort("", "", is_named=True)
    port.pages = DebugPages(sources, ProgramLoop())
    return await ask(port, kind, key)


def screen(lines: Iterable[str]) -> str:
    """Return lines as one text, and check that they fit one screen; commands may be longer, for they are copied."""
    found = list(lines)
    assert len(found) <= LINES, "it has to fit one screen"
    assert not [line for line in found if len(line) > COLUMNS and not _COMMAND.fullmatch(line)]
    shown = re.sub(r"(\w\.py):\d+", r"\1:1", "\n".join(found))
    shown = re.sub(r"\bkcr run \S+, pid \d+", "kcr run 1.0, pid 1", shown)
    shown = re.sub(r"\b(web-)[a-z0-9]{8,10}(-[a-z0-9]{5})?\b", lambda end: f"{end[1]}x{'-x' if end[2] else ''}", shown)
    return re.sub(r"\b(pi(-\d)?)-[a-z0-9]{5}\b", r"\1-x", shown) + "\n"


def text(block: str) -> str:
    """Return an expected text, as it stands in a test."""
    return dedent(block).lstrip("\n")
