"""Base64 in JSON, where Go has bytes: the texts that Go decodes, their canonical form, and Go's errors.

Source: Go's encoding/base64, StdEncoding: Encoding.Decode, decodeQuantum; encoding/json, decodeState.literalStore.
"""

from base64 import b64decode, b64encode
from binascii import Error
from string import ascii_letters, digits

_ALPHABET = frozenset((ascii_letters + digits + "+/").encode())
_TO_STANDARD = bytes.maketrans(b"-_+/", b"+/--")
_PAD, _LINE_ENDS = ord("="), b"\r\n"


def canonical_base64(text: str) -> str:
    """Return the canonical form of base64, as Go encodes it: without line ends and with zeros behind the last byte.

    Raises:
        ValueError: It is no base64; the message is the decoder's.
    """
    try:
        data = b64decode(text, validate=True)
    except (Error, ValueError):
        given = text.encode("utf-8", "replace")
        at = _corrupt_at(given)
        if at is not None:
            raise ValueError(f"illegal base64 data at input byte {at}") from None
        data = b64decode(given.translate(None, _LINE_ENDS))
    return b64encode(data).decode()


def decode_url_base64(text: str) -> bytes:
    """Return the bytes of base64 for URLs, without padding.

    Raises:
        ValueError: It is none; the message is the decoder's.

    Source: Go's encoding/base64, RawURLEncoding.
    """
    given = text.encode("utf-8", "replace").translate(_TO_STANDARD)
    at = next((at for at, byte in enumerate(given) if byte not in _ALPHABET), len(given) - len(given) % 4)
    if at < len(given) and (given[at] not in _ALPHABET or len(given) % 4 == 1):
        raise ValueError(f"illegal base64 data at input byte {at}")
    return b64decode(given + b"=" * (-len(given) % 4))


def _corrupt_at(given: bytes) -> int | None:
    """Return where Go finds that a text is no base64: at a byte, or at the beginning of four that are incomplete."""
    filled = 0
    for at, byte in enumerate(given):
        if byte in _LINE_ENDS:
            continue
        if byte == _PAD and filled >= 2:
            return _corrupt_padding(given, at, filled)
        if byte not in _ALPHABET:
            return at
        filled = (filled + 1) % 4
    return len(given) - filled if filled else None


def _corrupt_padding(given: bytes, at: int, filled: int) -> int | None:
    """Return where the end of a text is no end, from its first padding on; `filled` characters come before that."""
    rest = [position for position in range(at + 1, len(given)) if given[position] not in _LINE_ENDS]
    if filled == 2:
        if not rest:
            return len(given)
        if given[rest[0]] != _PAD:
            return rest[0] - 1
        rest = rest[1:]
    return rest[0] if rest else None
