import asyncio

import aiohttp
import pytest
from aiohttp.base_protocol import BaseProtocol

from kcr.client.wire.connections import SilenceTimer
from kcr.testing import VirtualClock

pytestmark = pytest.mark.kcr_virtual


def make_stream() -> aiohttp.StreamReader:
    loop = asyncio.get_running_loop()
    return aiohttp.StreamReader(BaseProtocol(loop), 2**16, loop=loop)


async def test_each_chunk_extends_the_time(kcr_clock: VirtualClock) -> None:
    # ST-21
    stream = make_stream()
    with SilenceTimer(stream, 10.0) as silence:
        for _ in range(4):
            await kcr_clock.advance(9.0)
            stream.feed_data(b"event")
            silence.note(len(await stream.readany()))
        await kcr_clock.advance(9.9)
        assert stream.exception() is None
        await kcr_clock.advance(0.1)
        assert isinstance(stream.exception(), aiohttp.SocketTimeoutError)


async def test_slow_reader_is_no_silence(kcr_clock: VirtualClock) -> None:
    stream = make_stream()
    with SilenceTimer(stream, 10.0) as silence:
        stream.feed_data(b"event")
        await kcr_clock.advance(60.0)
        silence.note(len(await stream.readany()))
        assert stream.exception() is None
        await kcr_clock.advance(10.0)
        assert isinstance(stream.exception(), aiohttp.SocketTimeoutError)


@pytest.mark.parametrize("seconds", [None, 10.0])
async def test_no_limit_and_no_stream_no_end(kcr_clock: VirtualClock, seconds: float | None) -> None:
    stream = make_stream()
    with SilenceTimer(stream, seconds):
        await kcr_clock.advance(9.0 if seconds else 3600.0)
    await kcr_clock.advance(3600.0)
    assert stream.exception() is None
