"""Binding, logs, finalize. Source: kubernetes/pkg/registry/core/{pod,namespace}."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from kcr_devcluster.apiserver.http.pods.container_logs import end_of_log
from kcr_devcluster.apiserver.kinds.catalogue import PODS as KIND
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.testing.loop import START
from tests.kit.api import Api, pod, pod_binding

pytestmark = pytest.mark.kcr_virtual
PODS = "/api/v1/namespaces/default/pods"


class Run:
    """A run that printed three lines, and is about to print a fourth."""

    def __init__(self) -> None:
        first, second = START - timedelta(seconds=20), START - timedelta(seconds=10, microseconds=1)
        self._pieces = [(first, b"one\ntw"), (second, b"o\nthree\n")]

    def pieces(self) -> list[tuple[datetime, bytes]]:
        return list(self._pieces)

    async def follow(self) -> AsyncIterator[bytes]:
        yield b"one\ntwo\nthree\n"
        self._pieces += [(START - timedelta(seconds=1), b"fo"), (START, b"ur\n")]
        yield b"four\n"


class Written:
    """Logs that were written before."""

    def get(self, uid: str, container: str, *, previous: bool = False) -> Run | None:
        return None if previous or container == "waits" else Run()


async def logging_pod(api: Api, *containers: str) -> None:
    spec = {"restartPolicy": "Never", "containers": [{"name": name, "image": "busybox"} for name in containers]}
    await api.post(PODS, {"metadata": {"name": "pq"}, "spec": spec})
    await api.post(f"{PODS}/pq/binding", pod_binding("pq"))
    api.server.logs = Written()


async def test_binding_sets_node_and_condition(api: Api) -> None:
    await api.post(PODS, pod("pa"))
    reply = await api.call("POST", f"{PODS}/pa/binding", pod_binding("pa", annotations={"a": "b"}))
    assert (reply.status, reply.body["status"]) == (201, "Success")
    bound = await api.get(f"{PODS}/pa")
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"a": "b"}
    assert bound["metadata"]["generation"] == 1
    (condition,) = bound["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


async def test_pod_is_bound_once(api: Api) -> None:
    await api.post(PODS, pod("pa"))
    await api.post(f"{PODS}/pa/binding", pod_binding("pa"))
    reply = await api.call("POST", f"{PODS}/pa/binding", pod_binding("pa"))
    assert (reply.status, reply.body["message"]) == (
        409,
        'Operation cannot be fulfilled on pods/binding "pa": pod pa is already assigned to node "n1"',
    )


async def test_binding_needs_a_target(api: Api) -> None:
    await api.post(PODS, pod("pa"))
    reply = await api.call("POST", f"{PODS}/pa/binding", {"metadata": {"name": "pa"}})
    # Upstream returns the errors of the object as they are.
    assert (reply.status, reply.body["message"]) == (500, "target.name: Required value")


async def test_log_of_an_unscheduled_pod_is_empty(api: Api) -> None:
    await api.post(PODS, pod("pa"))
    reply = await api.call("GET", f"{PODS}/pa/log?container=c")
    assert (reply.status, reply.body) == (204, b"")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("", b"one\ntwo\nthree\n", id="whole"),
        pytest.param("tailLines=2", b"two\nthree\n", id="tail"),
        pytest.param("tailLines=0", b"", id="no-tail"),
        pytest.param("tailLines=9", b"one\ntwo\nthree\n", id="long-tail"),
        pytest.param("limitBytes=5", b"one\nt", id="limit"),
        pytest.param("sinceSeconds=11", b"three\n", id="since-seconds"),
        pytest.param("sinceTime=2025-12-31T23:59:45Z", b"three\n", id="since-time"),
        pytest.param("timestamps=true&tailLines=1", b"2025-12-31T23:59:49.999999000Z three\n", id="timestamps"),
    ],
)
async def test_log_is_plain_text(api: Api, query: str, expected: bytes) -> None:
    await logging_pod(api, "c")
    reply = await api.call("GET", f"{PODS}/pq/log?{query}")
    assert (reply.status, reply.headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert reply.body == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("", b"one\ntwo\nthree\nfour\n", id="whole"),
        pytest.param("tailLines=1", b"three\nfour\n", id="tail"),
        pytest.param("tailLines=1&limitBytes=8", b"three\nfo", id="limit"),
        pytest.param(
            "tailLines=1&timestamps=true",
            b"2025-12-31T23:59:49.999999000Z three\n2025-12-31T23:59:59.000000000Z four\n",
            id="timestamps",
        ),
        pytest.param("tailLines=1&timestamps=true&limitBytes=33", b"2025-12-31T23:59:49.999999000Z th", id="both"),
    ],
)
async def test_followed_log_goes_on_to_its_end(api: Api, query: str, expected: bytes) -> None:
    await logging_pod(api, "c")
    answer = await api.server.handle(HTTPRequest("GET", f"{PODS}/pq/log?follow=true&{query}"))
    assert not isinstance(answer.body, bytes)
    assert b"".join([chunk async for chunk in answer.body]) == expected
    await answer.body.aclose()


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        pytest.param("container=zz", 400, "container zz is not valid for pod pq", id="unknown"),
        pytest.param(
            "", 400, "a container name must be specified for pod pq, choose one of: [c waits]", id="unnamed"
        ),
        pytest.param(
            "container=waits", 400, 'container "waits" in pod "pq" is waiting to start: ContainerCreating', id="waits"
        ),
        pytest.param(
            "container=c&previous=true", 400, 'previous terminated container "c" in pod "pq" not found', id="previous"
        ),
        pytest.param("container=c&tailLines=-1", 422, "tailLines: Invalid value: -1: must be greater", id="tail"),
        pytest.param(
            "container=c&tailLines=-1",
            422,
            'PodLogOptions "pq" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0',
            id="tail",
        ),
        pytest.param("container=c&sinceSeconds=1&sinceTime=x", 422, "at most one of", id="since"),
    ],
)  # fmt: skip
async def test_log_refuses_what_makes_no_sense(api: Api, query: str, code: int, message: str) -> None:
    await logging_pod(api, "c", "waits")
    reply = await api.call("GET", f"{PODS}/pq/log?{query}")
    assert reply.status == code
    assert message in reply.body["message"]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param(99, b"one\ntwo\nthree\n", id="all"),
        pytest.param(14, b"one\ntwo\nthree\n", id="just-all"),
        pytest.param(10, b"two\nthree\n", id="whole-lines"),
        pytest.param(9, b"three\n", id="part-of-a-line"),
        pytest.param(4, b"ree\n", id="less-than-a-line"),
    ],
)
async def test_end_of_a_log_is_bounded(api: Api, limit: int, expected: bytes) -> None:
    await logging_pod(api, "c")
    assert end_of_log(api.server.logs, api.server.registry.find(KIND, "default", "pq"), "", limit) == expected


async def test_log_of_an_ended_container_may_be_lost(api: Api) -> None:
    await logging_pod(api, "waits")
    ended = {"name": "waits", "state": {"terminated": {"exitCode": 137}}}
    await api.patch(f"{PODS}/pq/status", {"status": {"containerStatuses": [ended]}})
    reply = await api.call("GET", f"{PODS}/pq/log")
    assert (reply.status, reply.body["message"]) == (400, 'container "waits" in pod "pq" is terminated')


async def test_finalize_changes_the_finalizers_alone(api: Api) -> None:
    created = await api.post("/api/v1/namespaces", {"metadata": {"name": "nsx"}})
    assert created["spec"]["finalizers"] == ["kubernetes"]
    assert created["metadata"]["labels"] == {"kubernetes.io/metadata.name": "nsx"}
    given = {**created, "spec": {"finalizers": []}, "status": {"phase": "Other"}}
    after: Any = await api.put("/api/v1/namespaces/nsx/finalize", given)
    assert not after["spec"].get("finalizers")
    assert after["status"] == {"phase": "Active"}


async def test_finalized_namespace_is_written_as_it_is_read(api: Api) -> None:
    """Without finalizers the list is left out, as from any Go type."""
    await api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    await api.put("/api/v1/namespaces/n/finalize", {"metadata": {"name": "n"}, "spec": {}})
    found = await api.get("/api/v1/namespaces/n")
    assert await api.put("/api/v1/namespaces/n", found) == found


async def test_dry_run_of_a_finalize_stores_nothing(api: Api) -> None:
    namespace = await api.get("/api/v1/namespaces/default")
    shown = await api.put("/api/v1/namespaces/default/finalize?dryRun=All", {**namespace, "spec": {}})
    assert shown["spec"] == {}
    assert await api.get("/api/v1/namespaces/default") == namespace
