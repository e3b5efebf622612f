"""The first words with an API server: whether it answers, knows us and lets us work; if not, what to do."""

import ssl
from collections.abc import Iterable

from kcr.api.meta import Resource
from kcr.client import Client
from kcr.errors import ApiError, ForbiddenError, KcrError, NotFoundError, TransportError, UnauthorizedError


async def check_access(client: Client, kinds: Iterable[type[Resource]], namespace: str) -> None:
    """List one object of each kind, so that a missing permission shows at once and not in a log later.

    Raises:
        ApiError: The server refuses.
    """
    for kind in kinds:
        await client.list_page(kind, namespace, limit=1)


def remedy(error: KcrError, server: str, source: str) -> str:
    """Return cause and remedy of a failed first contact, in one line.

    Args:
        error: What the first requests came to.
        server: The address of the server.
        source: Where address and credentials come from, such as the kubeconfig's path.
    """
    match error:
        case TransportError():
            # It begins with the request, which says the address once more.
            why = str(error).removeprefix(f"GET {server}/version: ")
            return f"cannot reach the API server {server}: {why}: {_cure(error.__cause__, source)}"
        case UnauthorizedError():
            return f"the API server {server} does not know us: renew the credentials in {source}"
        case ForbiddenError():
            return f"the API server {server} refuses: {error.message}: grant it with a role, or use another identity"
        case NotFoundError() if error.reason:
            return f"{server} does not serve what the controllers need: {error.message}: see what {source} is about"
        case NotFoundError():
            return f"{server} is no API server, it answers 404: see what {source} is about"
        case ApiError():
            return f"the API server {server} answers {error.code}: {error.message}: see its own log"
        case _:
            return str(error)


def _cure(cause: BaseException | None, source: str) -> str:
    match cause:
        case ssl.SSLCertVerificationError():
            return f"see that the certificate authority in {source} is this server's"
        case ssl.SSLError():
            return f"see that the server of {source} speaks TLS at this port"
        case _:
            return f"see that it runs, and that {source} is about it"
