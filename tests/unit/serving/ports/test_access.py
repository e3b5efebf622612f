"""Who may read protected metrics, by the embedded server's own roles; texts and times are those of controller-runtime.

Source: controller-runtime/pkg/metrics/filters/filters.go.
"""

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import NamedTuple

import msgspec
import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from kcr.client import Client
from kcr.errors import TransportError
from kcr.serving.ports import ProbeRequest, ReviewedAccess
from kcr.serving.ports.access import ALLOWED_SECONDS, DENIED_SECONDS, TOKEN_SECONDS, ExpiringCache, bearer_token
from kcr.testing import FaultyTransport, VirtualClock
from kcr_devcluster.cluster import EmbeddedCluster
from tests.kit.api import Api, binding, role
from tests.kit.scripted_transport import Say, Script, failure

pytestmark = pytest.mark.kcr_virtual

RBAC = "/apis/rbac.authorization.k8s.io/v1"
TOKEN_REVIEWS, ACCESS_REVIEWS = "tokenreviews", "subjectaccessreviews"
READER = "system:serviceaccount:default:prometheus"


class World(NamedTuple):
    cluster: EmbeddedCluster
    api: Api
    transport: FaultyTransport
    access: ReviewedAccess

    async def token(self, account: str) -> str:
        path = "/api/v1/namespaces/default/serviceaccounts"
        await self.api.post(path, {"metadata": {"name": account}})
        token: str = (await self.api.post(f"{path}/{account}/token", {"spec": {}}))["status"]["token"]
        return token

    async def allow(self, account: str) -> None:
        rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
        await self.api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "metrics-reader"}, "rules": rules})
        bound = binding("metrics", "ClusterRole", "metrics-reader", f"ServiceAccount:default/{account}")
        await self.api.post(f"{RBAC}/clusterrolebindings", bound)

    async def ask(self, token: str, method: str = "GET") -> tuple[int, str]:
        return await answer(self.access, token, method)

    @property
    def reviews(self) -> list[str]:
        return [call.resource[2] for call in self.transport.calls]


@pytest_asyncio.fixture
async def world(kcr_clock: VirtualClock) -> AsyncIterator[World]:
    async with EmbeddedCluster(clock=kcr_clock, random=Random(0), runtime=None, authorization="rbac") as cluster:
        transport = FaultyTransport(cluster.transport)
        yield World(cluster, Api(cluster.server), transport, ReviewedAccess(Client(transport)))


async def answer(access: ReviewedAccess, token: str, method: str = "GET") -> tuple[int, str]:
    refusal = await access.refuse(ProbeRequest("/metrics", method=method, authorization=f"Bearer {token}"))
    return (refusal.status, refusal.body.decode()) if refusal else (200, "")


async def test_reader_with_the_right_passes(world: World) -> None:
    token = await world.token("prometheus")
    await world.allow("prometheus")
    assert await world.ask(token) == (200, "")
    assert world.reviews == [TOKEN_REVIEWS, ACCESS_REVIEWS]
    assert (await world.ask(token, "HEAD"))[0] == 403, "a right to get is no right to head, as upstream"


async def test_reader_without_the_right_is_forbidden(world: World) -> None:
    assert await world.ask(await world.token("prometheus")) == (403, f"Authorization denied for user {READER}\n")


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "token"])
async def test_request_without_a_token_is_unauthorized(world: World, authorization: str) -> None:
    refusal = await world.access.refuse(ProbeRequest("/metrics", authorization=authorization))
    assert refusal is not None
    assert (refusal.status, refusal.body) == (401, b"Unauthorized\n")
    assert world.reviews == []


async def test_unknown_token_is_unauthorized_and_not_remembered(world: World) -> None:
    assert await world.ask("wrong") == (401, "Unauthorized\n")
    assert await world.ask("wrong") == (401, "Unauthorized\n")
    assert world.reviews == [TOKEN_REVIEWS, TOKEN_REVIEWS]


async def test_answers_are_kept_for_their_time(world: World, kcr_clock: VirtualClock) -> None:
    token = await world.token("prometheus")
    await world.allow("prometheus")
    asked = []
    for seconds in (0.0, TOKEN_SECONDS - 1, 2.0, ALLOWED_SECONDS):
        await kcr_clock.advance(seconds)
        before = len(world.reviews)
        assert (await world.ask(token))[0] == 200
        asked.append(world.reviews[before:])
    assert asked == [[TOKEN_REVIEWS, ACCESS_REVIEWS], [], [TOKEN_REVIEWS], [TOKEN_REVIEWS, ACCESS_REVIEWS]]


async def test_denial_is_kept_for_less_long(world: World, kcr_clock: VirtualClock) -> None:
    token = await world.token("prometheus")
    assert (await world.ask(token))[0] == 403
    await world.allow("prometheus")
    assert (await world.ask(token))[0] == 403
    await kcr_clock.advance(DENIED_SECONDS)
    assert (await world.ask(token))[0] == 200


@pytest.mark.parametrize(
    ("granted", "words"),
    [
        pytest.param("", "Authentication failed\n", id="nothing"),
        pytest.param("tokenreviews", f"Authorization for user {READER} failed\n", id="tokens-only"),
    ],
)
async def test_program_without_its_own_rights_answers_500(world: World, granted: str, words: str) -> None:
    token = await world.token("prometheus")
    await world.allow("prometheus")
    rule = {"apiGroups": ["authentication.k8s.io"]}
    await world.api.post(f"{RBAC}/clusterroles", role("some", "create", granted or "none", **rule))
    await world.api.post(f"{RBAC}/clusterrolebindings", binding("some", "ClusterRole", "some", "User:operator"))
    access = ReviewedAccess(world.cluster.client_as("operator"))
    with capture_logs() as logs:
        assert await answer(access, token) == (500, words)
        assert await answer(access, token) == (500, words)
    (line,) = [line for line in logs if line["event"] == words.strip()]
    assert line["log_level"] == "error"


KNOWN = Say({"status": {"authenticated": True, "user": {"username": "jane", "groups": ["dev"], "extra": {"a": ["b"]}}}})


async def test_review_asks_for_the_user_as_the_server_knows_him() -> None:
    script = Script(KNOWN, Say({"status": {"allowed": True}}))
    assert await answer(ReviewedAccess(Client(script)), "t") == (200, "")
    token, access = (msgspec.json.decode(request.body) for request in script.requests)
    assert token == {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "t"}}
    assert access["apiVersion"] == "authorization.k8s.io/v1"
    assert access["spec"] == {
        "user": "jane", "uid": "", "groups": ["dev", "system:authenticated"], "extra": {"a": ["b"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }  # fmt: skip


LATER: dict[str, Say | Exception] = {"500": failure(500), "reset": TransportError("reset"), "429": failure(429)}


@pytest.mark.parametrize("first", LATER)
async def test_review_that_may_succeed_later_is_sent_again(first: str) -> None:
    script = Script(LATER[first], KNOWN, Say({"status": {"allowed": True}}))
    assert await answer(ReviewedAccess(Client(script)), "t") == (200, "")


async def test_silent_server_opens_nothing(kcr_clock: VirtualClock) -> None:
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(answer(ReviewedAccess(Client(Script())), "t"))
        await kcr_clock.advance(11)
    assert asked.result() == (500, "Authentication failed\n")


@pytest.mark.parametrize(
    "status", [{}, {"allowed": True, "denied": True}, {"allowed": "yes"}], ids=["empty", "both", "no-review"]
)
async def test_odd_decision_opens_nothing(status: object) -> None:
    answers = [Say({"status": status}) for _ in range(5)]
    assert (await answer(ReviewedAccess(Client(Script(KNOWN, *answers))), "t"))[0] in (403, 500)


async def test_flood_of_tokens_leaves_connections_to_others() -> None:
    script = Script()
    access = ReviewedAccess(Client(script))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(answer(access, str(number))) for number in range(50)]
        await asyncio.sleep(0.01)
        assert len(script.requests) == 10
        for task in tasks:
            task.cancel()


async def test_reviews_that_hang_hold_up_no_known_reader(kcr_clock: VirtualClock) -> None:
    access = ReviewedAccess(Client(Script(KNOWN, Say({"status": {"allowed": True}}))))
    assert await answer(access, "t") == (200, "")
    async with asyncio.TaskGroup() as group:
        for number in range(20):
            group.create_task(answer(access, str(number)))
        await kcr_clock.advance(1)
        async with asyncio.timeout(1):
            assert await answer(access, "t") == (200, "")
        await kcr_clock.advance(30)


async def test_cache_is_bounded() -> None:
    cache: ExpiringCache[int] = ExpiringCache(size=3)
    for number in range(5):
        cache.put(number, number, 10)
    assert len(cache) == 3
    assert [cache.get(number) for number in range(5)] == [None, None, 2, 3, 4]
    await asyncio.sleep(11)
    assert cache.get(4) is None


@pytest.mark.parametrize(
    ("header", "token"),
    [("Bearer t", "t"), (" bearer  t", ""), ("BEARER t more", "t"), ("Basic t", ""), ("Bearer", ""), ("", "")],
)
def test_token_is_read_as_the_api_server_reads_it(header: str, token: str) -> None:
    assert bearer_token(header) == token


def test_request_shows_no_token() -> None:
    assert "t0p" not in repr(ProbeRequest("/metrics", authorization="Bearer t0p"))
