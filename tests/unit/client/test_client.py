import pytest

from kcr.api.core import ConfigMap, Pod
from kcr.api.meta import Key, Object, ObjectMeta, Resource, metadata_only
from kcr.client import Client, RateLimit
from kcr.errors import (
    AlreadyExistsError,
    ApiError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    TransportError,
)
from tests.kit.scripted_transport import Say, Script, events, failure

pytestmark = pytest.mark.kcr_virtual

POD = {"metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "7"}}


class WebsiteSpec(Object):
    image: str


class Website(Resource, api_version="example.dev/v1", plural="websites"):
    spec: WebsiteSpec


async def test_get_asks_for_the_object_by_path() -> None:
    # CL-4: with its deadline.
    script = Script(Say(POD))
    pod = await Client(script).get(Pod, Key("default", "a"))
    assert pod.key == Key("default", "a")
    assert script.targets == ["/api/v1/namespaces/default/pods/a"]
    assert script.requests[0].timeout_seconds == 30


async def test_list_reads_all_pages_of_five_hundred() -> None:
    script = Script(
        Say({"metadata": {"continue": "t/1=", "resourceVersion": "9"}, "items": [POD]}),
        Say({"metadata": {"resourceVersion": "9"}, "items": [POD, POD]}),
    )
    pods = await Client(script).list(Pod, "default", labels="a in (b)")
    assert len(pods) == 3
    assert script.targets == [
        "/api/v1/namespaces/default/pods?limit=500&labelSelector=a+in+%28b%29",
        "/api/v1/namespaces/default/pods?limit=500&continue=t%2F1%3D&labelSelector=a+in+%28b%29",
    ]


async def test_list_that_took_too_long_is_begun_again_by_the_caller() -> None:
    # CL-16: a new list shows another state, so that pages of both must not be mixed.
    page = {"metadata": {"continue": "t", "resourceVersion": "9"}, "items": [POD]}
    with pytest.raises(GoneError, match="too old"):
        await Client(Script(Say(page), failure(410, "Expired", "the continue token is too old"))).list(Pod)


async def test_list_with_null_items_is_empty() -> None:
    assert await Client(Script(Say({"metadata": {}, "items": None}))).list(Pod) == ()


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        pytest.param(404, "NotFound", NotFoundError, id="not-found"),
        pytest.param(409, "AlreadyExists", AlreadyExistsError, id="reason-before-code"),
        pytest.param(410, "Expired", GoneError, id="expired"),
        pytest.param(403, "", ForbiddenError, id="code-alone"),
        pytest.param(418, "", ApiError, id="unknown"),
    ],
)
async def test_status_becomes_the_error_it_stands_for(code: int, reason: str, expected: type[ApiError]) -> None:
    # CL-12: classes stand in for predicates.
    with pytest.raises(expected, match="no") as caught:
        await Client(Script(failure(code, reason))).get(Pod, Key("default", "a"))
    assert (caught.value.code, caught.value.reason) == (code, reason)


async def test_causes_of_a_refusal_are_kept() -> None:
    # CL-12.
    answer = failure(422, "Invalid", causes=[{"field": "spec", "reason": "FieldValueRequired", "message": "m"}])
    with pytest.raises(InvalidError) as caught:
        await Client(Script(answer)).create(ConfigMap())
    assert caught.value.causes == (("spec", "FieldValueRequired", "m"),)
    assert caught.value.has_cause("FieldValueRequired")


async def test_error_without_json_shows_its_beginning() -> None:
    # ST-23.
    with pytest.raises(ApiError, match=r"HTTP 502: <html>x{250}$") as caught:
        await Client(Script(Say(b"<html>" + b"x" * 1000, status=502))).get(Pod, Key("", "a"))
    assert caught.value.code == 502


async def test_redirect_is_an_error() -> None:
    with pytest.raises(ApiError, match="HTTP 302"):
        await Client(Script(Say(b"", status=302))).get(Pod, Key("", "a"))


async def test_answer_that_does_not_fit_names_the_path() -> None:
    with pytest.raises(TransportError, match=r"pods: .*`\$\.metadata\.name`"):
        await Client(Script(Say({"metadata": {"name": 5}}))).get(Pod, Key("", "a"))


@pytest.mark.parametrize("body", [b"hello", b'{"gitVersion":"\xff"}'])
async def test_server_that_is_no_api_server_is_named(body: bytes) -> None:
    with pytest.raises(ApiError, match="not a Kubernetes API server"):
        await Client(Script(Say(body))).server_version()


async def test_server_version_is_the_git_version() -> None:
    assert await Client(Script(Say({"gitVersion": "v1.36.0+kcr"}))).server_version() == "v1.36.0+kcr"


async def test_watch_yields_events_and_bookmarks_alike() -> None:
    # CL-4: a watch has no deadline but an idle limit (ST-21), and comes uncompressed (ST-22).
    script = Script(Say(events(("ADDED", POD), ("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))))
    async with Client(script).watch(Pod, "default", resource_version="5", timeout_seconds=300.5) as stream:
        seen = [(event.type, event.object.metadata.resource_version) async for event in stream]
    assert seen == [("ADDED", "7"), ("BOOKMARK", "9")]
    assert script.targets == [
        "/api/v1/namespaces/default/pods?watch=true&allowWatchBookmarks=true&resourceVersion=5&timeoutSeconds=300"
    ]
    assert (script.requests[0].timeout_seconds, script.requests[0].idle_seconds) == (None, 90)
    assert script.requests[0].headers["accept-encoding"] == "identity"


async def test_metadata_only_is_asked_for_and_decoded() -> None:
    metadata = {"name": "a", "namespace": "default", "resourceVersion": "7", "labels": {"app": "web"}}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    script = Script(Say(partial), Say({"metadata": {}, "items": [partial]}), Say(events(("ADDED", partial))))
    kind, client = metadata_only(Pod), Client(script)
    found = [await client.get(kind, Key("default", "a")), *await client.list(kind)]
    async with client.watch(kind, resource_version="5", timeout_seconds=300) as stream:
        found += [event.object async for event in stream]
    assert {(str(obj.key), obj.metadata.labels["app"], obj.resource) for obj in found} == {
        ("default/a", "web", Pod.resource)
    }
    assert [request.headers["accept"] for request in script.requests] == [
        f"application/json;as=PartialObjectMetadata{suffix};g=meta.k8s.io;v=v1,application/json"
        for suffix in ("", "List", "")
    ]


async def test_metadata_alone_creates_no_object() -> None:
    # IN-44.
    with pytest.raises(TypeError, match="create: Pod a is metadata only"):
        await Client(Script()).create(metadata_only(Pod)(metadata=ObjectMeta(name="a")))


async def test_watch_with_initial_events_asks_for_them() -> None:
    script = Script(Say())
    async with Client(script).watch(Pod, resource_version="", timeout_seconds=300, initial_events=True):
        pass
    assert script.targets == [
        "/api/v1/pods?watch=true&allowWatchBookmarks=true&timeoutSeconds=300"
        "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    ]


async def test_error_event_is_raised_as_api_error() -> None:
    lines = events(("ADDED", POD), ("ERROR", {"kind": "Status", "status": "Failure", "code": 410, "message": "old"}))
    async with Client(Script(Say(lines))).watch(Pod, resource_version="5", timeout_seconds=300) as stream:
        assert (await anext(stream)).type == "ADDED"
        with pytest.raises(GoneError, match="old"):
            await anext(stream)


async def test_refused_watch_raises_when_it_is_opened() -> None:
    with pytest.raises(ForbiddenError):
        async with Client(Script(failure(403))).watch(Pod, resource_version="5", timeout_seconds=300):
            pass


async def test_bookmark_of_a_kind_with_required_fields_comes_through() -> None:
    lines = events(("BOOKMARK", {"metadata": {"resourceVersion": "9"}}))
    async with Client(Script(Say(lines))).watch(Website, resource_version="5", timeout_seconds=300) as stream:
        assert (await anext(stream)).object.metadata.resource_version == "9"


async def test_broken_line_is_a_failed_connection() -> None:
    async with Client(Script(Say(b'{"type":"ADD'))).watch(Pod, resource_version="5", timeout_seconds=300) as stream:
        with pytest.raises(TransportError, match="inside a line"):
            await anext(stream)


async def test_calls_wait_for_the_limiter_and_watches_do_not() -> None:
    # CL-2, ST-20.
    script = Script(*(Say(POD) for _ in range(4)))
    client = Client(script, limiter=RateLimit(10, 2))
    for _ in range(3):
        await client.get(Pod, Key("", "a"))
    async with client.watch(Pod, resource_version="5", timeout_seconds=300):
        pass
    assert script.times == pytest.approx([0, 0, 0.1, 0.1])
