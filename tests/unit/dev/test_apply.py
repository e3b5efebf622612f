"""Applying manifests."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from kcr.api.meta import Key
from kcr.client import Client, Request, Response
from kcr.errors import ConfigError
from kcr_devcluster.cluster import EmbeddedCluster
from kcr_devcluster.dev.apply import apply
from kcr_devcluster.manifests import Document, read_documents

JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: pi}\n"
SPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: math}\n"
SERVED = {
    "/api/v1": [
        {"name": "namespaces", "kind": "Namespace", "namespaced": False},
        {"name": "serviceaccounts", "kind": "ServiceAccount", "namespaced": True},
    ],
    "/apis/batch/v1": [
        {"name": "jobs", "kind": "Job", "namespaced": True},
        {"name": "jobs/status", "kind": "Job", "namespaced": True},
    ],
}


class Answer:
    def __init__(self, status: int, value: object) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "application/json"}
        self._body = msgspec.json.encode(value)

    async def read(self) -> bytes:
        return self._body

    async def lines(self) -> AsyncIterator[bytes]:
        yield self._body


class Server:
    """Answers discovery, and takes or refuses what is posted."""

    def __init__(self, refusals: Mapping[str, tuple[int, object]]) -> None:
        self.refusals = refusals
        self.writes: list[tuple[str, str]] = []

    @asynccontextmanager
    async def send(self, request: Request) -> AsyncIterator[Response]:
        path = request.target.partition("?")[0]
        if request.method == "GET":
            served = SERVED.get(path)
            yield Answer(200, {"resources": served}) if served else Answer(404, {"kind": "Status", "code": 404})
            return
        self.writes.append((request.method, path))
        if request.method in self.refusals:
            yield Answer(*self.refusals[request.method])
        else:
            yield Answer(201, msgspec.json.decode(request.body))


def documents(tmp_path: Path, text: str) -> tuple[Document, ...]:
    path = tmp_path / "jobs.yaml"
    path.write_text(text)
    return read_documents(str(path))


@pytest.mark.asyncio
async def test_objects_are_created_where_they_belong(tmp_path: Path) -> None:
    server = Server({})
    applied = await apply(Client(server), documents(tmp_path, f"{SPACE}---\n{JOB}"))
    assert server.writes == [("POST", "/api/v1/namespaces"), ("POST", "/apis/batch/v1/namespaces/default/jobs")]
    assert [str(one) for one in applied] == ["namespace/math created", "job.batch/pi created"]
    assert applied[1].key == Key("default", "pi")


@pytest.mark.asyncio
async def test_namespace_and_service_account_come_before_the_objects_in_them(tmp_path: Path) -> None:
    account = SPACE.replace("Namespace", "ServiceAccount")
    server = Server({})
    await apply(
        Client(server), documents(tmp_path, f"{JOB}---\n{account}---\n{SPACE}---\n{JOB.replace('name: pi', 'name: e')}")
    )
    written = [path.rpartition("/")[2] for _, path in server.writes]
    assert written == ["namespaces", "serviceaccounts", "jobs", "jobs"]


@pytest.mark.asyncio
async def test_object_that_exists_is_patched(tmp_path: Path) -> None:
    taken = {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "exists"}
    server = Server({"POST": (409, taken)})
    applied = await apply(Client(server), documents(tmp_path, JOB))
    assert server.writes[-1] == ("PATCH", "/apis/batch/v1/namespaces/default/jobs/pi")
    assert str(applied[0]) == "job.batch/pi configured"


@pytest.mark.asyncio
async def test_refusal_names_file_object_and_field(tmp_path: Path) -> None:
    cause = {"field": "spec.completions", "reason": "FieldValueInvalid", "message": "Invalid value: -1"}
    status = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "no", "details": {"causes": [cause]}}
    server = Server({"POST": (422, status)})
    with pytest.raises(ConfigError, match=r"jobs\.yaml: Job pi: spec\.completions: Invalid value: -1"):
        await apply(Client(server), documents(tmp_path, JOB))


@pytest.mark.asyncio
async def test_kind_that_is_not_served_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Widget w: the server serves no Widget in example\.dev/v1"):
        text = "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: w}\n"
        await apply(Client(Server({})), documents(tmp_path, text))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("api_version", "kind", "remedy"),
    [
        ("batch/v1", "Jobb", "it serves Job there"),
        ("extensions/v1beta1", "Job", "start it with --legacy-apis"),
        ("scheduling.k8s.io/v1alpha2", "Workload", "start it with --feature-gates GenericWorkload=true"),
        ("apps/v1", "Deployment", "take it out of the file"),
    ],
)
async def test_kind_that_is_not_served_has_its_remedy(tmp_path: Path, api_version: str, kind: str, remedy: str) -> None:
    text = f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: w}}\n"
    with pytest.raises(ConfigError, match=f"serves no {kind} in {api_version}: {remedy}$"):
        await apply(Client(Server({})), documents(tmp_path, text))


@pytest.mark.asyncio
async def test_kind_of_another_version_is_named_with_those_that_are_served(tmp_path: Path) -> None:
    text = JOB.replace("batch/v1", "batch/v2")
    async with EmbeddedCluster(runtime=None, gc=False) as cluster:
        with pytest.raises(ConfigError, match=r"the server serves no Job in batch/v2: it serves Job in batch/v1$"):
            await apply(cluster.client, documents(tmp_path, text))
