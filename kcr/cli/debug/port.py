"""The debug port of a running kcr: its address, and its responses."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, urlsplit

import click
import msgspec

from kcr.client import ClusterConfig
from kcr.errors import ConfigError, TransportError

F = TypeVar("F", bound=Callable[..., Any])

# The extension of a kubeconfig's cluster that names the port; `kcr dev` writes it.
EXTENSION = "kcr.dev/debug"
_PORTS = {"http": 80, "https": 443}
# A port that is forwarded accepts at once, or not at all.
CONNECT_SECONDS = 1.0
# The controller itself is waited for, which takes two seconds to say that its event loop is blocked.
SECONDS = 5.0
REMEDY = (
    "forward it with `kubectl -n NAMESPACE port-forward POD 8081`, and name it with --debug-address localhost:8081 "
    "(the port of --health-probe-bind-address)"
)


class DebugPort(NamedTuple):
    """A debug port.

    Attributes:
        url: Its address, without a path: `http://127.0.0.1:8081`.
        token: The bearer token that it asks for; empty for none.
        is_named: Whether the user has named it; else it was found in a kubeconfig, and may be out of date.
    """

    url: str
    token: str
    is_named: bool

    async def get(self, path: str, query: Mapping[str, str] = {}, seconds: float = SECONDS) -> bytes:
        """Return the response of a path below `/debug/kcr`.

        Args:
            path: Such as `/state`; empty for the page.
            query: The parameters.
            seconds: How long to wait at most.

        Raises:
            TransportError: Nothing answers.
            ConfigError: The server there is no debug port of kcr, or refuses.
        """
        return await fetch(f"{self.url}/debug/kcr{path}", query, self.token, seconds)


async def fetch(url: str, query: Mapping[str, str] = {}, token: str = "", seconds: float = SECONDS) -> bytes:
    """Return the body at a URL.

    Args:
        url: Without a query.
        query: The parameters.
        token: Sent as a bearer token; empty for none.
        seconds: How long to wait at most.

    Raises:
        TransportError: Nothing answers.
        ConfigError: The answer is no 200.
    """
    import aiohttp  # noqa: PLC0415  # it takes long, and most commands need no debug port

    parts = urlsplit(url)
    where = url if "/debug/" not in url else f"the debug port {parts.scheme}://{parts.netloc}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
            session.get(url, params=query) as answer,
        ):
            body = await answer.read()
    except TimeoutError as error:
        raise TransportError(f"{where} does not answer in time: {REMEDY}") from error
    except aiohttp.ClientConnectorError as error:
        why = "connection refused" if isinstance(error.os_error, ConnectionRefusedError) else error.strerror
        raise TransportError(f"{where} does not answer: {why}: {REMEDY}") from error
    except (aiohttp.ClientError, ValueError) as error:
        raise TransportError(f"{where} does not answer: {error}: {REMEDY}") from error
    if answer.status == 200:
        return body
    if answer.status == 404:
        raise ConfigError(f"{where} has no {parts.path}: see that it is the probe port of kcr, not of an older version")
    text = " ".join(body.decode(errors="replace").split())[:300]
    raise ConfigError(f"{where} answers {answer.status}: {text}")


def parse_address(text: str) -> DebugPort:
    """Read an address: `HOST:PORT`, `:PORT`, or a URL as `kcr dev` prints it, with a token.

    Raises:
        ConfigError: The text is not an address.
    """
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        port = parts.port or (_PORTS.get(parts.scheme) if "://" in text else None)
    except ValueError:
        port = None
    if port is None or parts.scheme not in ("http", "https"):
        raise ConfigError(f"{text!r} is not an address of a debug port: write HOST:PORT, such as localhost:8081")
    host = parts.hostname or "127.0.0.1"
    token = parse_qs(parts.query).get("token", [""])[0]
    return DebugPort(f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}", token, is_named=True)


def port_of(config: ClusterConfig) -> DebugPort | None:
    """Return the debug port that a kubeconfig's cluster names, or None."""
    try:
        extension = msgspec.convert(config.extensions.get(EXTENSION), _Extension)
        return parse_address(extension.address)._replace(token=extension.access_token, is_named=False)
    except (msgspec.ValidationError, ConfigError):
        return None


class _Extension(msgspec.Struct, rename="camel"):
    address: str
    access_token: str = ""


def debug_option(command: F) -> F:
    """Add `--debug-address`."""
    return click.option(
        "--debug-address", metavar="HOST:PORT", callback=_address, envvar="KCR_DEBUG_ADDRESS", show_envvar=True,
        show_default="that of kcr dev, by the kubeconfig",
        help="The probe port of a running controller, or the URL that kcr dev prints.",
    )(command)  # fmt: skip


def _address(ctx: click.Context, parameter: click.Parameter, text: str | None) -> DebugPort | None:
    try:
        return parse_address(text) if text else None
    except ConfigError as error:
        raise click.BadParameter(str(error)) from error


def without_secrets(text: str) -> str:
    """Return a text without strings that resemble tokens, passwords or keys."""
    for pattern in _SECRETS:
        text = pattern.sub(r"\1[left out]", text)
    return text


_SECRETS = (
    re.compile(r"((?i:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}"),
    # JSON web tokens, and those of bootstrap.
    re.compile(r"()\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"),
    re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)"),
    re.compile(r"((?i:token|password|secret|api[-_]?key)\"?\s*[=:]\s*\"?)(?!\")[^\s\"&,}]{6,}"),
    re.compile(r"()-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
)
