"""The debug pages of a running manager, over HTTP."""

import asyncio
import random
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import kcr
from kcr.api.core import ConfigMap
from kcr.api.explanation import Explanation, Step
from kcr.cluster import EmbeddedCluster
from kcr.debug import port, routes
from kcr.debug.access import DebugOptions
from kcr.endpoint import ProbeRequest, ProbeResponse
from kcr.testing import eventually

pytestmark = [pytest.mark.asyncio]

# The longest that a test blocks the loop for, should nothing end it before.
BLOCKED_SECONDS = 8.0


class Blocking:
    """A reconciler that blocks the event loop for the key `block`, until it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.is_blocked = threading.Event()

    async def reconcile(self, key: kcr.Key) -> kcr.Result:
        if key.name == "block":
            self.is_blocked.set()
            self.hold_up()
        if key.name == "bad":
            raise kcr.TerminalError("no such zone")
        return kcr.Result()

    def hold_up(self) -> None:
        end = time.perf_counter() + BLOCKED_SECONDS
        while not self.released.is_set() and time.perf_counter() < end:
            sum(range(1000))

    async def explain(self, key: kcr.Key) -> Explanation:
        if key.name == "bad":
            raise LookupError("no such object")
        return Explanation(headline="all is well", next=(Step("nothing happens"),))


class Reader:
    """Reads from the port in a thread, as another process does."""

    def __init__(self, base: str) -> None:
        self._base = base

    def read_now(self, path: str, **headers: str) -> tuple[int, str]:
        request = urllib.request.Request(f"http://{self._base}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    async def read(self, path: str, **headers: str) -> tuple[int, str]:
        return await asyncio.to_thread(self.read_now, path, **headers)

    async def json(self, path: str) -> Any:
        status, text = await self.read(path)
        assert status == 200, text
        return msgspec.json.decode(text)


@asynccontextmanager
async def running(reconciler: object, **options: Any) -> AsyncIterator[tuple[Reader, kcr.WorkQueue[kcr.Key]]]:
    addresses: list[str] = []
    async with EmbeddedCluster(runtime=None) as cluster:
        manager = kcr.Manager(kcr.Client(cluster.transport), random=random.Random(0))
        manager.expose(probes="127.0.0.1:0", debug=DebugOptions(on_listening=addresses.append, **options))
        controller = manager.add_controller("test", reconciler, watches=[kcr.watch(ConfigMap)])  # type: ignore[arg-type]
        async with manager.running():
            yield Reader(addresses[0]), controller.queue


async def test_state_shows_the_parts_of_the_manager() -> None:
    async with running(Blocking(), command="test program", server="https://example") as (reader, queue):
        queue.add(kcr.Key("default", "bad"))
        await eventually(lambda: not len(queue))
        state = await reader.json("/debug/kcr/state")
    assert (state["process"]["command"], state["process"]["server"]) == ("test program", "https://example")
    assert state["process"]["memoryBytes"] > 1_000_000
    assert state["process"]["notReady"] == []
    assert state["leadership"] is None
    assert state["loop"]["tasks"] > 1
    (informer,) = state["informers"]
    assert (informer["kind"], informer["isSynced"], informer["lastError"]) == ("configmaps", True, "")
    (controller,) = state["controllers"]
    assert (controller["name"], controller["kinds"], controller["failing"]) == ("test", ["configmaps"], 1)
    assert [(one["key"], one["error"]) for one in controller["keys"]] == [
        ("default/bad", "TerminalError: no such zone")
    ]


async def test_blocked_loop_is_named_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port, "STUCK_SECONDS", 0.5)
    monkeypatch.setattr(routes, "LOOP_SECONDS", 0.5)
    reconciler = Blocking()
    seen: dict[str, Any] = {}

    def look(reader: Reader) -> None:
        try:
            assert reconciler.is_blocked.wait(10)
            state: Any = {"loop": {"blockedAt": ""}}
            while not state["loop"]["blockedAt"]:
                state = msgspec.json.decode(reader.read_now("/debug/kcr/state")[1])
            seen["state"] = state
            seen["key"] = msgspec.json.decode(reader.read_now("/debug/kcr/key?key=default/other")[1])
            seen["probe"] = reader.read_now("/livez")
        finally:
            reconciler.released.set()

    async with running(reconciler) as (reader, queue):
        thread = threading.Thread(target=look, args=(reader,))
        thread.start()
        queue.add(kcr.Key("default", "block"))
        await eventually(lambda: not thread.is_alive(), seconds=30)
    assert seen["state"]["loop"]["blockedAt"].endswith(" hold_up")
    ((run,),) = [controller["running"] for controller in seen["state"]["controllers"]]
    assert run["key"] == "default/block"
    assert run["at"].endswith(" hold_up")
    (detail,) = seen["key"]
    assert detail["explanation"] is None
    assert detail["explanationError"].startswith("the event loop is blocked: ")
    status, text = seen["probe"]
    assert status == 500
    assert text.startswith("event-loop failed: the event loop has been blocked for 0.5 s: ")
    assert text.endswith(" hold_up\n")


async def test_key_is_explained_by_its_reconciler() -> None:
    async with running(Blocking()) as (reader, _):
        (good,) = await reader.json("/debug/kcr/key?key=default/good&kind=cm")
        (bad,) = await reader.json("/debug/kcr/key?key=default/bad&controller=test")
        assert await reader.json("/debug/kcr/key?key=default/good&kind=pods") == []
        assert (await reader.read("/debug/kcr/key?key=a/b/c"))[0] == 400
    assert good["explanation"]["headline"] == "all is well"
    assert good["explanation"]["next"] == [{"text": "nothing happens", "at": None}]
    assert (good["controller"], good["explanationError"]) == ("test", "")
    assert (bad["explanation"], bad["explanationError"]) == (None, "LookupError: no such object")


async def test_reconciler_without_explain_leaves_it_out() -> None:
    class Silent:
        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            return kcr.Result()

    async with running(Silent()) as (reader, _):
        (detail,) = await reader.json("/debug/kcr/key?key=default/a")
    assert (detail["explanation"], detail["explanationError"]) == (None, "")


async def test_stacks_profile_options_and_page_are_served() -> None:
    async with running(Blocking(), options={"workers": 3, "ready_file": None}) as (reader, _):
        status, stacks = await reader.read("/debug/kcr/stacks")
        assert status == 200
        assert "  MainThread: " in stacks
        assert "\n  test worker 0: " in stacks
        assert (await reader.read("/debug/kcr/profile?seconds=0"))[0] == 400
        assert (await reader.read("/debug/kcr/profile?seconds=61"))[0] == 400
        status, profile = await reader.read("/debug/kcr/profile?seconds=1")
        assert status == 200
        assert "(event loop) " in profile
        assert await reader.json("/debug/kcr/options") == {"workers": 3, "ready_file": None}
        assert "<html" in (await reader.read("/debug/kcr"))[1].lower()
        assert (await reader.read("/debug/pprof"))[0] == 404


async def test_only_one_profile_is_taken_at_a_time() -> None:
    async with running(Blocking()) as (reader, _), asyncio.TaskGroup() as group:
        both = [group.create_task(reader.read("/debug/kcr/profile?seconds=1")) for _ in range(2)]
        answers = sorted([status for status, _ in [await one for one in both]])
    assert answers == [200, 409]


async def test_debug_pages_are_refused_under_a_foreign_name() -> None:
    async with running(Blocking()) as (reader, _):
        status, text = await reader.read("/debug/kcr/state", Host="evil.example")
        assert (status, "local names alone" in text) == (403, True)
        assert await reader.read("/livez", Host="10.1.2.3") == (200, "ok")


async def test_token_and_added_paths_are_the_programs_own() -> None:
    threads: list[int] = []

    async def logs(request: ProbeRequest) -> ProbeResponse:
        threads.append(threading.get_ident())
        return ProbeResponse(200, f"logs of {request.query['pod'][0]}".encode())

    async with running(Blocking(), token="secret", routes={"/debug/kcr/logs": logs}) as (reader, _):
        assert (await reader.read("/debug/kcr/logs?pod=a"))[0] == 401
        assert await reader.read("/debug/kcr/logs?pod=a&token=secret") == (200, "logs of a")
        assert await reader.read("/readyz") == (200, "ok")
    assert threads == [threading.get_ident()]
