"""Lost replies of a server, and the responses that arrive instead of them."""

from typing import Literal, get_args

from kcr.client import Request, Response
from kcr.errors import TransportError
from kcr.testing.fakes import MadeUp

# Losses of the reply to a request that the server has executed: none comes (`silence`), half of its body (`cut`),
# a success or refusal that is no JSON (`garbage`) or another object (`other`), or a proxy's page with code 404 or 502.
Loss = Literal["silence", "cut", "garbage", "other", "404", "502"]
LOSSES: tuple[Loss, ...] = get_args(Loss)


def page(code: int) -> MadeUp:
    """Return the page of a proxy that has not reached the API server, or has lost its reply."""
    body = f"<html><head><title>{code}</title></head><body><center>nginx</center></body></html>\n"
    return MadeUp(code, body.encode(), {"content-type": "text/html"})


async def lost(request: Request, response: Response, loss: Loss) -> MadeUp:
    """Return the rest of a reply.

    Raises:
        TransportError: Nothing is.
    """
    match loss:
        case "silence":
            raise TransportError(f"{request.method} {request.target}: the reply was lost")
        case "cut":
            body = await response.read()
            return MadeUp(response.status, body[: len(body) // 2], response.headers)
        case "garbage":
            return MadeUp(response.status, b"\x1f\x8b\xff garbage", response.headers)
        case "other":
            return MadeUp(response.status, b'{"metadata":{"name":"other"}}', response.headers)
    return page(int(loss))
