import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import pytest
import trustme
from aiohttp import web

from kcr.client import PemSource
from kcr.client.auth.oidc import OidcCredentials, OidcSpec, expiry
from kcr.errors import TransportError
from tests.kit.clocks import FixedClock
from tests.kit.http_servers import serving

pytestmark = pytest.mark.asyncio

START = datetime(2026, 1, 1, tzinfo=UTC)


def token(name: str, expires: datetime | None = None) -> str:
    claims = {"sub": name} | ({"exp": int(expires.timestamp())} if expires else {})
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"header.{payload}.signature"


class Provider:
    """An identity provider: gives a token with each renewal, and a new refresh token in place of the old one."""

    def __init__(self, *, methods: tuple[str, ...] = (), answer: object = None) -> None:
        self.authority = trustme.CA()
        self.url = ""
        self.asked: list[dict[str, str]] = []
        self.authorizations: list[str] = []
        self._methods = methods
        self._answer = answer

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/realm/.well-known/openid-configuration":
            methods = {"token_endpoint_auth_methods_supported": self._methods} if self._methods else {}
            return web.json_response({"token_endpoint": f"{self.url}/token", **methods})
        self.asked.append({name: values[0] for name, values in parse_qs(await request.text()).items()})
        self.authorizations.append(request.headers.get("Authorization", ""))
        if self.asked[-1]["refresh_token"] != f"r{len(self.asked) - 1}":
            return web.json_response({"error": "invalid_grant"}, status=400)
        number = len(self.asked)
        tokens = {"id_token": token(str(number), START + timedelta(hours=number)), "refresh_token": f"r{number}"}
        return web.json_response(tokens if self._answer is None else self._answer)

    @asynccontextmanager
    async def spec(self, **changes: object) -> AsyncIterator[OidcSpec]:
        async with serving(self.handle, self.authority) as self.url:
            ca = PemSource(text=self.authority.cert_pem.bytes().decode(), field="idp-certificate-authority")
            given = {"client_id": "c/1", "client_secret": "s", "refresh_token": "r0", "ca": ca, **changes}
            yield OidcSpec(issuer=f"{self.url}/realm", **given)  # type: ignore[arg-type]  # by name


# python-stack §6: our own refresh, and the provider's certificate is checked.


async def test_token_is_kept_until_shortly_before_it_expires() -> None:
    provider, clock = Provider(), FixedClock(START)
    async with provider.spec(id_token=token("0", START + timedelta(seconds=60))) as spec:
        credentials = OidcCredentials(spec, clock=clock)
        assert (await credentials.current()).authorization == f"Bearer {spec.id_token}"
        clock.moment += timedelta(seconds=50)
        assert (await credentials.current()).authorization.endswith(token("1", START + timedelta(hours=1)))
        clock.moment += timedelta(hours=1)
        # With the refresh token that came with the first renewal.
        assert (await credentials.current()).authorization.endswith(token("2", START + timedelta(hours=2)))
    assert [asked["refresh_token"] for asked in provider.asked] == ["r0", "r1"]
    assert provider.authorizations[0] == "Basic " + base64.b64encode(b"c%2F1:s").decode()
    assert provider.asked[0] == {"grant_type": "refresh_token", "refresh_token": "r0"}


@pytest.mark.parametrize(
    ("methods", "secret", "sent"),
    [
        pytest.param(("client_secret_post",), "s", {"client_id": "c/1", "client_secret": "s"}, id="in-the-form"),
        pytest.param((), "", {"client_id": "c/1"}, id="public-client"),
    ],
)
async def test_client_proves_itself_as_the_provider_wants(
    methods: tuple[str, ...], secret: str, sent: dict[str, str]
) -> None:
    provider = Provider(methods=methods)
    async with provider.spec(client_secret=secret) as spec:
        await OidcCredentials(spec, clock=FixedClock(START)).current()
    assert provider.asked == [{"grant_type": "refresh_token", "refresh_token": "r0", **sent}]
    assert provider.authorizations == [""]


async def test_refused_token_is_renewed_once_for_all_who_wait() -> None:
    # ST-31: single-flight.
    provider = Provider()
    async with provider.spec(id_token=token("0")) as spec:
        credentials = OidcCredentials(spec, clock=FixedClock(START))
        old = await credentials.current()
        assert [credentials.invalidate(old) for _ in range(3)] == [True, True, True]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(credentials.current()) for _ in range(3)]
        assert len({task.result() for task in tasks}) == 1
        # A request that fails late with the old token must not invalidate the new one.
        assert credentials.invalidate(old)
        await credentials.current()
    assert len(provider.asked) == 1


async def test_provider_of_unknown_authority_gets_no_refresh_token() -> None:
    provider = Provider()
    async with provider.spec() as spec:
        other = PemSource(text=trustme.CA().cert_pem.bytes().decode(), field="idp-certificate-authority")
        for ca in (other, PemSource()):
            wrong = OidcSpec(issuer=spec.issuer, client_id="c", refresh_token="r0", ca=ca)
            with pytest.raises(TransportError, match="certificate is not trusted"):
                await OidcCredentials(wrong, clock=FixedClock(START)).current()
    assert provider.asked == []


@pytest.mark.parametrize(
    ("answer", "changes", "message"),
    [
        pytest.param({}, {}, "its answer holds no id token", id="no-token"),
        pytest.param([], {}, "its answer cannot be read: Expected `object`", id="no-object"),
        pytest.param(None, {"refresh_token": "old"}, 'HTTP 400: {"error": "invalid_grant"}', id="refused"),
    ],
)
async def test_provider_that_gives_nothing_says_why(answer: object, changes: dict[str, object], message: str) -> None:
    async with Provider(answer=answer).spec(**changes) as spec:
        with pytest.raises(TransportError, match=message):
            await OidcCredentials(spec, clock=FixedClock(START)).current()


async def test_plain_http_is_never_asked() -> None:
    spec = OidcSpec(issuer="http://idp.example", client_id="c", refresh_token="r")
    with pytest.raises(TransportError, match="is not an https URL"):
        await OidcCredentials(spec, clock=FixedClock(START)).current()


@pytest.mark.parametrize("text", ["", "opaque", "a.!!!.c", "a.e30.c", "a.W10.c"])
async def test_token_that_tells_no_end_is_used_until_refused(text: str) -> None:
    assert expiry(text) is None
