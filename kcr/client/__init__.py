"""API client: typed requests, retries, client-side throttling, credentials, TLS."""

from kcr.client.auth.config import load_config
from kcr.client.client import DEFAULT_BACKOFF, DEFAULT_RETRY, Client, ConflictRetry, SyncClient, retry_on_conflict
from kcr.client.cluster_config import ClusterConfig, PemSource
from kcr.client.credentials import Credential, Credentials, FixedCredentials
from kcr.client.subresources import ExecResult, ExecStream, LogOptions
from kcr.client.typed_apis import api_client
from kcr.client.wire.http import HttpTransport
from kcr.client.wire.observed import RequestObserver
from kcr.client.wire.pressure import Pressure, RateLimit
from kcr.client.wire.transport import Request, Response, Transport, UpgradedResponse

__all__ = [
    "DEFAULT_BACKOFF",
    "DEFAULT_RETRY",
    "Client",
    "ClusterConfig",
    "ConflictRetry",
    "Credential",
    "Credentials",
    "ExecResult",
    "ExecStream",
    "FixedCredentials",
    "HttpTransport",
    "LogOptions",
    "PemSource",
    "Pressure",
    "RateLimit",
    "Request",
    "RequestObserver",
    "Response",
    "SyncClient",
    "Transport",
    "UpgradedResponse",
    "api_client",
    "load_config",
    "retry_on_conflict",
]
