"""Stories of server-side apply, side by side with a real API server where `KUBEBUILDER_ASSETS` names one.

The stories are those of the laws. Every answer has to be alike: its code, the fields that it names, the stored object
and the managers that have applied. `KCR_SEEDS` says how many stories are told, `KCR_FIRST_SEED` where they begin.
"""

import asyncio
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.testing.controlplane import VARIABLE, find_assets
from tests.apiserver.parity.servers import Send, embedded, real
from tests.apiserver.test_server_side_apply_laws import KINDS_USED, LENGTH, TYPED, Draw, Session
from tests.kit.api import Reply
from tests.kit.environment import setting

FIRST, SEEDS = int(setting("KCR_FIRST_SEED", "0")), int(setting("KCR_SEEDS", "200"))
JSON, APPLY, MERGE = "application/json", "application/apply-patch+yaml", "application/merge-patch+json"
# Drawn by each server.
DRAWN = {
    "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "clusterIP", "clusterIPs",
    "controller-uid", "batch.kubernetes.io/controller-uid",
}  # fmt: skip
# Differences by what is told of them, with the reasons.
KNOWN = (
    (r"/services/a/status.*\nhere: 404", "upstream creates a Service through its status, without addresses"),
    (r'conflict with "before-first-apply"', "here, updates are recorded from the first apply of a field on"),
    (r"\nthere: 500 .*failed to (create typed live|convert new) object", "upstream cannot read what it has stored"),
    (r"/serviceaccounts/a.*'secrets': \[\{", "upstream, who writes what the server drops takes its ownership"),
    (r"/nodes/a.*'config(Source)?': \{", "the same"),
    (r"/configmaps/a.*'binaryData': \{\}", "an empty map is no map: upstream compares it with none"),
    (r"/jobs/a.*'claims': \[\]", "an empty list is none: upstream says that it may not be set"),
    (r"/jobs/a.*'rules': \[\]", "an empty list that has to be there is null upstream"),
    (r"/jobs/a.*\nthere: 422 .*'field': 'metadata.labels'", "labels are copied from the template of the request"),
    (r"PUT [^?]*/jobs/a/status.*\nhere: 200 .*'job-name': 'a'", "the same"),
)


class Exchange(NamedTuple):
    """A request, and its answer."""

    method: str
    target: str
    body: Any
    status: int
    answer: Any


class Recorder:
    """Sends the requests of a story to a server, and keeps the answers."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.exchanges: list[Exchange] = []

    async def call(self, method: str, target: str, body: object = b"", content_type: str = JSON) -> Reply:
        """Send one request."""
        status, answer = await self._send(method, target, body or None, content_type=content_type)
        self.exchanges.append(Exchange(method, target, body, status, answer))
        return Reply(status, {}, answer)

    async def apply(self, target: str, body: object, manager: str = "m", query: str = "") -> Reply:
        """Send a server-side apply."""
        return await self.call("PATCH", f"{target}?fieldManager={manager}&{query}", body, content_type=APPLY)


async def told(send: Send, seed: int) -> list[Exchange]:
    """Tell the story of a seed to a server, which has not seen its object before; return the exchanges."""
    kind = next(kind for kind in KINDS if kind.type.kind == KINDS_USED[seed % len(KINDS_USED)])
    recorder = Recorder(send)
    session = Session(recorder, kind, Draw(seed))
    await recorder.call("DELETE", f"{session.target}?gracePeriodSeconds=0")
    await recorder.call("PATCH", session.target, {"metadata": {"finalizers": None}}, content_type=MERGE)
    recorder.exchanges.clear()
    for _ in range(LENGTH):
        await session.write(await session.current())
    return recorder.exchanges


def shown(value: Any) -> Any:
    """Return an answer without what servers draw; of managers, those that have applied."""
    if isinstance(value, list):
        return [shown(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {name: shown(one) for name, one in value.items() if name not in DRAWN}
    # Upstream records updates from the creation on, here they are recorded from the first apply on.
    applied = [one for one in kept.pop("managedFields", None) or () if one["operation"] == "Apply"]
    managers = sorted(applied, key=lambda one: (one["manager"], one.get("subresource", "")))
    return {**kept, "managedFields": managers} if managers else kept


def refusal(status: Any) -> Any:
    """Return what a refusal says: the fields that it names, or its message; of types, upstream names some at random."""
    causes, message = (status.get("details") or {}).get("causes") or (), status.get("message", "")
    if message.startswith(TYPED):
        return TYPED
    return sorted({(cause.get("field", ""), cause["reason"]) for cause in causes}) or message


def difference(ours: Exchange, theirs: Exchange) -> str:
    """Return how two answers to one request differ, `""` where they are alike."""
    one, other = (ours.status, theirs.status), (ours.answer, theirs.answer)
    if one[0] == one[1] and ours.status >= 400:
        one = refusal(other[0]), refusal(other[1])
    elif one[0] == one[1]:
        one = shown(other[0]), shown(other[1])
    if one[0] == one[1]:
        return ""
    asked = f"{ours.method} {ours.target} {ours.body}"
    return f"{asked}\nhere: {ours.status} {other[0]}\nthere: {theirs.status} {other[1]}"


def differences(here: list[Exchange], there: list[Exchange]) -> Iterator[str]:
    """Yield how the answers to a story differ where that is not known, up to the first after which the objects do."""
    for ours, theirs in zip(here, there, strict=False):
        found = difference(ours, theirs)
        if found and not any(re.search(known, found, re.DOTALL) for known, _ in KNOWN):
            yield found
        if (ours.status < 400) != (theirs.status < 400) or (found and ours.status < 400):
            return


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.skipif(find_assets(os.environ) is None, reason=f"{VARIABLE} names no API server")
def test_stories_of_applies_are_answered_as_by_a_real_server() -> None:
    found: list[str] = []

    async def compare() -> None:
        async with real() as send:
            assert send is not None
            for seed in range(FIRST, FIRST + SEEDS):
                there = await told(send, seed)
                async with embedded() as own:
                    here = await told(own, seed)
                found.extend(f"seed {seed}: {one}" for one in differences(here, there))

    asyncio.run(compare())
    assert found == []
