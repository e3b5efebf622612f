import asyncio
import os
import subprocess
import sys
from itertools import pairwise

import pytest
from pytest import approx

from kcr.api.core import ConfigMap, Pod
from kcr.api.meta import Key, ObjectMeta
from kcr.client import Client, Request
from kcr.client.wire.pressure import pause
from kcr.errors import ServerError, TooManyRequestsError, TransportError, error_for
from tests.kit.scripted_transport import Say, Script, failure

pytestmark = pytest.mark.kcr_virtual

OK = Say({"metadata": {"name": "a"}})


def busy(seconds: int, code: int = 429) -> Say:
    answer = failure(code)
    answer.headers = {"retry-after": str(seconds)}
    return answer


@pytest.mark.parametrize(
    ("method", "error", "tries", "seconds"),
    [
        pytest.param("POST", error_for(429, "", "", retry_after_seconds=2), 1, 2.0, id="busy"),
        pytest.param("POST", error_for(503, "", "", retry_after_seconds=1), 9, 1.0, id="ninth-try"),
        pytest.param("GET", error_for(503, "", "", retry_after_seconds=1), 10, None, id="ten-are-enough"),
        pytest.param("GET", error_for(503, "", ""), 1, None, id="no-retry-after"),
        pytest.param("GET", error_for(409, "", "", retry_after_seconds=1), 1, None, id="conflict"),
        pytest.param("GET", TransportError(), 1, 0.1, id="connection"),
        pytest.param("GET", TransportError(), 3, None, id="connection-given-up"),
        pytest.param("POST", TransportError(), 1, None, id="write-may-have-happened"),
    ],
)
def test_pause_depends_on_method_and_error(method: str, error: Exception, tries: int, seconds: float | None) -> None:
    assert pause(Request(method, "/"), error, tries) == seconds


def test_retry_policy_costs_nothing_while_nothing_fails() -> None:
    # ST-40: tenacity is not even imported.
    code = (
        "import asyncio, sys; from kcr import Key; from kcr.api.core import Pod; from kcr.client import Client;"
        "from tests.kit.scripted_transport import Say, Script;"
        "asyncio.run(Client(Script(Say({'metadata': {'name': 'a'}}))).get(Pod, Key('', 'a')));"
        "sys.exit('tenacity' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.getcwd()})


async def test_busy_server_is_asked_again_when_it_says() -> None:
    # CL-3: only where the server names a time to wait.
    script = Script(busy(2), busy(3, 503), OK)
    await Client(script).create(ConfigMap(metadata=ObjectMeta(name="a")))
    # A little later: not all that were refused at once come back at once.
    assert [later - earlier for earlier, later in pairwise(script.times)] == [
        approx(2.2, abs=0.2),
        approx(3.3, abs=0.3),
    ]


async def test_tenth_try_is_the_last() -> None:
    script = Script(*(busy(1) for _ in range(20)))
    with pytest.raises(TooManyRequestsError):
        await Client(script).get(Pod, Key("", "a"))
    assert len(script.requests) == 10


async def test_longer_wait_than_a_call_may_take_is_left_to_the_caller() -> None:
    # CL-4: one call, retries included, takes 30 s at most.
    script = Script(busy(20), busy(20), OK)
    with pytest.raises(TooManyRequestsError) as caught:
        await Client(script).get(Pod, Key("", "a"))
    assert caught.value.retry_after_seconds == 20
    assert script.times == [0, approx(22, abs=2)]


async def test_server_error_without_promise_is_raised() -> None:
    with pytest.raises(ServerError):
        await Client(Script(failure(500), OK)).get(Pod, Key("", "a"))


async def test_read_is_sent_again_after_a_failed_connection() -> None:
    script = Script(TransportError("reset"), TransportError("reset"), OK)
    await Client(script).get(Pod, Key("", "a"))
    assert script.times == approx([0, 0.11, 0.32], abs=0.03)


async def test_write_is_never_sent_again_after_a_failed_connection() -> None:
    # CL-3, ST-40: its outcome is not known.
    script = Script(TransportError("reset"), OK)
    with pytest.raises(TransportError, match="reset"):
        await Client(script).create(ConfigMap(metadata=ObjectMeta(name="a")))
    assert len(script.requests) == 1


async def test_third_request_that_waits_for_its_retry_is_left_to_the_caller() -> None:
    # Two sleep at most: each may be a worker, and other keys have their turn.
    script = Script(*(busy(1) for _ in range(3)), OK, OK)
    client = Client(script)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(outcome(client)) for _ in range(3)]
    assert [call.result() for call in calls] == [200, 200, 429]


async def test_pauses_of_an_unthrottled_client_are_those_that_the_server_asks_for() -> None:
    script = Script(*(busy(1) for _ in range(3)), OK, OK, OK)
    client = Client(script).with_options(throttled=False)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(outcome(client)) for _ in range(3)]
    assert [call.result() for call in calls] == [200, 200, 200]
    assert script.times == [0, 0, 0, 1, 1, 1]


async def outcome(client: Client) -> int:
    try:
        await client.get(Pod, Key("", "a"))
    except TooManyRequestsError as error:
        return error.code
    return 200
