"""Header blocks of SPDY."""

import struct
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcr_devcluster.cluster.streaming.spdy.headers import (
    DICTIONARY,
    MAX_BLOCK_BYTES,
    HeaderCompressor,
    HeaderDecompressor,
    SPDYError,
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
HEADERS = st.dictionaries(TEXTS.map(str.lower).filter(lambda name: name and name == name.lower()), TEXTS, max_size=5)


def compressed(data: bytes) -> bytes:
    compressor = zlib.compressobj(zdict=DICTIONARY)
    return compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH)


def pair(name: bytes, value: bytes) -> bytes:
    return struct.pack(">I", len(name)) + name + struct.pack(">I", len(value)) + value


def test_dictionary_is_the_one_of_the_specification() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


@given(st.lists(HEADERS, max_size=5))
def test_blocks_of_one_connection_come_back_as_they_were(blocks: list[dict[str, str]]) -> None:
    compressor, decompressor = HeaderCompressor(), HeaderDecompressor()
    assert [decompressor.decompress(compressor.compress(block)) for block in blocks] == blocks


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_fail_otherwise(data: bytes) -> None:
    for block in (data, compressed(data)):
        with suppress(SPDYError):
            HeaderDecompressor().decompress(block)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "ends early", id="no-count"),
        pytest.param(struct.pack(">I", 2) + pair(b"a", b"b"), "ends early", id="fewer-than-counted"),
        pytest.param(struct.pack(">I", 1) + pair(b"a", b"b") + b"x", "more data", id="more-than-counted"),
        pytest.param(struct.pack(">I", 1) + pair(b"A", b"b"), "lower case", id="upper-case"),
        pytest.param(struct.pack(">I", 2) + 2 * pair(b"a", b"b"), "there twice", id="twice"),
        pytest.param(struct.pack(">III", 1, 1 << 31, 0), "ends early", id="huge-length"),
        pytest.param(bytes(MAX_BLOCK_BYTES + 1), "too long", id="bomb"),
    ],
)
def test_malformed_block_is_refused_by_name(data: bytes, message: str) -> None:
    with pytest.raises(SPDYError, match=message):
        HeaderDecompressor().decompress(compressed(data))
