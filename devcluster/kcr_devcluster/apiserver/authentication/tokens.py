"""Tokens of service accounts.

A token is a JSON Web Token, signed with a key of this server (HS256). It is valid as long as its time has not run out,
and as the service account, and the pod or Secret that it is bound to, are those it was issued for.

Source: kubernetes/pkg/serviceaccount/{claims,jwt}.go; staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from kcr.api.meta import ObjectMeta
from kcr.errors import KcrError
from kcr_devcluster.apiserver.authentication.users import AUTHENTICATED, User, service_account_groups

AUDIENCE = "https://kubernetes.default.svc.cluster.local"
_HEADER = b'{"alg":"HS256","typ":"JWT"}'
_PRIVATE = "kubernetes.io"
_EXTRA = "authentication.kubernetes.io/"

Claims = Mapping[str, Any]
# Returns the uid of an object that the claims name, by kind, namespace and name; `""` where there is none.
UidOf = Callable[[str, str, str], str]


class BoundObject(NamedTuple):
    """An object that a token names. `uid` is `""` for a node that does not exist."""

    kind: str
    name: str
    uid: str


class TokenSubject(NamedTuple):
    """The subject of a token.

    Attributes:
        account: The metadata of the service account.
        audiences: The audiences that may accept it.
        bound: The object whose deletion invalidates it, if any; behind a pod its node, which does not.
        token_id: The unique id of the token.
    """

    account: ObjectMeta
    audiences: tuple[str, ...]
    bound: tuple[BoundObject, ...]
    token_id: str


class InvalidTokenError(KcrError):
    """The token is not valid; the message says why, in upstream's words."""


class ServiceAccountTokens:
    """Issues service account tokens, and authenticates them."""

    def __init__(self, key: bytes) -> None:
        """Sign with a key; tokens that are signed with another key are not valid."""
        self._key = key

    def issue(
        self, subject: TokenSubject, issued: datetime, expires: datetime, warn_after: datetime | None = None
    ) -> str:
        """Return a token.

        Args:
            subject: Its account, audiences and bound objects.
            issued: From when on it is valid.
            expires: Until when.
            warn_after: From when on a client that still uses it has not read the newer one; None for no such time.
        """
        account = subject.account
        named: dict[str, Any] = {
            "namespace": account.namespace,
            **{one.kind.lower(): _named(one) for one in subject.bound},
            "serviceaccount": {"name": account.name, "uid": account.uid},
        }
        if warn_after is not None:
            named["warnafter"] = int(warn_after.timestamp())
        claims = {
            "aud": subject.audiences,
            "exp": int(expires.timestamp()),
            "iat": int(issued.timestamp()),
            "iss": AUDIENCE,
            "jti": subject.token_id,
            _PRIVATE: named,
            "nbf": int(issued.timestamp()),
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        signed = b".".join(_encode(part) for part in (_HEADER, msgspec.json.encode(claims)))
        return b".".join((signed, _encode(self._sign(signed)))).decode()

    def authenticate(
        self, token: str, now: datetime, uid_of: UidOf, audiences: Sequence[str] = (AUDIENCE,)
    ) -> tuple[User, tuple[str, ...]]:
        """Return the user of a token, and those of the audiences that it is for.

        Args:
            token: The token.
            now: The time.
            uid_of: Returns the uid of an object that the token names.
            audiences: Those of which it must be for one.

        Raises:
            InvalidTokenError: It is not valid.
        """
        claims = self._claims(token)
        accepted = tuple(audience for audience in claims["aud"] if audience in audiences)
        if not accepted:
            wanted = f"is invalid for the target audiences {_quoted(audiences)}"
            raise InvalidTokenError(f"token audiences {_quoted(claims['aud'])} {wanted}")
        if now.timestamp() >= claims["exp"]:
            raise InvalidTokenError("service account token has expired")
        if now.timestamp() < claims["nbf"]:
            raise InvalidTokenError("service account token is not valid yet")
        named = claims[_PRIVATE]
        namespace, account = named["namespace"], named["serviceaccount"]
        _check_bound(named, uid_of)
        groups = (*service_account_groups(namespace), AUTHENTICATED)
        return User(claims["sub"], account["uid"], groups, _extra(claims)), accepted

    def _claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that this server has signed."""
        signed, _, signature = token.encode("utf-8", "replace").rpartition(b".")
        if not hmac.compare_digest(_encode(self._sign(signed)), signature):
            raise InvalidTokenError("")
        claims: dict[str, Any] = msgspec.json.decode(_decode(signed.partition(b".")[2]))
        return claims

    def _sign(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, hashlib.sha256)


def _named(bound: BoundObject) -> dict[str, str]:
    return {"name": bound.name, **({"uid": bound.uid} if bound.uid else {})}


def _check_bound(named: Claims, uid_of: UidOf) -> None:
    """Refuse a token whose account or bound object has been deleted or replaced."""
    namespace = named["namespace"]
    # A pod's token names its node only as information: the node may have been deleted.
    kinds = ("ServiceAccount", "Secret", "Pod") if "pod" in named else ("ServiceAccount", "Secret", "Node")
    for kind in kinds:
        said = named.get(kind.lower())
        if said is None:
            continue
        found = uid_of(kind, namespace, said["name"])
        if not found and kind == "ServiceAccount":
            raise InvalidTokenError(f'serviceaccounts "{said["name"]}" not found')
        if found != said["uid"]:
            raise InvalidTokenError("service account token has been invalidated")


def _extra(claims: Claims) -> dict[str, tuple[str, ...]]:
    """Return the token's information about its user besides name and groups."""
    extra = dict[str, tuple[str, ...]]()
    if token_id := claims.get("jti"):
        extra[f"{_EXTRA}credential-id"] = (f"JTI={token_id}",)
    for kind in ("node", "pod"):
        if said := claims[_PRIVATE].get(kind):
            extra |= {f"{_EXTRA}{kind}-{member}": (value,) for member, value in said.items()}
    return extra


def _quoted(texts: Sequence[str]) -> str:
    return f"[{' '.join(msgspec.json.encode(text).decode() for text in texts)}]"


def _encode(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")


def _decode(part: bytes) -> bytes:
    return binascii.a2b_base64(part.translate(bytes.maketrans(b"-_", b"+/")) + b"==")
