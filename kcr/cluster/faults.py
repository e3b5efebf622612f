"""Faults of the listener: what HTTP clients of the cluster meet, by rules.

A rule selects requests by verb, resource, name and number, and has one fault, named as in
`kcr.testing.FaultyTransport`. Only what comes through the listener is disturbed: controllers in other processes and
languages, kubectl, pods. The cluster's own controllers and node call the server without it.
"""

import asyncio
import random as randomness
from collections.abc import AsyncIterator, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlencode

import msgspec

from kcr.api.yaml_json import YamlError, load_yaml
from kcr.apiserver.responses import APIResponse, StatusError, Stream
from kcr.apiserver.server import APIServer, HTTPRequest
from kcr.client.wire.requests import Verb, call_of
from kcr.errors import ConfigError

# The reason with which servers answer; the message is the same for all.
_REASONS = {
    403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 429: "TooManyRequests",
    500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip
_MESSAGE = "a fault, as a rule of the cluster asks"
_TOP = {"seed", "faults"}
_FAULTS = ("fail", "delay", "lose_request", "lose_reply", "freeze", "cut", "repeat", "lag", "older")

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=3600)]


class ConnectionLostError(Exception):
    """The connection is to be closed at once, without the rest of the response."""


class FaultRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, rename="camel"):
    """Which requests are disturbed, and how. Several rules may apply to one request.

    Attributes:
        verb: The API verb; None for all.
        resource: The plural, with the group if there is one (`pods`, `jobs.batch`); empty for all.
        name: A pattern such as `pi-*` for the object's name; empty for all. Creations have no name.
        nth: Only the n-th such request; 0 for every one.
        times: At most so many requests; 0 for no limit.
        chance: The probability that a request is disturbed.
        fail: Answer with this code; the request is not executed.
        retry_after_seconds: With `fail`: when to try again.
        delay: Execute the request so many seconds later.
        lose_request: Close the connection before the request is executed.
        lose_reply: Execute the request, and close the connection without an answer.
        freeze: Silence a watch after so many lines.
        cut: Close the connection of a watch after so many lines.
        repeat: Send each line of a watch twice.
        lag: Send what a watch has to say so many seconds later.
        older: Answer a list as it was so many versions of the cluster ago.
    """

    verb: Verb | None = None
    resource: str = ""
    name: str = ""
    nth: _Count = 0
    times: _Count = 0
    chance: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    fail: Literal[403, 404, 409, 410, 429, 500, 503, 504] | None = None
    retry_after_seconds: _Count = 0
    delay: _Seconds | None = None
    lose_request: Literal[True] | None = None
    lose_reply: Literal[True] | None = None
    freeze: _Count | None = None
    cut: _Count | None = None
    repeat: Literal[True] | None = None
    lag: _Seconds | None = None
    older: _Count | None = None

    def __post_init__(self) -> None:
        """Check what no single field says.

        Raises:
            ValueError: It has no fault or several, or one that requests of its verb cannot have.
        """
        faults = [name for name in _FAULTS if getattr(self, name) is not None]
        if len(faults) != 1:
            raise ValueError(f"one fault is needed, of {', '.join(map(_wire, _FAULTS))}: there are {len(faults)}")
        verb = {"freeze": "watch", "cut": "watch", "repeat": "watch", "lag": "watch", "older": "list"}.get(faults[0])
        if verb is not None and self.verb != verb:
            raise ValueError(f"{faults[0]} is a fault of verb: {verb}")
        if self.retry_after_seconds and self.fail is None:
            raise ValueError("retryAfterSeconds belongs to fail")


class _Counted:
    """A rule, and how often it has been considered and applied."""

    def __init__(self, rule: FaultRule) -> None:
        self.rule = rule
        self.matched = 0
        self.met = 0

    def takes(self, request: HTTPRequest, random: randomness.Random) -> bool:
        rule, call = self.rule, call_of(request.method, request.target)
        group, _, plural = call.resource
        if rule.verb not in (None, call.verb) or rule.resource not in ("", f"{plural}.{group}" if group else plural):
            return False
        if rule.name and not fnmatchcase(call.name, rule.name):
            return False
        self.matched += 1
        if rule.nth not in (0, self.matched) or (rule.times and self.met >= rule.times):
            return False
        taken = rule.chance >= 1.0 or random.random() < rule.chance
        self.met += taken
        return taken


class ListenerFaults:
    """The rules in effect; with the same seed the same requests are disturbed."""

    def __init__(self, rules: Iterable[FaultRule] = (), *, seed: int = 0) -> None:
        """Begin with some rules.

        Args:
            rules: They apply in this order.
            seed: Of rules with a chance.
        """
        self._random = randomness.Random(seed)
        self._rules = [_Counted(rule) for rule in rules]

    def add(self, rule: FaultRule) -> None:
        """Have one more rule from now on."""
        self._rules.append(_Counted(rule))

    def heal(self) -> None:
        """Remove all rules. Watches that are frozen stay so until their reader closes them."""
        self._rules.clear()

    def met(self, rule: FaultRule) -> int:
        """Return how many requests a rule has been applied to."""
        return sum(one.met for one in self._rules if one.rule is rule)

    async def handle(self, server: APIServer, request: HTTPRequest) -> APIResponse:
        """Have a server handle a request, with the faults of the rules that apply.

        Raises:
            ConnectionLostError: There is no answer.
        """
        rules = [one.rule for one in self._rules if one.takes(request, self._random)]
        for rule in rules:
            if rule.delay is not None:
                await asyncio.sleep(rule.delay)
            elif rule.lose_request:
                raise ConnectionLostError
            elif rule.fail is not None:
                return _failure(rule.fail, rule.retry_after_seconds)
            elif rule.older is not None:
                request = _older(request, max(1, server.registry.storage.revision - rule.older))
        response = await server.handle(request)
        for rule in rules:
            if rule.lose_reply:
                if not isinstance(response.body, bytes):
                    await response.body.aclose()
                raise ConnectionLostError
            if not isinstance(response.body, bytes):
                response = response._replace(body=_DisturbedStream(response.body, rule))
        return response


class _DisturbedStream:
    """The lines of a watch, with one fault."""

    def __init__(self, inner: Stream, rule: FaultRule) -> None:
        self._inner = inner
        self._rule = rule

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        after = self._rule.cut if self._rule.freeze is None else self._rule.freeze
        left = -1 if after is None else after
        if left == 0:
            await self._end()
        async for chunk in self._inner:
            if self._rule.lag:
                await asyncio.sleep(self._rule.lag)
            # Parts of a watch end with a line.
            lines = chunk.splitlines(keepends=True)
            if 0 < left <= len(lines):
                yield b"".join(lines[:left])
                await self._end()
            left -= len(lines) if left > 0 else 0
            yield b"".join(line + line for line in lines) if self._rule.repeat else chunk

    async def _end(self) -> None:
        if self._rule.freeze is not None:
            # Until the server ends the watch: a connection that is dead in truth stays so.
            async for _ in self._inner:
                pass
        raise ConnectionLostError


def read_faults(file: Path) -> ListenerFaults:
    """Return the rules of a YAML file: a mapping of `seed` and `faults`, a list of rules.

    Raises:
        ConfigError: It cannot be read, or rules are wrong; the message names each of them.
    """
    try:
        content = load_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YamlError) as error:
        raise ConfigError(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("faults"), list) or set(content) - _TOP:
        raise ConfigError(f"{file}: a mapping with a list `faults`, and a number `seed` if you like, is needed")
    if not isinstance(content.get("seed", 0), int):
        raise ConfigError(f"{file}: seed: a whole number is needed")
    rules, wrong = [], []
    for number, one in enumerate(content["faults"], 1):
        try:
            rules.append(msgspec.convert(one, FaultRule))
        except msgspec.ValidationError as error:
            wrong.append(f"rule {number}: {error}")
    if wrong:
        raise ConfigError(f"{file}: {'; '.join(wrong)}")
    return ListenerFaults(rules, seed=content.get("seed", 0))


def _failure(code: int, retry_after_seconds: int) -> APIResponse:
    return StatusError(code, _REASONS[code], _MESSAGE, retry_after_seconds=retry_after_seconds).response()


def _older(request: HTTPRequest, revision: int) -> HTTPRequest:
    """Return a list's request for what it was at a revision; the pages that follow have theirs in the token."""
    path, _, query = request.target.partition("?")
    if "continue=" in query:
        return request
    rest = [part for part in query.split("&") if part and not part.startswith("resourceVersion")]
    exact = urlencode({"resourceVersion": revision, "resourceVersionMatch": "Exact"})
    return request._replace(target=f"{path}?{'&'.join((*rest, exact))}")


def _wire(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
