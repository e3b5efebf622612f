"""Who may read a port: the API server authenticates the bearer token of each request, and authorizes its user.

A TokenReview says whose token it is, a SubjectAccessReview whether that user may `get` the path: the right of a role
with `nonResourceURLs: ["/metrics"]` and `verbs: ["get"]`. Answers are kept for a while, so that a reader who comes
every few seconds costs one review in minutes. When a review fails, the request is answered with 500: never open by
failure.

Source: controller-runtime/pkg/metrics/filters/filters.go, WithAuthenticationAndAuthorization;
apiserver/pkg/authentication/token/cache, apiserver/plugin/pkg/{authenticator/token,authorizer}/webhook.
"""

import asyncio
import hmac
import secrets
from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kcr.api import codec
from kcr.api.meta import Object
from kcr.client import Client
from kcr.errors import ApiError, KcrError, TransportError
from kcr.log import get_logger
from kcr.log.ratelimited import RateLimitedLogger
from kcr.serving.ports.server import ProbeRequest, ProbeResponse

V = TypeVar("V")

_TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
# How long answers are kept.
TOKEN_SECONDS, ALLOWED_SECONDS, DENIED_SECONDS = 60.0, 300.0, 30.0
_KEPT = 8192
# At most so many reviews are sent at once, so that clients of the port leave connections to the controllers.
_AT_ONCE = 10
_REVIEW_SECONDS = 10.0
_PAUSES = (0.5, 0.75, 1.125, 1.6875)
_AUTHENTICATED = "system:authenticated"

_log = get_logger()


class _User(Object):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class _TokenStatus(Object):
    authenticated: bool = False
    user: _User = _User()
    error: str = ""


class _TokenReview(Object):
    status: _TokenStatus


class _AccessStatus(Object):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class _AccessReview(Object):
    status: _AccessStatus


class _Identity(NamedTuple):
    """The user of a token, None for a token that the server does not know."""

    user: _User | None


class ReviewedAccess:
    """Lets those pass whom the API server knows and allows."""

    def __init__(self, client: Client) -> None:
        """Make a filter; `refuse` is called with each request.

        Args:
            client: Sends the reviews: its identity must be allowed to create TokenReviews and SubjectAccessReviews.
        """
        self._client = client
        self._identities: ExpiringCache[_Identity] = ExpiringCache()
        self._decisions: ExpiringCache[bool] = ExpiringCache()
        # Tokens themselves are not kept.
        self._secret = secrets.token_bytes(32)
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._failures = RateLimitedLogger(_log)

    async def refuse(self, request: ProbeRequest) -> ProbeResponse | None:
        """Return why a request is refused; None lets it pass.

        A token that the API server refuses is answered with 401; upstream answers 500, as if its review had failed.
        """
        token = bearer_token(request.authorization)
        if not token:
            return _say(401, "Unauthorized")
        try:
            user = (await self._identify(token)).user
        except (KcrError, TimeoutError) as error:
            return self._failed("Authentication failed", error)
        if user is None:
            _log.debug("Authentication failed", path=request.path)
            return _say(401, "Unauthorized")
        try:
            allowed = await self._is_allowed(user, request.method.lower(), request.path)
        except (KcrError, TimeoutError) as error:
            return self._failed(f"Authorization for user {user.username} failed", error)
        if allowed:
            return None
        words = f"Authorization denied for user {user.username}"
        _log.debug(words, path=request.path)
        return _say(403, words)

    def _failed(self, words: str, error: Exception) -> ProbeResponse:
        why = str(error) or f"the API server has not answered within {_REVIEW_SECONDS:.0f} s"
        self._failures.error(asyncio.get_running_loop().time(), words, what="metrics", error=why)
        return _say(500, words)

    async def _identify(self, token: str) -> _Identity:
        key = hmac.digest(self._secret, token.encode("utf-8", "surrogateescape"), "sha256")
        # A known token needs no place: a flood of unknown tokens must not delay clients that come every few seconds.
        if (known := self._identities.get(key)) is not None:
            return known
        async with self._places:
            # Another request may have asked meanwhile.
            if (known := self._identities.get(key)) is not None:
                return known
            status = (await self._review(_TOKEN_REVIEWS, "TokenReview", {"token": token}, _TokenReview)).status
        if not status.authenticated:
            if not status.error:
                self._identities.put(key, _Identity(None), TOKEN_SECONDS)
            return _Identity(None)
        user = status.user
        if _AUTHENTICATED not in user.groups:
            user = msgspec.structs.replace(user, groups=(*user.groups, _AUTHENTICATED))
        self._identities.put(key, found := _Identity(user), TOKEN_SECONDS)
        return found

    async def _is_allowed(self, user: _User, verb: str, path: str) -> bool:
        spec = {
            "user": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra,
            "nonResourceAttributes": {"path": path, "verb": verb},
        }  # fmt: skip
        key = codec.encode(spec)
        if (known := self._decisions.get(key)) is not None:
            return known
        async with self._places:
            if (known := self._decisions.get(key)) is not None:
                return known
            status = (await self._review(_ACCESS_REVIEWS, "SubjectAccessReview", spec, _AccessReview)).status
        if status.allowed and status.denied:
            raise TransportError(f"POST {_ACCESS_REVIEWS}: the review is both allowed and denied")
        self._decisions.put(key, status.allowed, ALLOWED_SECONDS if status.allowed else DENIED_SECONDS)
        return status.allowed

    async def _review(self, path: str, kind: str, spec: Mapping[str, object], answer: type[V]) -> V:
        """Send a review, and again where that may help: it changes nothing, so it can be sent twice.

        Source: apiserver/pkg/util/webhook/webhook.go, DefaultShouldRetry.
        """
        body = codec.encode({"apiVersion": path.split("/apis/")[1].rpartition("/")[0], "kind": kind, "spec": spec})
        async with asyncio.timeout(_REVIEW_SECONDS):
            for pause in _PAUSES:
                try:
                    return await self._send(path, body, answer)
                except (ApiError, TransportError) as error:
                    if isinstance(error, ApiError) and error.code not in (429, 500, 504):
                        raise
                await asyncio.sleep(pause)
            return await self._send(path, body, answer)

    async def _send(self, path: str, body: bytes, answer: type[V]) -> V:
        text = await self._client.request("POST", path, body)
        try:
            return codec.decode(answer, text)
        except msgspec.DecodeError as error:
            raise TransportError(f"POST {path}: this is not a review: {error}") from error


class ExpiringCache(Generic[V]):
    """Values by key, each for some time, and so many at most: the oldest gives way."""

    def __init__(self, size: int = _KEPT) -> None:
        self._size = size
        # When each ends, and the value; in the order in which they were put.
        self._entries: dict[Hashable, tuple[float, V]] = {}

    def get(self, key: Hashable) -> V | None:
        """Return the value of a key, None when there is none any more."""
        ends, value = self._entries.get(key, (float("-inf"), None))
        if ends > asyncio.get_running_loop().time():
            return value
        self._entries.pop(key, None)
        return None

    def put(self, key: Hashable, value: V, seconds: float) -> None:
        """Keep a value for some time."""
        self._entries.pop(key, None)
        if len(self._entries) >= self._size:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = (asyncio.get_running_loop().time() + seconds, value)

    def __len__(self) -> int:
        """Return how many values are kept, those that have ended among them."""
        return len(self._entries)


def bearer_token(authorization: str) -> str:
    """Return the token of an `Authorization` header, empty when it has none.

    Source: apiserver/pkg/authentication/request/bearertoken/bearertoken.go.
    """
    scheme, *parts = authorization.strip().split(" ", 2)
    return parts[0] if parts and scheme.lower() == "bearer" else ""


def _say(status: int, words: str) -> ProbeResponse:
    return ProbeResponse(status, f"{words}\n".encode())
