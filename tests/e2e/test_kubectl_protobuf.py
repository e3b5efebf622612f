"""The real kubectl as a client that accepts nothing but protobuf: client-go decodes what the server encodes."""

import random
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import pytest
import pytest_asyncio

from kcr.clock import SystemClock
from kcr_devcluster.apiserver import APIServer
from kcr_devcluster.apiserver.kinds.catalogue import KINDS
from kcr_devcluster.apiserver.protocol.responses import APIResponse
from kcr_devcluster.apiserver.server import HTTPRequest
from kcr_devcluster.apiserver.storage.storage import Storage
from kcr_devcluster.cluster.listener import Listener
from tests.e2e.kubectl import NEEDS_KUBECTL, Kubectl
from tests.kit.protobuf import PROTOBUF
from tests.kit.valid_objects import VALID_OBJECTS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120), pytest.mark.asyncio, NEEDS_KUBECTL]
DESCRIBED = (
    "configmap", "daemonset", "deployment", "job", "cronjob", "pod", "persistentvolume", "priorityclass", "endpoints",
    "rolebinding", "resourcequota", "replicationcontroller", "statefulset", "storageclass",
)  # fmt: skip


class ProtobufOnly:
    """Serves a server's clients, and takes from their Accept headers all but protobuf where that is among them."""

    def __init__(self, server: APIServer) -> None:
        self._server = server
        self.close, self.authenticate, self.users = server.close, server.authenticate, server.users
        self.content_types: set[str] = set()

    async def handle(self, request: HTTPRequest) -> APIResponse:
        """Handle one request."""
        accept = next((value for name, value in request.headers.items() if name.lower() == "accept"), "")
        if PROTOBUF not in accept:
            return await self._server.handle(request)
        response = await self._server.handle(request._replace(headers={**request.headers, "Accept": PROTOBUF}))
        self.content_types.add(response.headers["Content-Type"])
        return response


class Two(NamedTuple):
    """Two kubectls on one server: the answers to one are JSON, those to the other protobuf wherever it decodes it."""

    json: Kubectl
    protobuf: Kubectl
    served: ProtobufOnly


@pytest_asyncio.fixture
async def kubectl(tmp_path: Path, environment: Mapping[str, str]) -> AsyncIterator[Two]:
    # There are no controllers: nothing changes between two requests.
    server = APIServer(Storage(), clock=SystemClock(), random=random.Random(0))
    only = ProtobufOnly(server)
    listeners = {"json": Listener(server), "protobuf": Listener(cast(APIServer, only))}
    for name, listener in listeners.items():
        (tmp_path / name).write_text((await listener.open(0)).kubeconfig, encoding="utf-8")
    yield Two(Kubectl(tmp_path / "json", environment), Kubectl(tmp_path / "protobuf", environment), only)
    for listener in listeners.values():
        await listener.close()


@pytest.mark.soak
async def test_objects_are_described_alike_from_json_and_protobuf(kubectl: Two, tmp_path: Path) -> None:
    items = [
        {"apiVersion": kind.type.api_version, "kind": kind.type.kind, "metadata": {"name": "a"}, **VALID_OBJECTS[name]}
        for kind in KINDS
        if (name := kind.type.kind) in VALID_OBJECTS and name.lower() in DESCRIBED
    ]
    path = tmp_path / "objects.json"
    path.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items}))
    await kubectl.json(f"create --validate=false -f {path}")
    names = [f"{kind}/a" for kind in DESCRIBED]
    command = f"describe --show-events=false {' '.join(names)}"
    texts = [await one(command) for one in (kubectl.json, kubectl.protobuf)]
    # kubectl prints some maps in the order in which Go happens to yield them.
    assert sorted(texts[0].splitlines()) == sorted(texts[1].splitlines())
    assert texts[0].count("Name:") > len(DESCRIBED)
    assert kubectl.served.content_types == {PROTOBUF}


@pytest.mark.soak
async def test_answers_to_protobuf_bodies_are_decoded(kubectl: Two) -> None:
    one = kubectl.protobuf
    assert await one("create deployment web --image=busybox --replicas=0") == "deployment.apps/web created\n"
    assert "already exists" in await one("create deployment web --image=busybox", code=1)
    assert "Username    system:admin" in await one("auth whoami")
    assert await one("auth can-i create pods") == "yes\n"
    assert await one("create serviceaccount a") == "serviceaccount/a created\n"
    assert (await one("create token a")).count(".") == 2
    assert (await one("create cronjob c --image=busybox --schedule=@hourly")) == "cronjob.batch/c created\n"
    assert (await one("create job j --from=cronjob/c")) == "job.batch/j created\n"
    assert "No events found" in await one("events --for=job/j")
    assert kubectl.served.content_types == {PROTOBUF}


@pytest.mark.soak
async def test_watch_is_decoded(kubectl: Two, tmp_path: Path) -> None:
    path = tmp_path / "event.json"
    process = await kubectl.protobuf.start("events --watch")
    assert process.stdout is not None
    seen = b""
    try:
        for number in range(2):
            event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e{number}"}, **VALID_OBJECTS["Event"]}
            path.write_bytes(msgspec.json.encode({**event, "message": f"message {number}"}))
            await kubectl.json(f"create --validate=false -f {path}")
            while f"message {number}".encode() not in seen:
                line = await process.stdout.readline()
                assert line, seen
                seen += line
    finally:
        process.kill()
        await process.communicate()
    assert kubectl.served.content_types <= {PROTOBUF, f"{PROTOBUF};stream=watch"}
    assert f"{PROTOBUF};stream=watch" in kubectl.served.content_types
