"""Histories of concurrent writers and watchers are those of a linearizable store.

On the embedded server in virtual time, with reviews that take time, on a journal with restarts, and in real time over
TLS: there on kube-apiserver where `KUBEBUILDER_ASSETS` names one. A server with a fault of its storage is found out.

Source: etcd's guarantees, https://etcd.io/docs/v3.5/learning/api_guarantees/.
"""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr.client import Request, Response, Transport
from kcr.errors import TransportError
from kcr.testing.fakes import MadeUp
from kcr_devcluster.apiserver import APIServer, Storage
from kcr_devcluster.apiserver.storage.journal import Journal
from kcr_devcluster.testing.controlplane import ApiServer
from kcr_devcluster.testing.loop import VirtualClock, VirtualLoop
from kcr_devcluster.transport import InProcessTransport
from tests.kit.api import Api
from tests.kit.histories import NEVER, Call, History, Obj, Plan, record
from tests.kit.linearizability import explained, violations
from tests.kit.webhooks import Webhooks

COLLECTION = "/api/v1/namespaces/default/configmaps"
CONFIG_MAPS = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
PLANS = st.builds(
    Plan,
    seed=st.integers(0, 2**32),
    clients=st.integers(1, 5),
    steps=st.integers(1, 8),
    names=st.integers(1, 3),
    watchers=st.integers(0, 4),
    losses=st.sampled_from((0.0, 0.2)),
    pace=st.just(0.2),
)
# Some seeds on which each fault has to show.
SEEDS = 20


async def of_server(plan: Plan, wrap: Callable[[Transport], Transport] = lambda inner: inner) -> History:
    server = APIServer(Storage(), clock=VirtualClock(), random=Random(plan.seed))
    history = await record(wrap(InProcessTransport(server)), COLLECTION, plan)
    server.close()
    return history


async def of_reviewed_writes(plan: Plan) -> History:
    """Record a history whose writes wait for a webhook between their read and their commit."""
    server, random = APIServer(Storage(), clock=VirtualClock(), random=Random(plan.seed)), Random(plan.seed)

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(random.random() * plan.pace)
        return {}

    await Webhooks(Api(server)).add("Validating", "slow", answer, rules=[CONFIG_MAPS])
    history = await record(InProcessTransport(server), COLLECTION, plan)
    server.close()
    return history


class RestartingServer:
    """An API server on a journal that dies now and then; what is on its way then gets no answer."""

    def __init__(self, file: Path, seed: int) -> None:
        self._file, self._seed = file, seed
        self._journal = Journal(file)
        self._server = self._serve()

    def _serve(self) -> APIServer:
        return APIServer(Storage(self._journal), clock=VirtualClock(), random=Random(self._seed))

    def restart(self) -> None:
        """Die, and start again from what the journal has."""
        old = self._server
        self._journal.close()
        self._journal, self._seed = Journal(self._file), self._seed + 1
        self._server = self._serve()
        old.close()

    def close(self) -> None:
        """End for good."""
        self._server.close()
        self._journal.close()

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Send one request."""
        server = self._server
        async with InProcessTransport(server).send(request) as response:
            if server is not self._server:
                raise TransportError("the server died")
            yield response


async def of_restarts(plan: Plan, file: Path) -> History:
    server, random = RestartingServer(file, plan.seed), Random(plan.seed)

    async def restart() -> None:
        while True:
            await asyncio.sleep(random.random() * 5 * plan.pace)
            server.restart()

    async with asyncio.TaskGroup() as group:
        restarts = group.create_task(restart())
        history = await record(server, COLLECTION, plan)
        restarts.cancel()
    server.close()
    return history


def run(recording: Any) -> History:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        history: History = runner.run(recording)
    return history


@given(PLANS)
def test_history_is_linearizable(plan: Plan) -> None:
    assert violations(run(of_server(plan))) == []


@given(PLANS)
def test_history_of_reviewed_writes_is_linearizable(plan: Plan) -> None:
    assert violations(run(of_reviewed_writes(plan))) == []


@given(PLANS)
def test_history_across_restarts_is_linearizable(tmp_path_factory: pytest.TempPathFactory, plan: Plan) -> None:
    file = tmp_path_factory.mktemp("journal") / "kcr.db"
    assert violations(run(of_restarts(plan, file))) == []


@pytest.mark.kcr_integration
@pytest.mark.asyncio
@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(3))
async def test_history_in_real_time_is_linearizable(kcr_apiserver: ApiServer, seed: int) -> None:
    collection = f"/api/v1/namespaces/{kcr_apiserver.namespace}/configmaps"
    history = await record(kcr_apiserver.transport, collection, Plan(seed, clients=5, steps=8, losses=0.1, pace=0.02))
    assert violations(history) == []


class Faulty:
    """A way to a server that passes requests, or answers, through a function, as if its storage had a fault."""

    def __init__(
        self,
        inner: Transport,
        ask: Callable[[Request], Request] = lambda request: request,
        answer: Callable[[Request, bytes], bytes] = lambda request, body: body,
        line: Callable[[bytes], list[bytes]] = lambda line: [line],
    ) -> None:
        self._inner, self._ask, self._answer, self._line = inner, ask, answer, line

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        """Send one request."""
        async with self._inner.send(self._ask(request)) as response:
            if "watch=true" in request.target:
                yield _FaultyWatch(response, self._line)
            else:
                body = self._answer(request, await response.read())
                yield MadeUp(response.status, body, response.headers)


class _FaultyWatch:
    def __init__(self, inner: Response, line: Callable[[bytes], list[bytes]]) -> None:
        self.status, self.headers, self._inner, self._line = inner.status, inner.headers, inner, line

    async def read(self) -> bytes:
        return await self._inner.read()

    async def lines(self) -> AsyncIterator[bytes]:
        async for shown in self._inner.lines():
            for one in self._line(shown):
                yield one


def guard_ignores_the_version(request: Request) -> Request:
    body = re.sub(rb'"resourceVersion":"\d+"', b'"resourceVersion":""', request.body)
    return request._replace(body=body if request.method in ("PUT", "PATCH") else request.body)


def list_mixes_two_versions(request: Request) -> Request:
    """Read later pages from the present, as a server does whose history no longer has the version of the first."""
    target, more, text = request.target.partition("&continue=")
    if not more:
        return request
    token = msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    present = base64.urlsafe_b64encode(msgspec.json.encode({**token, "rv": -1})).decode().rstrip("=")
    return request._replace(target=f"{target}{more}{present}")


class StaleReads:
    """Answers each read of an object as the first one was answered."""

    def __init__(self) -> None:
        self._first: dict[str, bytes] = {}

    def __call__(self, request: Request, body: bytes) -> bytes:
        if request.method != "GET" or "?" in request.target or b'"ConfigMap"' not in body:
            return body
        return self._first.setdefault(request.target, body)


def list_hides_an_object(request: Request, body: bytes) -> bytes:
    document = msgspec.json.decode(body)
    if document.get("kind") == "ConfigMapList" and len(document["items"]) > 1:
        document["items"].pop()
    return msgspec.json.encode(document)


def list_has_an_older_version(request: Request, body: bytes) -> bytes:
    document = msgspec.json.decode(body)
    if document.get("kind") == "ConfigMapList" and document["items"]:
        document["metadata"]["resourceVersion"] = str(int(document["metadata"]["resourceVersion"]) - 1)
    return msgspec.json.encode(document)


def watch_forgets_deletions(line: bytes) -> list[bytes]:
    return [] if b'"DELETED"' in line else [line]


def watch_repeats_changes(line: bytes) -> list[bytes]:
    return [line, line] if b'"MODIFIED"' in line else [line]


class LateEvents:
    """Shows each other event after the one that follows it."""

    def __init__(self) -> None:
        self._held: list[bytes] = []

    def __call__(self, line: bytes) -> list[bytes]:
        if b'"MODIFIED"' in line and not self._held:
            self._held = [line]
            return []
        shown, self._held = [line, *self._held], []
        return shown


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        pytest.param({"ask": guard_ignores_the_version}, "no order of the calls on", id="guard-ignores-the-version"),
        pytest.param({"ask": list_mixes_two_versions}, "pages of a list are of several", id="list-mixes-two-versions"),
        pytest.param({"answer": StaleReads()}, "no order of the calls on", id="stale-read"),
        pytest.param({"answer": list_hides_an_object}, "a list is not the state at its", id="list-hides-an-object"),
        pytest.param({"answer": list_has_an_older_version}, "a list ", id="list-has-an-older-version"),
        pytest.param({"line": watch_forgets_deletions}, "was deleted", id="watch-forgets-deletions"),
        pytest.param({"line": watch_repeats_changes}, "a watch has not seen the changes", id="watch-repeats-changes"),
        pytest.param({"line": LateEvents()}, "versions of changes do not grow", id="watch-reorders-changes"),
    ],
)
def test_fault_of_the_storage_is_found(options: dict[str, Any], wrong: str) -> None:
    plans = (Plan(seed, clients=4, names=4, steps=10) for seed in range(SEEDS))
    found = (violations(run(of_server(plan, lambda inner: Faulty(inner, **options)))) for plan in plans)
    assert any(wrong in one for told in found for one in told)


NEW, OLD = frozenset({("by", "new")}), frozenset({("by", "old")})
CREATED = Call("create", "o", 0, OLD, 0, 1, 201, Obj(5, "u", OLD))
LOST = Call("put", "o", 0, NEW, 2, NEVER)


def read(labels: frozenset[tuple[str, str]], version: int, called: int) -> Call:
    return Call("get", "o", 0, frozenset(), called, called + 1, 200, Obj(version, "u", labels))


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        pytest.param([CREATED, LOST, read(OLD, 5, 9)], True, id="lost-write-has-not-happened"),
        pytest.param([CREATED, LOST, read(OLD, 5, 3), read(NEW, 6, 9)], True, id="lost-write-happens-late"),
        pytest.param([CREATED, LOST, read(NEW, 6, 3), read(OLD, 5, 9)], False, id="lost-write-is-undone"),
        pytest.param([CREATED, LOST, read(NEW, 6, 3), read(NEW, 7, 9)], False, id="lost-write-happens-twice"),
        pytest.param([CREATED, read(OLD, 6, 3)], False, id="version-that-was-never-written"),
        pytest.param([read(OLD, 5, 2), CREATED._replace(called=4, returned=5)], False, id="read-before-the-write"),
        pytest.param([read(OLD, 5, 2), CREATED._replace(called=1, returned=9)], True, id="read-during-the-write"),
        pytest.param([CREATED, CREATED._replace(called=3, returned=4)], False, id="created-twice"),
        pytest.param(
            [CREATED, Call("put", "o", 4, NEW, 2, 3, 200, Obj(6, "u", NEW))], False, id="guard-of-another-version"
        ),
        pytest.param(
            [CREATED, Call("put", "o", 5, NEW, 2, 3, 409)], False, id="conflict-although-the-version-is-right"
        ),
        pytest.param(
            [CREATED, Call("put", "o", 0, OLD, 2, 3, 200, Obj(6, "u", OLD))], False, id="version-without-a-change"
        ),
    ],
)
def test_calls_are_explained_only_by_what_a_store_does(calls: list[Call], *, expected: bool) -> None:
    assert explained(calls) is expected
