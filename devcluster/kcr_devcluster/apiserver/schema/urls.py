"""URLs as Go's net/url reads them: which texts are URLs, what is wrong with the others, and their parts.

Escapes may stand for bytes that are no text; these are kept as Python keeps them in names of files.

Source: Go's net/url, url.go: parse, parseAuthority, parseHost, unescape, URL.String; encoding_table.go.
"""

import re
from string import ascii_letters, digits
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from kcr_devcluster.apiserver.protocol.gotexts import quoted
from kcr_devcluster.apiserver.schema.addresses import parse_address

_UNRESERVED = frozenset(ascii_letters + digits + "-_.~")
# What stands as it is in each part of a URL.
_IN_HOST = _UNRESERVED | frozenset("!\"$&'()*+,;=:[]<>")
_IN_PATH = _UNRESERVED | frozenset("$&+,/:;=@")
_IN_FRAGMENT = _IN_PATH | frozenset("?!()*")
_IN_USER = _UNRESERVED | frozenset("$&+,;=")
# Of these, escapes are not needed, though Go writes them.
_LEFT_ALONE = frozenset("!$&'()*+,;=:@[]%")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_PORT = re.compile(r"(:[0-9]*)?")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ZONE = "%25"


class Url(NamedTuple):
    """A URL.

    Attributes:
        scheme: In small letters.
        opaque: What follows the scheme where it is no path.
        user: Of the user, the name and the password, None for none, or None.
        host: With its port, without escapes.
        path: As it was given.
        query: As it was given, None for none.
        fragment: As it was given.
        has_authority: Whether a host was given, be it empty.
    """

    scheme: str
    opaque: str
    user: tuple[str, str | None] | None
    host: str
    path: str
    query: str | None
    fragment: str
    has_authority: bool

    @property
    def escaped_path(self) -> str:
        """The path with escapes: those that were given, if nothing lacks one."""
        if self.path == "*":
            return "*"
        return _as_given(self.path, _IN_PATH)

    @property
    def hostname(self) -> str:
        """The host without its port and without brackets."""
        name, _, port = self.host.rpartition(":")
        name = name if name and _PORT.fullmatch(f":{port}") and not port.endswith("]") else self.host
        return name[1:-1] if name.startswith("[") and name.endswith("]") else name

    @property
    def port(self) -> str:
        """The digits after the host, empty for none."""
        port = self.host.rpartition(":")[2] if ":" in self.host.rpartition("]")[2] else ""
        return port if port.isdecimal() else ""

    @property
    def values(self) -> dict[str, list[str]]:
        """The values of the query by their names; parts that are no values are left out."""
        found: dict[str, list[str]] = {}
        for part in (self.query or "").split("&"):
            name, _, value = part.partition("=")
            if part and ";" not in part and not _BROKEN_ESCAPE.search(part):
                found.setdefault(_value(name), []).append(_value(value))
        return found

    def __str__(self) -> str:
        """Return the URL as Go writes it."""
        start = f"{self.scheme}:" if self.scheme else ""
        if self.opaque:
            return f"{start}{self.opaque}{self._end}"
        if self.user is not None or self.host or (self.has_authority and self.path):
            start += f"//{self._user}{_escaped(self.host, _IN_HOST)}"
        return f"{start}{self.escaped_path}{self._end}"

    @property
    def _user(self) -> str:
        return (
            "" if self.user is None else f"{':'.join(_escaped(one, _IN_USER) for one in self.user if one is not None)}@"
        )

    @property
    def _end(self) -> str:
        fragment = f"#{_as_given(self.fragment, _IN_FRAGMENT)}" if self.fragment else ""
        return f"{'' if self.query is None else f'?{self.query}'}{fragment}"


def parse_url(text: str) -> Url:
    """Return an absolute URL, or one that begins with an absolute path.

    Raises:
        ValueError: The text is none; the message is Go's.
    """
    check_url(text)
    before, _, fragment = text.partition("#")
    try:
        found = _parsed(before, is_request=False)
        _checked(fragment)
    except ValueError as error:
        raise ValueError(f"parse {quoted(text)}: {error}") from None
    return found._replace(fragment=fragment)


def check_url(text: str) -> None:
    """Refuse a text that is no URL of a request: neither absolute nor an absolute path.

    Raises:
        ValueError: It is none; the message is Go's.
    """
    try:
        _parsed(text, is_request=True)
    except ValueError as error:
        raise ValueError(f"parse {quoted(text)}: {error}") from None


def _parsed(given: str, *, is_request: bool) -> Url:
    if _CONTROL.search(given):
        raise ValueError("net/url: invalid control character in URL")
    if not given:
        raise ValueError("empty url")
    if given.startswith(":"):
        raise ValueError("missing protocol scheme")
    found = _SCHEME.fullmatch(given)
    scheme, rest = (found[1].lower(), found[2]) if found else ("", given)
    rest, mark, query = rest.partition("?")
    blank = Url(scheme, "", None, "", "", query if mark else None, "", False)
    if not rest.startswith("/"):
        if scheme:
            return blank._replace(opaque=rest)
        if given != "*":
            raise ValueError("invalid URI for request")
    is_host = rest.startswith("//") and (scheme or not (is_request or rest.startswith("///")))
    if is_host:
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(scheme, authority)
        blank, rest = blank._replace(user=user, host=host, has_authority=True), slash + path
    _checked(rest)
    return blank._replace(path=rest)


def _authority(scheme: str, authority: str) -> tuple[tuple[str, str | None] | None, str]:
    user, at, host = authority.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return None, host
    if not _USER.fullmatch(user):
        raise ValueError("net/url: invalid userinfo")
    name, colon, password = user.partition(":")
    return (_unescaped(_checked(name)), _unescaped(_checked(password)) if colon else None), host


def _host(scheme: str, host: str) -> str:
    if host.rfind("[") > 0:
        raise ValueError("invalid IP-literal")
    if host.startswith("["):
        return _literal(host)
    first = host.find(":")
    # In other URLs, a host may be a list of hosts with ports.
    port = host[first if scheme in ("http", "https") else host.rfind(":") :] if first >= 0 else ""
    _checked_port(port)
    return _unescaped(_in_host(host))


def _literal(host: str) -> str:
    address, bracket, port = host[1:].rpartition("]")
    if not bracket:
        raise ValueError("missing ']' in host")
    _checked_port(port)
    start, zone, name = address.partition(_ZONE)
    shown = _unescaped(_in_host(start)) + _unescaped(_checked(zone + name))
    try:
        found = parse_address(shown)
    except ValueError as error:
        raise ValueError(f"invalid host: {error}") from None
    if found.version == 4:
        raise ValueError("invalid IP-literal")
    return f"[{shown}]{port}"


def _checked_port(port: str) -> str:
    if not _PORT.fullmatch(port):
        raise ValueError(f"invalid port {quoted(port)} after host")
    return port


def _in_host(text: str) -> str:
    """Return what may stand in a host: no escapes of ASCII, and no characters that need one."""
    for position, character in enumerate(text):
        if character == "%":
            escape = _checked(text[position : position + 3])
            if int(escape[1:], 16) < 128 and escape != _ZONE:
                raise ValueError(f"invalid URL escape {quoted(escape)}")
        elif character < "\x80" and character not in _IN_HOST:
            raise ValueError(f"invalid character {quoted(character)} in host name")
    return text


def _checked(text: str) -> str:
    if found := _BROKEN_ESCAPE.search(text):
        part = text[found.start() : found.start() + 3].encode()[:3].decode("utf-8", "replace")
        raise ValueError(f"invalid URL escape {quoted(part)}")
    return text


def _unescaped(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "surrogateescape") if "%" in text else text


def _value(text: str) -> str:
    """Return a name or a value of a query; bytes that are no text become marks."""
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


def _escaped(text: str, kept: frozenset[str]) -> str:
    if all(one in kept for one in text):
        return text
    return "".join(chr(one) if chr(one) in kept else f"%{one:02X}" for one in text.encode("utf-8", "surrogateescape"))


def _as_given(text: str, kept: frozenset[str]) -> str:
    if all(one in kept or one in _LEFT_ALONE for one in text):
        return text
    return _escaped(_unescaped(text), kept)
