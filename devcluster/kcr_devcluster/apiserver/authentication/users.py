"""Users: who sends a request, and the groups that the server itself puts them in.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/authentication/user/user.go,
pkg/authentication/serviceaccount/util.go.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.protocol.names import dns_label, dns_subdomain

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
# The group whose members may do everything.
MASTERS = "system:masters"
_SERVICE_ACCOUNTS = "system:serviceaccounts"
_SERVICE_ACCOUNT = "system:serviceaccount:"


class User(NamedTuple):
    """The authenticated user of a request.

    Attributes:
        username: Such as `system:serviceaccount:default:builder`.
        uid: Tells apart users who had the name one after another; `""` for none.
        groups: The groups that the user is in.
        extra: Further information, such as the pod whose token it is.
    """

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}

    @property
    def info(self) -> dict[str, Any]:
        """The user as reviews show it (`UserInfo`)."""
        return {name: value for name, value in self._asdict().items() if value}


ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED,))
ADMIN = User("system:admin", groups=(MASTERS, AUTHENTICATED))


def service_account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of the service accounts of a namespace, without that of all who are authenticated."""
    return _SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{namespace}"


def parse_service_account(username: str) -> tuple[str, str] | None:
    """Return namespace and name of the service account that a username stands for, None where it stands for none."""
    namespace, colon, name = username.removeprefix(_SERVICE_ACCOUNT).partition(":")
    if not username.startswith(_SERVICE_ACCOUNT) or not colon or dns_label(namespace) or dns_subdomain(name):
        return None
    return namespace, name


def user_named(username: str, groups: Sequence[str] = ()) -> User:
    """Return a user with the groups that he is in by his name, behind those that are given.

    Args:
        username: His name; a service account is in the groups of its namespace.
        groups: Other groups.
    """
    account = parse_service_account(username)
    implied = (*(service_account_groups(account[0]) if account else ()), AUTHENTICATED)
    return User(username, groups=tuple(dict.fromkeys((*groups, *implied))))
