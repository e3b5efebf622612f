"""The faults of a listener: applies the rules to requests and responses."""

import asyncio
from collections.abc import Iterable
from urllib.parse import parse_qs

import msgspec

from kcr.arguments import checked
from kcr_devcluster.apiserver.http.serialization import event_line
from kcr_devcluster.apiserver.protocol.responses import JSON, APIResponse, StatusError, expired
from kcr_devcluster.apiserver.server import APIServer, HTTPRequest
from kcr_devcluster.calls import call_of
from kcr_devcluster.cluster.faults.bodies import ConnectionLostError, Whole, disturbed
from kcr_devcluster.cluster.faults.past_storage import PastStorage
from kcr_devcluster.cluster.faults.rules import ArrivingRequest, FaultRule, RuleSet

# The reason with which servers answer; the message is the same for all.
_REASONS = {
    403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 429: "TooManyRequests",
    500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip
_MESSAGE = "a fault, as a rule of the cluster asks"
# The annotation that an interfering write changes, and its field manager.
INTERFERENCE = "kcr.dev/interfering-write"
_INTERFERER = "kcr-faults"


class ListenerFaults:
    """The faults in effect.

    Attributes:
        rules: Which requests are disturbed, and how.
    """

    @checked
    def __init__(self, rules: Iterable[FaultRule] = (), *, seed: int = 0) -> None:
        """Begin with some rules.

        Args:
            rules: They apply in this order.
            seed: Of rules with a chance.
        """
        self.rules: RuleSet = RuleSet(rules, seed=seed)

    @checked
    def add(self, rule: FaultRule) -> None:
        """Have one more rule from now on."""
        self.rules.add(rule)

    def heal(self) -> None:
        """Remove all rules. Watches that are frozen stay so until their reader closes them."""
        self.rules.remove()

    def met(self, rule: FaultRule) -> int:
        """Return how many requests a rule has been applied to."""
        return sum(one.met for one in self.rules if one.rule is rule)

    async def handle(self, server: APIServer, request: HTTPRequest) -> APIResponse:
        """Have a server handle a request, with the faults of the rules that apply.

        Raises:
            ConnectionLostError: There is no answer.
        """
        if not self.rules:
            return await server.handle(request)
        arriving = _arriving(request)
        rules = self.rules.taken_by(arriving)
        for rule in rules:
            if (refusal := await _before(rule)) is not None:
                return refusal
            if rule.expire:
                return _expired(request, server)
            if rule.interfere:
                await _interfere(server, arriving.path)
            if rule.older is not None:
                request = request._replace(reads=PastStorage(server.registry.storage, rule.older))
        response = await server.handle(request)
        for rule in rules:
            if rule.lose_reply:
                if not isinstance(response.body, bytes):
                    await response.body.aclose()
                raise ConnectionLostError
            response = disturbed(response, rule)
        return response


async def _before(rule: FaultRule) -> APIResponse | None:
    """Apply a fault that delays a request or prevents its execution; return the refusal if it is one."""
    if rule.delay is not None:
        await asyncio.sleep(rule.delay)
    if rule.lose_request:
        raise ConnectionLostError
    return None if rule.fail is None else _failure(rule.fail, rule.retry_after_seconds)


def _arriving(request: HTTPRequest) -> ArrivingRequest:
    call = call_of(request.method, request.target)
    path, _, query = request.target.partition("?")
    if call.subresource:
        path = path.removesuffix(f"/{call.subresource}")
    resumes = call.verb == "watch" and parse_qs(query).get("resourceVersion", ["0"])[0] not in ("", "0")
    return ArrivingRequest(call, path, resumes)


def _failure(code: int, retry_after_seconds: int) -> APIResponse:
    return StatusError(code, _REASONS[code], _MESSAGE, retry_after_seconds=retry_after_seconds).response()


def _expired(request: HTTPRequest, server: APIServer) -> APIResponse:
    """Return the response to a watch whose version is older than the history."""
    given = parse_qs(request.target.partition("?")[2])["resourceVersion"][0]
    error = expired(f"too old resource version: {given} ({server.registry.storage.revision})")
    return APIResponse(200, {"Content-Type": JSON}, Whole(event_line("ERROR", error.status())))


async def _interfere(server: APIServer, path: str) -> None:
    """Write an object as another client would; nothing where it does not exist."""
    body = {"metadata": {"annotations": {INTERFERENCE: str(server.registry.storage.revision)}}}
    headers = {"Content-Type": "application/merge-patch+json"}
    await server.handle(HTTPRequest("PATCH", f"{path}?fieldManager={_INTERFERER}", headers, msgspec.json.encode(body)))
