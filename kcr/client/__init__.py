"""Talking to the server: configuration, transport, and the client on top of them."""

from kcr.client.client import Client
from kcr.client.cluster import ClusterConfig, PemSource
from kcr.client.config import load_config
from kcr.client.conflicts import DEFAULT_BACKOFF, DEFAULT_RETRY, ConflictRetry, retry_on_conflict
from kcr.client.credentials import Credential, Credentials, FixedCredentials
from kcr.client.http import HttpTransport
from kcr.client.limiter import RateLimit
from kcr.client.observed import OnRequest
from kcr.client.subresources import LogOptions
from kcr.client.transport import Request, Response, Transport

__all__ = [
    "DEFAULT_BACKOFF",
    "DEFAULT_RETRY",
    "Client",
    "ClusterConfig",
    "ConflictRetry",
    "Credential",
    "Credentials",
    "FixedCredentials",
    "HttpTransport",
    "LogOptions",
    "OnRequest",
    "PemSource",
    "RateLimit",
    "Request",
    "Response",
    "Transport",
    "load_config",
    "retry_on_conflict",
]
