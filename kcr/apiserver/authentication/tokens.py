"""Tokens of service accounts.

A token is a JSON Web Token, signed with a key of this server (HS256). It is valid as long as its time has not run out,
and as the service account, and the pod or Secret that it is bound to, are those it was issued for.

Source: kubernetes/pkg/serviceaccount/{claims,jwt}.go; staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from kcr.api.meta import ObjectMeta
from kcr.apiserver.authentication.users import AUTHENTICATED, User, service_account_groups

AUDIENCE = "https://kubernetes.default.svc.cluster.local"
_HEADER = b'{"alg":"HS256","typ":"JWT"}'
_PRIVATE = "kubernetes.io"
_EXTRA = "authentication.kubernetes.io/"

Claims = Mapping[str, Any]
# Returns the uid of an object that the claims name, by kind, namespace and name; `""` where there is none.
UidOf = Callable[[str, str, str], str]


class BoundObject(NamedTuple):
    """The object that a token is bound to: its deletion invalidates the token."""

    kind: str
    name: str
    uid: str


class ServiceAccountTokens:
    """Issues service account tokens, and authenticates them."""

    def __init__(self, key: bytes) -> None:
        """Sign with a key; tokens that are signed with another key are not valid."""
        self._key = key

    def issue(
        self,
        account: ObjectMeta,
        audiences: tuple[str, ...],
        bound: BoundObject | None,
        issued: datetime,
        expires: datetime,
    ) -> str:
        """Return a token.

        Args:
            account: The metadata of the service account.
            audiences: Who shall accept it.
            bound: The object that it is bound to; None for none.
            issued: From when on it is valid.
            expires: Until when.
        """
        named: dict[str, Any] = {
            "namespace": account.namespace,
            "serviceaccount": {"name": account.name, "uid": account.uid},
        }
        if bound is not None:
            named[bound.kind.lower()] = {"name": bound.name, "uid": bound.uid}
        claims = {
            "aud": audiences,
            "exp": int(expires.timestamp()),
            "iat": int(issued.timestamp()),
            "iss": AUDIENCE,
            _PRIVATE: named,
            "nbf": int(issued.timestamp()),
            "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
        }
        signed = b".".join(_encode(part) for part in (_HEADER, msgspec.json.encode(claims)))
        return b".".join((signed, _encode(self._sign(signed)))).decode()

    def authenticate(self, token: str, now: datetime, uid_of: UidOf) -> User | None:
        """Return the user of a token, None for an invalid one.

        Args:
            token: The token.
            now: The time.
            uid_of: Looks for the objects that the token names.
        """
        claims = self._claims(token)
        if claims is None or AUDIENCE not in claims["aud"] or not claims["nbf"] <= now.timestamp() < claims["exp"]:
            return None
        named = claims[_PRIVATE]
        namespace, account, extra = named["namespace"], named["serviceaccount"], dict[str, tuple[str, ...]]()
        for kind in ("ServiceAccount", "Pod", "Secret", "Node"):
            said = named.get(kind.lower())
            if said is not None and uid_of(kind, namespace, said["name"]) != said["uid"]:
                return None
        if pod := named.get("pod"):
            extra = {f"{_EXTRA}pod-name": (pod["name"],), f"{_EXTRA}pod-uid": (pod["uid"],)}
        groups = (*service_account_groups(namespace), AUTHENTICATED)
        return User(claims["sub"], account["uid"], groups, extra)

    def _claims(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token, None unless this server has signed it."""
        signed, _, signature = token.encode("utf-8", "replace").rpartition(b".")
        if not hmac.compare_digest(_encode(self._sign(signed)), signature):
            return None
        claims: dict[str, Any] = msgspec.json.decode(_decode(signed.partition(b".")[2]))
        return claims

    def _sign(self, text: bytes) -> bytes:
        return hmac.digest(self._key, text, hashlib.sha256)


def _encode(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")


def _decode(part: bytes) -> bytes:
    return binascii.a2b_base64(part.translate(bytes.maketrans(b"-_", b"+/")) + b"==")
