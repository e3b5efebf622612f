"""Which exceptions are bugs, and which are failures of operation."""

import asyncio
import json
import ssl
import subprocess
import urllib.error
import zoneinfo
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from kcr.errors import RetryLater, ServerError, is_bug

REQUEST = aiohttp.RequestInfo(URL("https://billing"), "GET", CIMultiDictProxy(CIMultiDict()), URL("https://billing"))


class OfALibraryError(Exception):
    """Such as httpx.HTTPError, botocore.exceptions.ClientError and grpc.RpcError."""


class NotInStockError(KeyError):
    """An author's own."""


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(TimeoutError(), id="timeout"),
        pytest.param(ConnectionRefusedError("refused"), id="connection"),
        pytest.param(ssl.SSLCertVerificationError("expired"), id="tls"),
        pytest.param(urllib.error.HTTPError("https://billing", 500, "Internal", None, None), id="urllib-500"),  # type: ignore[arg-type]  # no headers
        pytest.param(aiohttp.ClientResponseError(REQUEST, (), status=500), id="aiohttp-500"),
        pytest.param(aiohttp.ServerDisconnectedError(), id="aiohttp-disconnected"),
        pytest.param(aiohttp.InvalidURL("htp:/"), id="aiohttp-url"),
        pytest.param(asyncio.IncompleteReadError(b"", 5), id="stream-ends"),
        pytest.param(asyncio.CancelledError(), id="cancelled"),
        pytest.param(subprocess.CalledProcessError(1, "terraform"), id="program"),
        pytest.param(json.JSONDecodeError("Expecting value", "<html>", 0), id="json"),
        pytest.param(zoneinfo.ZoneInfoNotFoundError("Mars/Base"), id="time-zone"),
        pytest.param(ValueError("port"), id="value"),
        pytest.param(RuntimeError("no"), id="runtime"),
        pytest.param(MemoryError(), id="memory"),
        pytest.param(OfALibraryError("503"), id="library"),
        pytest.param(NotInStockError("paint"), id="of-the-author"),
        pytest.param(ServerError(500, "", "boom"), id="api"),
        pytest.param(RetryLater("later"), id="retry-later"),
    ],
)
def test_failure_of_operation_is_no_bug(error: BaseException) -> None:
    assert not is_bug(error)


@pytest.mark.parametrize(
    "error",
    [
        TypeError(), AttributeError(), KeyError("x"), IndexError(), NameError(), UnboundLocalError(), AssertionError(),
        ZeroDivisionError(), OverflowError(), NotImplementedError(), RecursionError(), ModuleNotFoundError(),
        SyntaxError(),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_programming_error_is_a_bug(error: Exception) -> None:
    assert is_bug(error)


@pytest.mark.parametrize(
    ("after", "seconds"),
    [(None, 0.0), (0, 0.0), (-5, 0.0), (2.5, 2.5), (timedelta(minutes=1), 60.0), (timedelta(seconds=-1), 0.0)],
)
def test_retry_later_has_the_seconds_that_it_asks_for(after: timedelta | float | None, seconds: float) -> None:
    assert RetryLater("later", after=after).retry_after_seconds == seconds


@pytest.mark.parametrize("after", ["5s", True, float("nan"), float("inf")])
def test_retry_later_refuses_what_is_no_time(after: Any) -> None:
    with pytest.raises(TypeError, match=r"RetryLater: after is .*: give it a timedelta, a number of seconds or None"):
        RetryLater("later", after=after)
