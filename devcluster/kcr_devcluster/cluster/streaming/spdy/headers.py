"""Header blocks of SPDY: names and values, compressed with zlib and a dictionary that both sides know.

One compression context per direction lasts as long as the connection.

Source: SPDY Protocol, Draft 3, section 2.6.10 (name/value header block) and 2.6.10.1 (compression, dictionary).
"""

import struct
import zlib
from collections.abc import Mapping

MAX_BLOCK_BYTES = 64 * 1024

# The dictionary's words, each with its length before it, and the text at its end.
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow"
    " authorization cache-control connection content-base content-encoding content-language content-length"
    " content-location content-md5 content-range content-type date etag expect expires from host if-match"
    " if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma"
    " proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade"
    " user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie"
    " keep-alive origin"
)
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _string(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack(">I", len(data)) + data


DICTIONARY = b"".join(_string(word.replace("_", " ")) for word in _WORDS.split()) + _TEXT.encode()


class SPDYError(Exception):
    """The other side violates the protocol; the connection cannot continue."""


class HeaderCompressor:
    """Writes header blocks."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(zdict=DICTIONARY)

    def compress(self, headers: Mapping[str, str]) -> bytes:
        """Return the block with some headers."""
        pairs = [_string(name.lower()) + _string(value) for name, value in headers.items()]
        return self._zlib.compress(struct.pack(">I", len(pairs)) + b"".join(pairs)) + self._zlib.flush(
            zlib.Z_SYNC_FLUSH
        )


class HeaderDecompressor:
    """Reads header blocks."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zdict=DICTIONARY)

    def decompress(self, block: bytes) -> dict[str, str]:
        """Return the headers of a block, names in lower case.

        Raises:
            SPDYError: It is malformed, or too long.
        """
        try:
            data = self._zlib.decompress(block, MAX_BLOCK_BYTES)
        except zlib.error as error:
            raise SPDYError(f"header block: {error}") from error
        if self._zlib.unconsumed_tail or self._zlib.eof:
            raise SPDYError("header block: too long, or not to be continued")
        return _pairs(data)


def _pairs(data: bytes) -> dict[str, str]:
    count, position = _number(data, 0)
    headers: dict[str, str] = {}
    for _ in range(count):
        name, position = _text(data, position)
        value, position = _text(data, position)
        if not name or name != name.lower() or name in headers:
            raise SPDYError(f"header block: the name {name!r} is empty, not in lower case, or there twice")
        headers[name] = value
    if position != len(data):
        raise SPDYError("header block: more data than headers")
    return headers


def _number(data: bytes, position: int) -> tuple[int, int]:
    if len(data) < position + 4:
        raise SPDYError("header block: it ends early")
    return int.from_bytes(data[position : position + 4], "big"), position + 4


def _text(data: bytes, position: int) -> tuple[str, int]:
    length, position = _number(data, position)
    end = position + length
    if end > len(data):
        raise SPDYError("header block: it ends early")
    return data[position:end].decode("utf-8", "surrogateescape"), end
