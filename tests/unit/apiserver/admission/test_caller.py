"""Where webhooks are served, and handlers in the same process.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/util/webhook/client.go.
"""

from typing import Any

import pytest

from kcr_devcluster.apiserver.admission.caller import InProcessCaller, Target, WebhookCallError, target_of

SERVICE = {"namespace": "shop", "name": "hooks"}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(
            {"service": SERVICE}, Target("https://hooks.shop.svc:443", "/", "shop/hooks", 443, "hooks.shop.svc"),
            id="service",
        ),
        pytest.param(
            {"service": {**SERVICE, "path": "/a/b", "port": 8443}},
            Target("https://hooks.shop.svc:8443", "/a/b", "shop/hooks", 8443, "hooks.shop.svc"), id="path-and-port",
        ),
        pytest.param({"url": "https://a.io/x"}, Target("https://a.io", "/x", "", 443, "a.io"), id="url"),
        pytest.param(
            {"url": "https://[::1]:9443/x"}, Target("https://[::1]:9443", "/x", "", 9443, "::1"), id="url-with-port"
        ),
    ],
)  # fmt: skip
def test_target_of_a_client_config(config: dict[str, Any], expected: Target) -> None:
    assert target_of(config) == expected


@pytest.mark.asyncio
async def test_handler_is_found_by_service_or_address() -> None:
    async def answer(path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        return 200, path.encode() + body

    caller = InProcessCaller()
    caller.handlers |= {"shop/hooks": answer, "https://127.0.0.1:9443": answer}
    assert await caller.call({"service": {**SERVICE, "path": "a"}}, b"!", 1) == (200, b"/a!")
    assert await caller.call({"url": "https://127.0.0.1:9443/b"}, b"!", 1) == (200, b"/b!")
    with pytest.raises(WebhookCallError, match="no connections to webhooks"):
        await caller.call({"url": "https://elsewhere/b"}, b"", 1)


@pytest.mark.asyncio
async def test_handler_that_fails_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        raise ZeroDivisionError

    caller = InProcessCaller()
    caller.handlers["shop/hooks"] = fail
    with pytest.raises(WebhookCallError, match=r"^EOF$"):
        await caller.call({"service": SERVICE}, b"", 1)
    assert "webhook https://hooks.shop.svc:443/" in caplog.text
