"""Calls of webhooks."""

import pytest

from kcr_devcluster.apiserver.admission.caller import InProcessCaller, NoCaller, WebhookCallError, target_of

SERVICE = {"service": {"namespace": "n", "name": "s", "path": "/convert", "port": 8443}}


@pytest.mark.parametrize(
    ("config", "base", "path"),
    [
        pytest.param(SERVICE, "https://s.n.svc:8443", "/convert", id="service"),
        pytest.param({"service": {"namespace": "n", "name": "s"}}, "https://s.n.svc:443", "/", id="service-alone"),
        pytest.param({"url": "https://example.dev:9443/a/b"}, "https://example.dev:9443", "/a/b", id="url"),
    ],
)
def test_target_of_a_client_config(config: dict[str, object], base: str, path: str) -> None:
    target = target_of(config)
    assert (target.base, target.path) == (base, path)


@pytest.mark.asyncio
async def test_without_a_caller_calls_are_refused() -> None:
    with pytest.raises(WebhookCallError):
        await NoCaller().call(SERVICE, "/x", b"", 1.0)


@pytest.mark.asyncio
async def test_handlers_are_found_by_service_and_by_url() -> None:
    async def handler(target: str, body: bytes) -> tuple[int, bytes]:
        return 200, target.encode() + body

    caller = InProcessCaller()
    caller.handlers |= {"n/s": handler, "https://example.dev": handler}
    assert await caller.call(SERVICE, "/x", b"!", 1.0) == (200, b"/x!")
    assert await caller.call({"url": "https://example.dev/a"}, "/a", b"", 1.0) == (200, b"/a")
    with pytest.raises(WebhookCallError):
        await caller.call({"url": "https://example.com/b"}, "/b", b"", 1.0)
