"""Talking to the server: configuration, transport, and the client on top of them."""

from kcr.client.client import Client
from kcr.client.limiter import RateLimit
from kcr.client.transport import Request, Response, Transport

__all__ = ["Client", "RateLimit", "Request", "Response", "Transport"]
