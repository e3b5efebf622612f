"""The first words with an API server: whether it answers, knows us and lets us work; if not, what to do."""

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
            return f"cannot reach the API server {server}: {error}: see that it runs, and that {source} is about it"
        case UnauthorizedError():
            return f"the API server {server} does not know us: renew the credentials in {source}"
        case ForbiddenError():
            return f"the API server {server} refuses: {error.message}: grant it with a role, or use another identity"
        case NotFoundError():
            return f"{server} does not serve what the controllers need: {error.message}: see what {source} is about"
        case ApiError():
            return f"the API server {server} answers {error.code}: {error.message}: see its own log"
        case _:
            return str(error)
