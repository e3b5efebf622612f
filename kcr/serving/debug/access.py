"""Access to the debug pages, and a program's options for them.

They show names of objects and texts of errors, so they are for users on the machine or inside the pod, such as
`kubectl port-forward`, which asks the API server for the right to do so. A browser there may be asked by any website
for a page of its own name that resolves to 127.0.0.1 (DNS rebinding): so the `Host` header must be a local one. And a
website may let the browser send requests whose responses it cannot read; `Sec-Fetch-Site` says where a request comes
from. Such a request is refused, unless a window is to show the response: a link to the page works. Requests that cost
the program something are for the page itself and for programs alone.
"""

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from kcr.client.credentials import redacted
from kcr.serving.ports import BrowserHeaders, ProbeRequest, ProbeResponse
from kcr.serving.ports.access import bearer_token

# Where the debug pages are.
ROOT = "/debug/kcr"
# Not all of 127.0.0.0/8: the proxies of service meshes come from other addresses there for clients elsewhere.
_LOOPBACK = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
_LOCAL_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", re.IGNORECASE)

# Answers a request to one path; called on the port's thread, so it changes nothing. It fails with TimeoutError when the
# program's event loop, from which it needs something, is blocked.
Route = Callable[[ProbeRequest], Awaitable[ProbeResponse]]


class DebugOptions(NamedTuple):
    """The options of the debug pages: additional contents, and access.

    Attributes:
        command: The running command, such as `kcr run`; empty for the program's name.
        server: The API server's address; empty for one in this process.
        options: The contents of `/debug/kcr/options`: no secrets.
        token: Readers must give it as `?token=…` or as a bearer token; empty for no token.
        routes: More paths, such as `/debug/kcr/logs`.
        on_listening: Called with the address of the port, such as `127.0.0.1:40123`, once it is open.
    """

    command: str = ""
    server: str = ""
    options: Mapping[str, object] = {}
    token: str = ""
    routes: Mapping[str, Route] = {}
    on_listening: Callable[[str], object] = str

    def __repr__(self) -> str:
        return redacted(self, "command", "server")


def refuse(request: ProbeRequest, token: str, *, is_costly: bool = False) -> ProbeResponse | None:
    """Return why a request to a debug page is refused; None lets it pass.

    Args:
        request: The request.
        token: The token that it must have; empty for none.
        is_costly: Whether the response costs the program something, so that no other website may ask for it.
    """
    if request.client not in _LOOPBACK:
        remedy = "run `kubectl port-forward POD PORT`, and open http://localhost:PORT/debug/kcr"
        return _say(403, f"{request.path} is served to this machine alone: {remedy}")
    if not _LOCAL_HOST.fullmatch(request.host):
        return _say(403, f"{request.path} is served under local names alone: open it at http://localhost:PORT")
    if _is_foreign(request.browser, is_costly):
        remedy = f"open {request.path} by itself, or from the page /debug/kcr"
        return _say(403, f"{request.path} is not served to other websites: {remedy}, or read it with curl")
    given = bearer_token(request.authorization) or next(iter(request.query.get("token", ())), "")
    if token and not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        return _say(
            401, f"{request.path} needs a token: open the address that was printed at the start, or add ?token="
        )
    return None


def _is_foreign(browser: BrowserHeaders, is_costly: bool) -> bool:
    """Return whether another website may have sent a request: a browser sends it and does not say that it has not.

    Source: https://www.w3.org/TR/fetch-metadata/
    """
    if browser.site:
        is_link = browser.mode == "navigate" and not is_costly
        return browser.site not in ("same-origin", "none") and not is_link
    return is_costly and browser.user_agent.startswith("Mozilla/")


def _say(status: int, words: str) -> ProbeResponse:
    return ProbeResponse(status, f"{words}\n".encode())
