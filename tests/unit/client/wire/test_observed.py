import asyncio

import pytest

from kcr.api.core import ConfigMap, Pod
from kcr.client import Client, Request
from kcr.errors import ForbiddenError, TransportError
from tests.kit.scripted_transport import Say, Script, failure

pytestmark = pytest.mark.kcr_virtual

POD = {"metadata": {"name": "a", "namespace": "default"}}


class Notes:
    """Keeps method, code and seconds of each request."""

    def __init__(self, heard: list[tuple[str, int, float]]) -> None:
        self._heard = heard

    def answered(self, request: Request, code: int, seconds: float) -> None:
        self._heard.append((request.method, code, seconds))

    def received(self, request: Request, size: int) -> None:
        return None


async def test_every_request_that_was_sent_is_heard_of() -> None:
    # CM-59: retries and watches count; a request without an answer has code 0.
    heard: list[tuple[str, int, float]] = []
    busy = failure(429)
    busy.headers = {"retry-after": "1"}
    script = Script(busy, Say(POD), Say(), TransportError("cut"), failure(403))
    client = Client(script, observer=Notes(heard))
    await client.create(ConfigMap())
    async with client.watch(Pod, resource_version="1", timeout_seconds=300):
        await asyncio.sleep(60)
    with pytest.raises(TransportError):
        await client.create(ConfigMap())
    with pytest.raises(ForbiddenError):
        await client.with_options(dry_run=True).create(ConfigMap())
    assert heard == [("POST", 429, 0), ("POST", 200, 0), ("GET", 200, 0), ("POST", 0, 0), ("POST", 403, 0)]
