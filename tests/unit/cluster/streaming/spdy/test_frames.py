"""Frames of SPDY on the wire."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr_devcluster.cluster.streaming.spdy.frames import (
    MAX_CONTROL_BYTES,
    MAX_DATA_BYTES,
    Data,
    Frame,
    FrameDecoder,
    FrameEncoder,
    GoAway,
    Ignored,
    MoreHeaders,
    Ping,
    Reset,
    SynReply,
    SynStream,
)
from kcr_devcluster.cluster.streaming.spdy.headers import SPDYError

STREAMS, NUMBERS = st.integers(1, (1 << 31) - 1), st.integers(0, (1 << 32) - 1)
HEADERS = st.dictionaries(st.sampled_from(["port", "streamtype", "requestid"]), st.text(max_size=5))
FRAMES = st.one_of(
    st.builds(SynStream, STREAMS, HEADERS, st.booleans()),
    st.builds(SynReply, STREAMS, HEADERS, st.booleans()),
    st.builds(MoreHeaders, STREAMS, HEADERS, st.booleans()),
    st.builds(Data, STREAMS, st.binary(max_size=60), st.booleans()),
    st.builds(Reset, STREAMS, NUMBERS),
    st.builds(Ping, NUMBERS),
    st.builds(GoAway, st.integers(0, (1 << 31) - 1), NUMBERS),
    st.builds(Ignored, st.sampled_from([4, 9, 99])),
)


@given(st.lists(FRAMES, max_size=6), st.integers(1, 40))
def test_frames_come_back_from_pieces_of_any_size(frames: list[Frame], size: int) -> None:
    encoder, decoder = FrameEncoder(), FrameDecoder()
    data = b"".join(map(encoder.encode, frames))
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert [frame for piece in pieces for frame in decoder.feed(piece)] == frames


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_no_bytes_make_the_decoder_fail_otherwise(pieces: list[bytes]) -> None:
    decoder = FrameDecoder()
    with suppress(SPDYError):
        for piece in pieces:
            list(decoder.feed(piece))


def test_frame_of_kubectl_is_read() -> None:
    # SYN_STREAM of stream 1 with FIN: version 3, type 1, priority and slot 0; its headers as Go's library sends them.
    block = FrameEncoder().encode(SynStream(1, {"port": "80", "requestid": "0", "streamtype": "error"}))[18:]
    data = bytes.fromhex("80030001") + struct.pack(">I", 0x01000000 | 10 + len(block))
    (frame,) = FrameDecoder().feed(data + bytes.fromhex("00000001000000000000") + block)
    assert frame == SynStream(1, {"port": "80", "requestid": "0", "streamtype": "error"}, fin=True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(struct.pack(">II", 1, MAX_DATA_BYTES + 1), "frame of", id="data-too-long"),
        pytest.param(struct.pack(">II", 0x80030001, MAX_CONTROL_BYTES + 1), "frame of", id="control-too-long"),
        pytest.param(struct.pack(">II", 0x80020006, 4) + bytes(4), "version 2", id="version"),
        pytest.param(struct.pack(">II", 0, 0), "stream 0", id="stream-zero"),
        pytest.param(struct.pack(">II", 0x80030006, 3) + bytes(3), "ends early", id="short-ping"),
        pytest.param(struct.pack(">II", 0x80030001, 9) + bytes(9), "ends early", id="short-syn-stream"),
    ],
)
def test_malformed_frame_is_refused_by_name(data: bytes, message: str) -> None:
    with pytest.raises(SPDYError, match=message):
        list(FrameDecoder().feed(data))
