"""Reading manifests, and applying them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from kcr.api.meta import Key
from kcr.cli.generators.manifests import apply, read_documents
from kcr.client import Client, Request, Response
from kcr.errors import ConfigError

JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: pi}\n"
SPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: math}\n"
SERVED = {
    "/api/v1": [{"name": "namespaces", "kind": "Namespace", "namespaced": False}],
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


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "jobs.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_documents_of_several_kinds_come_in_order(tmp_path: Path) -> None:
    found = read_documents(written(tmp_path, f"---\n{SPACE}---\n{JOB}---\n"))
    assert [document.kind for document in found] == ["Namespace", "Job"]
    assert found[1].title.endswith("jobs.yaml, document 2: Job pi")


def test_items_of_a_list_are_documents(tmp_path: Path) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}
    text = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [job]}).decode()
    assert [document.title for document in read_documents(written(tmp_path, text))] == [
        f"{tmp_path}/jobs.yaml, item 1: Job a"
    ]


def test_time_stays_text(tmp_path: Path) -> None:
    text = JOB + "spec: {at: 2026-01-01T00:00:00Z, sign: =}\n"
    assert read_documents(written(tmp_path, text))[0].manifest["spec"] == {"at": "2026-01-01T00:00:00Z", "sign": "="}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param("a: [1", "no YAML: line 1, column 6", id="broken"),
        pytest.param(
            "a: {b: 1}\n---\nkind: A\nmetadata: {name: a}\nmetadata: {name: b}",
            "line 5: metadata is there twice in one",
            id="two-objects-in-one",
        ),
        pytest.param("spec:\n  a: 1\n  a: 1", "line 3: a is there twice in one mapping: keep one", id="field-twice"),
        pytest.param("", "no object in it", id="empty"),
        pytest.param("- 1", "is a mapping", id="no-mapping"),
        pytest.param("kind: Job", "apiVersion is missing", id="no-version"),
        pytest.param("apiVersion: v1", "kind is missing", id="no-kind"),
        pytest.param("apiVersion: v1\nkind: Pod", "Pod: metadata.name is missing", id="no-name"),
    ],
)
def test_fault_of_a_file_is_named(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=f"jobs.yaml: .*{fault}"):
        read_documents(written(tmp_path, text))


def test_file_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: No such file"):
        read_documents("nowhere.yaml")


@pytest.mark.asyncio
async def test_objects_are_created_where_they_belong(tmp_path: Path) -> None:
    server = Server({})
    applied = await apply(Client(server), read_documents(written(tmp_path, f"{SPACE}---\n{JOB}")))
    assert server.writes == [("POST", "/api/v1/namespaces"), ("POST", "/apis/batch/v1/namespaces/default/jobs")]
    assert [str(one) for one in applied] == ["namespace/math created", "job.batch/pi created"]
    assert applied[1].key == Key("default", "pi")


@pytest.mark.asyncio
async def test_object_that_exists_is_patched(tmp_path: Path) -> None:
    taken = {"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "exists"}
    server = Server({"POST": (409, taken)})
    applied = await apply(Client(server), read_documents(written(tmp_path, JOB)))
    assert server.writes[-1] == ("PATCH", "/apis/batch/v1/namespaces/default/jobs/pi")
    assert str(applied[0]) == "job.batch/pi configured"


@pytest.mark.asyncio
async def test_refusal_names_file_object_and_field(tmp_path: Path) -> None:
    cause = {"field": "spec.completions", "reason": "FieldValueInvalid", "message": "Invalid value: -1"}
    status = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "no", "details": {"causes": [cause]}}
    server = Server({"POST": (422, status)})
    with pytest.raises(ConfigError, match=r"jobs\.yaml: Job pi: spec\.completions: Invalid value: -1"):
        await apply(Client(server), read_documents(written(tmp_path, JOB)))


@pytest.mark.asyncio
async def test_kind_that_is_not_served_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Widget w: the server serves no Widget in example\.dev/v1"):
        text = "apiVersion: example.dev/v1\nkind: Widget\nmetadata: {name: w}\n"
        await apply(Client(Server({})), read_documents(written(tmp_path, text)))


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
        await apply(Client(Server({})), read_documents(written(tmp_path, text)))


LAUGHS = "l0: &l0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"l{one}: &l{one} [{', '.join([f'*l{one - 1}'] * 9)}]\n" for one in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        pytest.param(LAUGHS, "document contains excessive aliasing", id="aliases"),
        pytest.param("a: &a [*a]", "exceeded max depth", id="circle"),
        pytest.param("[" * 100_000, "exceeded max depth", id="deep"),
        pytest.param("a: !!int x", "a value does not have the type of its tag", id="tag"),
    ],
)
def test_file_that_would_fill_the_memory_is_refused_at_once(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"jobs\.yaml: no YAML: .*{fault}"):
        read_documents(str(path))
