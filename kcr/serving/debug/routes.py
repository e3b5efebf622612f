"""The debug pages: `/debug/kcr` and the paths below it, served on the thread of the probe port.

`/debug/kcr` is one file with its styles and its script inside, which asks for nothing else but JSON. It reads `/state`
and `/key` below its own path, and sends the parameter `token` of its address with each request. More tabs, such as
those of `kcr dev`, are styles and statements that are put into it before it is served. The names and errors that it
shows come from objects that others write, so it never reads a text as HTML, and the header `Content-Security-Policy`
allows the two inline blocks by their hashes and nothing else.
"""

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from kcr.api.explanation import Explanation, counted
from kcr.api.meta import Key
from kcr.controller import Controller
from kcr.errors import KcrError, described
from kcr.informer.verification import VERIFY_SECONDS, Verified
from kcr.serving.debug.access import ROOT, refuse
from kcr.serving.debug.snapshot import StateReader
from kcr.serving.debug.sources import StateSources, retried
from kcr.serving.debug.state import HotLoopState, KeyDetail
from kcr.serving.ports import ProbeRequest, ProbeResponse, ProgramLoop
from kcr.stacks import MAX_PROFILE_SECONDS, collect_stacks, profile

# Of each controller: so many keys, and at most so many.
DEFAULT_KEYS, MAX_KEYS = 200, 10_000
# Limits of calls on the program's loop, and of the readiness checks: after that, the previous results of the checks
# are shown.
LOOP_SECONDS, READY_SECONDS = 2.0, 0.03

# The page that takes samples of the program for as long as a minute.
_COSTLY = f"{ROOT}/profile"

_JSON = "application/json"
# Logs and stacks hold texts that others write: no browser may take them for a page, keep them, or embed them elsewhere.
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class _BadQueryError(ValueError):
    """A parameter of the query is malformed."""


class DebugPages:
    """Answers requests to the debug pages; used on one loop alone, which is not the program's."""

    def __init__(self, sources: StateSources, program: ProgramLoop) -> None:
        self._sources = sources
        self._program = program
        self._reader = StateReader(sources, program)
        self._not_ready: tuple[str, ...] = ()
        self._is_profiling = False
        self._pages: Mapping[str, Callable[[ProbeRequest], Awaitable[ProbeResponse]]] = {
            "": self._page,
            "/state": self._state,
            "/key": self._key,
            "/stacks": self._stacks,
            "/profile": self._profile,
            "/options": self._options,
            "/verify": self._verify,
        }

    async def answer(self, request: ProbeRequest) -> ProbeResponse | None:
        """Answer a request to a path below `/debug`; None when there is nothing there."""
        answer = await self._answer(request)
        return answer._replace(headers={**_HEADERS, **answer.headers}) if answer is not None else None

    async def _answer(self, request: ProbeRequest) -> ProbeResponse | None:
        path = request.path.rstrip("/")
        is_costly = path == _COSTLY
        if (refusal := refuse(request, self._sources.options.token, is_costly=is_costly)) is not None:
            return refusal
        page = self._sources.options.routes.get(path)
        if page is None and path.startswith(ROOT):
            page = self._pages.get(path.removeprefix(ROOT))
        try:
            return await page(request) if page is not None else None
        except _BadQueryError as error:
            return ProbeResponse(400, f"{error}\n".encode())
        except TimeoutError:
            return ProbeResponse(503, f"{self._why_late()}\n".encode())

    def _why_late(self) -> str:
        monitor = self._sources.monitor
        place = monitor.blocked_at(self._program.now()) if monitor is not None else ""
        return f"the event loop is blocked: {place}" if place else f"no answer within {LOOP_SECONDS:.0f} s"

    async def _page(self, request: ProbeRequest) -> ProbeResponse:
        return ProbeResponse(200, page_html(), "text/html; charset=utf-8", page_headers(page_html()))

    async def _state(self, request: ProbeRequest) -> ProbeResponse:
        max_keys = _number(request, "keys", DEFAULT_KEYS, 0, MAX_KEYS)
        monitor = self._sources.monitor
        if monitor is None or not monitor.blocked_at(self._program.now()):
            with suppress(TimeoutError):
                self._not_ready = await self._program.read(self._sources.health.not_ready, READY_SECONDS)
        return _json(self._reader.state(self._program.now(), max_keys, self._not_ready))

    async def _key(self, request: ProbeRequest) -> ProbeResponse:
        try:
            key = Key.parse(_text(request, "key"))
        except ValueError as error:
            raise _BadQueryError(f"key: {error}") from error
        found = self._sources.controllers_of(_text(request, "controller"), _text(request, "kind"))
        return _json([await self._detail(controller, key) for controller in found])

    async def _detail(self, controller: Controller, key: Key) -> KeyDetail:
        explanation, error = await self._explain(controller, key)
        reader = self._reader.controller(controller.name, self._program.now())
        hot = controller.hot_loop(key, self._program.now())
        return KeyDetail(
            controller=controller.name,
            state=reader.key_state(key),
            runs=reader.runs_of(key),
            unconfirmed=reader.unconfirmed(key),
            explanation=explanation,
            explanation_error=error,
            hot_loop=hot and HotLoopState(event=hot.event, place=hot.place, remedy=hot.remedy),
            plugin=controller.plugin,
        )

    async def _explain(self, controller: Controller, key: Key) -> tuple[dict[str, object] | None, str]:
        explain: Callable[[Key], Awaitable[Any]] | None = getattr(controller.reconciler, "explain", None)
        if explain is None:
            return None, ""
        try:
            explanation = await self._program.call(lambda: explain(key), LOOP_SECONDS)
        except TimeoutError:
            return None, self._why_late()
        except (Exception, SystemExit) as error:
            return None, described(error)
        if not isinstance(explanation, Explanation):
            return None, f"explain returned {explanation!r:.100}, not a kcr.Explanation"
        return msgspec.to_builtins(explanation), ""

    async def _stacks(self, request: ProbeRequest) -> ProbeResponse:
        stacks = retried(lambda: collect_stacks(self._program.loop))
        lines = [f"{counted(len(stacks.threads), 'thread')}, the innermost call last:"]
        lines += [f"  {name}: {calls}" for name, calls in stacks.named_threads()]
        lines += ["", f"{counted(len(stacks.tasks), 'task')} of the event loop, and where each waits:"]
        lines += [f"  {name}: {where}" for name, where in stacks.tasks]
        return ProbeResponse(200, ("\n".join(lines) + "\n").encode())

    async def _profile(self, request: ProbeRequest) -> ProbeResponse:
        seconds = _number(request, "seconds", 10, 1, MAX_PROFILE_SECONDS)
        if self._is_profiling:
            return ProbeResponse(409, b"another profile is being taken: try again when it has ended\n")
        self._is_profiling = True
        try:
            return ProbeResponse(200, (await profile(self._program.thread, seconds)).encode())
        finally:
            self._is_profiling = False

    async def _verify(self, request: ProbeRequest) -> ProbeResponse:
        wanted, found = _text(request, "kinds").split(), list[Verified]()
        for name, one in self._sources.informers.copy().items():
            if not wanted or name in wanted:
                try:
                    found += await self._program.call(one.informer.verify, VERIFY_SECONDS)
                except KcrError as error:
                    found.append(Verified(name, (described(error),)))
        return _json(found)

    async def _options(self, request: ProbeRequest) -> ProbeResponse:
        return _json(self._sources.options.options)


def _json(value: object) -> ProbeResponse:
    return ProbeResponse(200, msgspec.json.encode(value, enc_hook=str), _JSON, {"Cache-Control": "no-store"})


def _text(request: ProbeRequest, name: str) -> str:
    return next(iter(request.query.get(name, ())), "")


def _number(request: ProbeRequest, name: str, default: int, least: int, most: int) -> int:
    text = _text(request, name)
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise _BadQueryError(f"{name}: {text!r:.40} is not a number")
    number = int(text)
    if not least <= number <= most:
        raise _BadQueryError(f"{name}: {number} is not between {least} and {most}")
    return number


@cache
def page_html(style: str = "", script: str = "") -> bytes:
    """Return the page, as `text/html; charset=utf-8`.

    Args:
        style: More styles.
        script: More statements; they add to `tabs`.
    """
    html = resources.files("kcr.serving.debug").joinpath("page.html").read_text(encoding="utf-8")
    return html.replace("/* more styles */\n", style).replace("// ---- more tabs\n", script).encode()


@cache
def page_headers(html: bytes) -> Mapping[str, str]:
    """Return the headers to serve a page of `page_html` with.

    The page's address may hold a token, so no other address learns it (`Referrer-Policy`).
    """
    policy = [
        "default-src 'none'",
        f"script-src {_hash_of(html, 'script')}",
        f"style-src {_hash_of(html, 'style')}",
        "connect-src 'self'",
        "img-src data:",  # the icon
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    return {
        "Content-Security-Policy": "; ".join(policy),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }


def _hash_of(html: bytes, element: str) -> str:
    (text,) = re.findall(rf"<{element}[^>]*>(.*?)</{element}>".encode(), html, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
