"""Authentication: the users of requests, and the tokens of service accounts."""

from kcr_devcluster.apiserver.authentication.tokens import (
    AUDIENCE,
    BoundObject,
    InvalidTokenError,
    ServiceAccountTokens,
    TokenSubject,
)
from kcr_devcluster.apiserver.authentication.users import ADMIN, ANONYMOUS, User, service_account_groups

__all__ = [
    "ADMIN",
    "ANONYMOUS",
    "AUDIENCE",
    "BoundObject",
    "InvalidTokenError",
    "ServiceAccountTokens",
    "TokenSubject",
    "User",
    "service_account_groups",
]
