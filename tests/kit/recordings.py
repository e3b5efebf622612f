"""Recorded answers of a real API server, and how an answer of the embedded one differs from them.

Each row is a creation with what kube-apiserver 1.36.2 answered. In the answers stand `<uid>`, `<time>`, `<rv>`,
`<clusterIP>`, `<nodePort>`, `<token>` and `<drawn>` for what differs from run to run; managedFields are left out.
"""

import gzip
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kcr.clock import Clock
from kcr_devcluster.apiserver import APIServer
from kcr_devcluster.apiserver.kinds.catalogue import ALL_KINDS
from kcr_devcluster.apiserver.kinds.views import VIEWS
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.versions import VERSIONS
from tests.kit.api import Api, Reply

CREATIONS = Path(__file__).parents[1] / "apiserver" / "recordings" / "creations.jsonl.gz"
_DRAWN = re.compile("<(?:uid|time|rv|clusterIP|nodePort|token|drawn)>")
# The class that a recorded pod names.
_PRIORITY_CLASS = {"metadata": {"name": "pc"}, "value": 100, "preemptionPolicy": "Never"}
# What the embedded server says of kinds that nothing acts on, which no real server has to say.
_NOTICES = (
    '[a-z.0-9]+ are stored by this server, and [^"]*nothing here acts on them|the address of a Service leads nowhere'
)
NOTICE = re.compile(rf'(?:, )?299 - "(?:{_NOTICES})[^"]*"')


class Recording(msgspec.Struct, frozen=True):
    """One creation and its answer.

    Attributes:
        area: Where the request belongs.
        what: What it tries.
        path: Where the body is posted to.
        body: The object as it was sent.
        code: The status code.
        warning: The `Warning` header.
        answer: The document that came back.
    """

    area: str
    what: str
    path: str
    body: dict[str, Any]
    code: int
    warning: str | None
    answer: dict[str, Any]

    @property
    def namespace(self) -> str:
        """The namespace of the path, `""` for none."""
        return self.path.partition("/namespaces/")[2].partition("/")[0]


def recordings() -> dict[str, list[Recording]]:
    """Return the rows by area, in the order in which they were sent."""
    areas: dict[str, list[Recording]] = {}
    decoder = msgspec.json.Decoder(Recording)
    for line in gzip.decompress(CREATIONS.read_bytes()).splitlines():
        row = decoder.decode(line)
        areas.setdefault(row.area, []).append(row)
    return areas


async def server_without_controllers(clock: Clock, rows: Sequence[Recording]) -> Api:
    """Return the API of a server as it was when rows were recorded: namespaces, accounts, and no controllers."""
    namespaces = {row.namespace for row in rows} - {""}
    server = APIServer(
        Storage(),
        clock=clock,
        random=random.Random(0),
        kinds=(*ALL_KINDS, *VIEWS),
        protects_volumes=True,
        version=VERSIONS[0],
    )
    api = Api(server)
    for name in sorted(namespaces):
        await api.post("/api/v1/namespaces", {"metadata": {"name": name}})
        await api.post(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
    await api.post("/apis/scheduling.k8s.io/v1/priorityclasses", _PRIORITY_CLASS)
    return api


async def replay(api: Api, row: Recording) -> list[str]:
    """Send the creation of a row, and return how the answer differs from the recorded one."""
    reply = await api.call("POST", row.path, row.body, content_type="application/json")
    if reply.status != row.code:
        said = reply.body.get("message", "accepted") if isinstance(reply.body, dict) else reply.body
        return [f"code {reply.status} for {row.code}: {said}"]
    found = _warning_difference(row, reply)
    return found + (_refusal_difference(row.answer, reply.body) if row.code >= 300 else list(differences(row, reply)))


def _warning_difference(row: Recording, reply: Reply) -> list[str]:
    said = NOTICE.sub("", reply.headers.get("Warning", "")).removeprefix(", ")
    # Of several headers, the recording has the last.
    last = f"299 - {said.rpartition('299 - ')[2]}" if said else None
    return [] if last == row.warning else [f"warning {last!r} for {row.warning!r}"]


def _refusal_difference(wanted: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    found = [] if wanted.get("reason") == given.get("reason") else [f"reason {given.get('reason')}"]
    before, after = _causes(wanted), _causes(given)
    found += [f"no cause {cause}" for cause in sorted(before - after)]
    return found + [f"cause {cause}" for cause in sorted(after - before)]


def _causes(status: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the fields and reasons of causes; some are there twice upstream."""
    causes = (status.get("details") or {}).get("causes") or ()
    return {(cause.get("field", ""), cause.get("reason", "")) for cause in causes}


def differences(row: Recording, reply: Reply) -> Iterator[str]:
    """Yield how an object differs from the recorded one."""
    yield from _differences(row.answer, reply.body, "")


def _differences(wanted: Any, given: Any, path: str) -> Iterator[str]:
    if isinstance(wanted, dict) and isinstance(given, dict):
        for name in sorted(wanted.keys() | given.keys()):
            place = f"{path}.{name}".removeprefix(".")
            if name not in given:
                yield f"no {place}"
            elif name not in wanted:
                yield f"{place}: {given[name]!r}"
            else:
                yield from _differences(wanted[name], given[name], place)
    elif isinstance(wanted, list) and isinstance(given, list) and len(wanted) == len(given):
        for position, (one, other) in enumerate(zip(wanted, given, strict=True)):
            yield from _differences(one, other, f"{path}[{position}]")
    elif isinstance(wanted, str) and _DRAWN.search(wanted):
        if not re.fullmatch(".+".join(map(re.escape, _DRAWN.split(wanted))), str(given)):
            yield f"{path}: {given!r} for {wanted!r}"
    elif wanted != given or type(wanted) is not type(given):
        yield f"{path}: {given!r} for {wanted!r}"
