"""A SPDY connection, seen from the side that opens streams."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from kcr_devcluster.cluster.streaming.spdy.connection import BUFFER_BYTES, MAX_STREAMS, SPDYConnection, SPDYStream
from kcr_devcluster.cluster.streaming.spdy.frames import (
    Data,
    Frame,
    FrameDecoder,
    FrameEncoder,
    GoAway,
    Ping,
    Reset,
    ResetStatus,
    SynReply,
    SynStream,
)
from kcr_devcluster.cluster.streaming.spdy.headers import SPDYError

pytestmark = pytest.mark.asyncio


class Peer:
    """The other side: sends frames, and has what was sent to it."""

    def __init__(self) -> None:
        self.streams: list[SPDYStream] = []
        self.frames: list[Frame] = []
        self.accepts = True
        self.connection = SPDYConnection(self._receive, self._accept)
        self._encoder, self._decoder = FrameEncoder(), FrameDecoder()

    async def _receive(self, data: bytes) -> None:
        self.frames += self._decoder.feed(data)

    async def _accept(self, stream: SPDYStream) -> bool:
        self.streams.append(stream)
        return self.accepts

    async def send(self, *frames: Frame) -> bool:
        return await self.connection.receive(b"".join(map(self._encoder.encode, frames)))


@pytest_asyncio.fixture
async def peer() -> AsyncIterator[Peer]:
    peer = Peer()
    yield peer
    await peer.connection.close()


async def test_stream_is_accepted_and_read_to_its_end(peer: Peer) -> None:
    await peer.send(SynStream(1, {"port": "80"}), Data(1, b"a"), Data(1, b"b", fin=True))
    (stream,) = peer.streams
    assert (stream.headers, peer.frames) == ({"port": "80"}, [SynReply(1)])
    assert [await stream.read() for _ in range(3)] == [b"a", b"b", b""]


async def test_written_data_is_sent_in_pieces_and_ended(peer: Peer) -> None:
    await peer.send(SynStream(1, {}))
    await peer.streams[0].write(b"x" * 70_000)
    await peer.streams[0].close()
    sent = [frame for frame in peer.frames if isinstance(frame, Data)]
    assert [len(frame.data) for frame in sent] == [32768, 32768, 4464, 0]
    assert [frame.fin for frame in sent] == [False, False, False, True]
    with pytest.raises(ConnectionError):
        await peer.streams[0].write(b"more")


async def test_stream_that_is_not_read_stops_the_connection(peer: Peer) -> None:
    await peer.send(SynStream(1, {}), Data(1, bytes(BUFFER_BYTES)))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(peer.send(Data(1, b"more", fin=True)))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert len(await peer.streams[0].read()) == BUFFER_BYTES
        assert await waiting
    assert await peer.streams[0].read() == b"more"


async def test_reset_stream_fails_readers_and_writers(peer: Peer) -> None:
    await peer.send(SynStream(1, {}), Reset(1))
    for use in (peer.streams[0].read(), peer.streams[0].write(b"x")):
        with pytest.raises(ConnectionError):
            await use
    # What still comes for it is dropped.
    assert await peer.send(Data(1, b"late"))


async def test_refused_stream_is_reset(peer: Peer) -> None:
    peer.accepts = False
    await peer.send(SynStream(1, {}))
    assert peer.frames == [SynReply(1), Reset(1, ResetStatus.CANCEL)]


@pytest.mark.parametrize("number", [2, 3, 5])
async def test_streams_are_odd_and_rise(peer: Peer, number: int) -> None:
    await peer.send(SynStream(5, {}), SynStream(number, {}))
    assert peer.frames[-1] == Reset(number, ResetStatus.PROTOCOL_ERROR)


async def test_streams_have_a_limit_and_ended_ones_do_not_count(peer: Peer) -> None:
    for number in range(1, 2 * MAX_STREAMS, 2):
        await peer.send(SynStream(number, {}, fin=True))
    await peer.send(SynStream(2 * MAX_STREAMS + 1, {}))
    await peer.streams[0].close()
    await peer.send(SynStream(2 * MAX_STREAMS + 3, {}))
    refused, _, accepted = peer.frames[-3:]
    assert refused == Reset(2 * MAX_STREAMS + 1, ResetStatus.REFUSED_STREAM)
    assert accepted == SynReply(2 * MAX_STREAMS + 3)


async def test_ping_comes_back(peer: Peer) -> None:
    await peer.send(Ping(7))
    assert peer.frames == [Ping(7)]


async def test_client_may_end_the_connection(peer: Peer) -> None:
    assert not await peer.send(GoAway(0))


async def test_bytes_that_are_no_frames_end_the_connection(peer: Peer) -> None:
    with pytest.raises(SPDYError):
        await peer.connection.receive(bytes(8))
    assert peer.frames == [GoAway(0, 1)]
