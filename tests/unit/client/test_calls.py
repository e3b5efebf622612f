import asyncio

import pytest
from structlog.testing import capture_logs

from kcr.api.core import ConfigMap, Pod
from kcr.api.meta import Key
from kcr.client import Client, RateLimit, Request
from kcr.client.wire.decoding import warnings_in
from kcr.errors import ForbiddenError, LeadershipLostError, NotFoundError
from kcr.metrics import Metrics
from tests.kit.owners import Website
from tests.kit.scripted_transport import Say, Script, failure

pytestmark = pytest.mark.kcr_virtual

POD = {"metadata": {"name": "a", "namespace": "default"}}


def warning(*texts: str) -> Say:
    return Say(POD, headers={"warning": ", ".join(f'299 - "{text}"' for text in texts)})


async def test_warning_is_logged_once_per_text() -> None:
    # CL-14. Clients made from one another share what was told.
    client = Client(Script(warning("a is old"), warning("a is old", "b is new"), warning("b is new")))
    with capture_logs() as logs:
        await client.get(Pod, Key("", "a"))
        await client.with_options(dry_run=True).create(ConfigMap())
        await client.get(Pod, Key("", "a"))
    assert [entry["warning"] for entry in logs if entry["log_level"] == "warning"] == ["a is old", "b is new"]


async def test_warnings_are_forgotten_when_there_are_too_many() -> None:
    # A server may put something new into each: then a thousand are kept, and the next one begins anew.
    many = [f"a is {number} old" for number in range(1000)]
    client = Client(Script(warning(*many), warning(many[0]), warning("b is new"), warning(many[0])))
    with capture_logs() as logs:
        for _ in range(4):
            await client.get(Pod, Key("ns", "a"))
    assert [entry["warning"] for entry in logs if entry["log_level"] == "warning"] == [*many, "b is new", many[0]]


async def test_warning_of_a_watch_is_logged_too() -> None:
    answer = Say(headers={"warning": '299 - "v1 is old"'})
    with capture_logs() as logs:
        async with Client(Script(answer)).watch(Pod, resource_version="1", timeout_seconds=300):
            pass
    assert [entry["warning"] for entry in logs] == ["v1 is old"]


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        pytest.param('299 - "one"', ["one"], id="one"),
        pytest.param('299 - "a, b", 299 kube "c" "Sat, 01 Jan 2026 00:00:00 GMT"', ["a, b", "c"], id="several"),
        pytest.param(r'299 - "say \"hi\" \\ bye"', [r'say "hi" \ bye'], id="escapes"),
        pytest.param('110 - "stale"', [], id="a-cache-warns"),
        pytest.param("nonsense", [], id="nonsense"),
    ],
)
def test_warning_header_is_taken_apart(header: str, texts: list[str]) -> None:
    assert warnings_in(header) == texts


async def test_field_manager_is_told_as_the_component_that_asks() -> None:
    # CL-19: without one of its own, a request is the whole program's.
    script = Script(Say(POD), Say(POD), Say())
    client = Client(script)
    named = client.with_options(field_manager="website")
    await client.get(Pod, Key("", "a"))
    await named.get(Pod, Key("", "a"))
    async with named.with_options(dry_run=True).watch(Pod, resource_version="1", timeout_seconds=300):
        pass
    assert [request.component for request in script.requests] == ["", "website", "website"]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Say(b"404 page not found\n", status=404), id="unknown-group"),
        pytest.param(failure(404, "NotFound", "the server could not find the requested resource"), id="unknown-kind"),
    ],
)
async def test_kind_that_the_server_does_not_have_is_named(answer: Say) -> None:
    with pytest.raises(
        NotFoundError, match=r"HTTP 404: the server does not know /apis/example\.dev/v1/websites; is the kind installed"
    ):
        await Client(Script(answer)).list(Website, labels="a=b")


async def test_object_that_is_not_there_is_told_in_the_servers_words() -> None:
    answer = failure(404, "NotFound", 'websites.example.dev "a" not found', name="a", kind="websites")
    with pytest.raises(NotFoundError, match=r'^websites\.example\.dev "a" not found$'):
        await Client(Script(answer)).get(Website, Key("default", "a"))


async def test_forbidden_list_says_who_may_not_do_what() -> None:
    words = 'websites.example.dev is forbidden: User "me" cannot list resource "websites" in API group "example.dev"'
    with pytest.raises(ForbiddenError, match=words):
        await Client(Script(failure(403, "Forbidden", words))).list(Website)


async def test_limit_can_be_lifted_for_what_somebody_waits_for() -> None:
    script = Script(*(Say(POD) for _ in range(5)))
    client = Client(script, limiter=RateLimit(1, 1))
    for _ in range(4):
        await client.with_options(throttled=False).get(Pod, Key("", "a"))
    await client.get(Pod, Key("", "a"))
    assert script.times == [script.times[0]] * 5


async def test_time_spent_on_the_limiter_is_a_metric() -> None:  # CM-59
    metrics = Metrics()
    limit = RateLimit(10, 1, on_wait=metrics.rate_limiter("api:6443"))
    client = Client(Script(*(Say(POD) for _ in range(3))), limiter=limit)
    for _ in range(2):
        await client.get(Pod, Key("", "a"))
    await client.merge_patch(Pod, Key("default", "a"), {})
    name, get = "rest_client_rate_limiter_duration_seconds", {"verb": "GET", "host": "api:6443"}
    assert metrics.registry.get_sample_value(f"{name}_count", get) == 2
    assert metrics.registry.get_sample_value(f"{name}_bucket", {**get, "le": "0.005"}) == 1
    assert metrics.registry.get_sample_value(f"{name}_sum", get) == pytest.approx(0.1)
    assert metrics.registry.get_sample_value(f"{name}_count", {"verb": "PATCH", "host": "api:6443"}) == 1


async def test_write_that_waits_for_its_turn_is_fenced_after_the_wait() -> None:
    lost = asyncio.Event()

    def fence() -> None:
        if lost.is_set():
            raise LeadershipLostError("lost")

    script = Script(Say(POD))
    client = Client(script, limiter=RateLimit(1, 1)).with_options(fence=fence)
    post = Request("POST", "/api/v1/namespaces/default/pods", {}, b"{}")
    async with client.exchange(post):
        pass
    asyncio.get_running_loop().call_later(0.5, lost.set)
    with pytest.raises(LeadershipLostError):
        async with client.exchange(post):
            pass


async def test_writes_of_a_dry_run_by_exchange_are_logged_once_accepted() -> None:
    client = Client(Script(Say(POD), failure(403), Say(POD))).with_options(dry_run=True)
    pods = "/api/v1/namespaces/default/pods"
    requests = (Request("POST", pods, {}, b'{"metadata":{"name":"a"}}'), Request("DELETE", f"{pods}/a"))
    with capture_logs() as logs:
        for request in (*requests, Request("GET", f"{pods}/a")):
            async with client.exchange(request) as response:
                await response.read()
    assert [line for line in logs if "dry run" in line["event"]] == [
        {"event": "dry run: accepted, not stored", "log_level": "info", "verb": "create", "object": f"{pods}/a"}
    ]
