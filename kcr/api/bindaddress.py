"""Addresses to listen on: a value that options, endpoints and webhooks share."""

from typing import NamedTuple

from kcr.api.durations import parse_int

# How many connections a port has open, where descriptors allow it; of those that say nothing no port has more.
MAX_CONNECTIONS = 1000


class BindAddress(NamedTuple):
    """An address to listen on; an empty host means all interfaces, port 0 any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def bind_address(given: "str | BindAddress | None") -> BindAddress | None:
    """Return an address such as `:8080`, `127.0.0.1:8080` or `[::1]:8080`; None for `0` and nothing: do not listen.

    Args:
        given: A text, or the address that was read from it.

    Raises:
        ValueError: The text is not an address.
    """
    if not isinstance(given, str):
        return given
    if given in ("", "0"):
        return None
    host, colon, port = given.rpartition(":")
    bare = host[1:-1] if host[:1] + host[-1:] == "[]" else host
    number = parse_int(port) if port.isdecimal() else None
    if not colon or number is None or number > 65535 or (":" in bare and bare == host):
        raise ValueError(f"{given!r} is not an address to listen on: write host:port, :port, or 0 for none")
    return BindAddress(bare, number)
