"""The debug pages of a running manager, over HTTP."""

import asyncio
import threading

import pytest

import kcr
from kcr.serving.ports import ProbeRequest, ProbeResponse
from kcr.testing import eventually
from tests.kit.debug_port import BlockingReconciler, debugged

pytestmark = [pytest.mark.asyncio]


async def test_state_shows_the_parts_of_the_manager() -> None:
    async with debugged(BlockingReconciler(), command="test program", server="https://example") as (reader, queue):
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


async def test_key_is_explained_by_its_reconciler() -> None:
    async with debugged(BlockingReconciler()) as (reader, _):
        (good,) = await reader.json("/debug/kcr/key?key=default/good&kind=cm")
        (bad,) = await reader.json("/debug/kcr/key?key=default/bad&controller=test")
        assert await reader.json("/debug/kcr/key?key=default/good&kind=pods") == []
        assert (await reader.read("/debug/kcr/key?key=a/b/c"))[0] == 400
    assert good["explanation"]["headline"] == "all is well"
    assert good["explanation"]["steps"] == [{"text": "nothing happens", "at": None}]
    assert (good["controller"], good["explanationError"]) == ("test", "")
    assert (bad["explanation"], bad["explanationError"]) == (None, "LookupError: no such object")


async def test_caches_are_compared_with_the_server() -> None:
    async with debugged(BlockingReconciler()) as (reader, _):
        (all_of_them,) = await reader.json("/debug/kcr/verify")
        assert await reader.json("/debug/kcr/verify?kinds=configmaps+pods") == [all_of_them]
        assert await reader.json("/debug/kcr/verify?kinds=pods") == []
    assert (all_of_them["selection"], all_of_them["differences"]) == ("configmaps", [])


async def test_reconciler_without_explain_leaves_it_out() -> None:
    class Silent:
        async def reconcile(self, key: kcr.Key) -> kcr.Result:
            return kcr.Result()

    async with debugged(Silent()) as (reader, _):
        (detail,) = await reader.json("/debug/kcr/key?key=default/a")
    assert (detail["explanation"], detail["explanationError"]) == (None, "")


async def test_stacks_profile_options_and_page_are_served() -> None:
    async with debugged(BlockingReconciler(), options={"workers": 3, "ready_file": None}) as (reader, _):
        status, stacks = await reader.read("/debug/kcr/stacks")
        assert status == 200
        assert "  MainThread: " in stacks
        assert "\n  test worker 0: " in stacks
        assert (await reader.read("/debug/kcr/profile?seconds=0"))[0] == 400
        assert (await reader.read("/debug/kcr/profile?seconds=61"))[0] == 400
        status, profile = await reader.read("/debug/kcr/profile?seconds=1")
        assert status == 200
        assert "(idle) " in profile
        assert await reader.json("/debug/kcr/options") == {"workers": 3, "ready_file": None}
        assert "<html" in (await reader.read("/debug/kcr"))[1].lower()
        assert "frame-ancestors 'none'" in (await reader.headers("/debug/kcr"))["Content-Security-Policy"]
        for path in ("stacks", "profile?seconds=0", "key?key=<b>a</b>/b/c"):
            assert (await reader.headers(f"/debug/kcr/{path}"))["X-Content-Type-Options"] == "nosniff"
        assert (await reader.read("/debug/pprof"))[0] == 404


async def test_only_one_profile_is_taken_at_a_time() -> None:
    async with debugged(BlockingReconciler()) as (reader, _), asyncio.TaskGroup() as group:
        both = [group.create_task(reader.read("/debug/kcr/profile?seconds=1")) for _ in range(2)]
        answers = sorted([status for status, _ in [await one for one in both]])
    assert answers == [200, 409]


async def test_debug_pages_are_refused_under_a_foreign_name() -> None:
    async with debugged(BlockingReconciler()) as (reader, _):
        status, text = await reader.read("/debug/kcr/state", Host="evil.example")
        assert (status, "local names alone" in text) == (403, True)
        assert await reader.read("/livez", Host="10.1.2.3") == (200, "ok")


async def test_profile_is_refused_to_other_websites() -> None:
    async with debugged(BlockingReconciler()) as (reader, _):
        image = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
        status, text = await reader.read("/debug/kcr/profile?seconds=60", **image)
        assert (status, "not served to other websites" in text) == (403, True)
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert (await reader.read("/debug/kcr/profile?seconds=60", **link))[0] == 403
        assert (await reader.read("/debug/kcr", **link))[0] == 200
        assert await reader.read("/livez", **image) == (200, "ok")


async def test_number_of_keys_has_a_bound() -> None:
    async with debugged(BlockingReconciler()) as (reader, _):
        assert (await reader.json("/debug/kcr/state?keys=10000"))["controllers"][0]["keysLeftOut"] == 0
        assert await reader.read("/debug/kcr/state?keys=10001") == (400, "keys: 10001 is not between 0 and 10000\n")


async def test_root_of_the_port_leads_to_the_page() -> None:
    async with debugged(BlockingReconciler(), token="secret") as (reader, _):
        assert "<html" in (await reader.read("/?token=secret"))[1].lower()
        status, text = await reader.read("/")
        assert (status, "/debug/kcr needs a token" in text) == (401, True)


async def test_token_and_added_paths_are_the_programs_own() -> None:
    threads: list[int] = []

    async def logs(request: ProbeRequest) -> ProbeResponse:
        threads.append(threading.get_ident())
        return ProbeResponse(200, f"logs of {request.query['pod'][0]}".encode())

    async with debugged(BlockingReconciler(), token="secret", routes={"/debug/kcr/logs": logs}) as (reader, _):
        assert (await reader.read("/debug/kcr/logs?pod=a"))[0] == 401
        assert await reader.read("/debug/kcr/logs?pod=a&token=secret") == (200, "logs of a")
        assert await reader.read("/readyz") == (200, "ok")
    (thread,) = threads
    assert thread != threading.get_ident()
