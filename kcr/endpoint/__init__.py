"""HTTP ports for metrics and probes: plain, or with TLS, for those whom the API server allows to read."""

from kcr.endpoint.access import ReviewedAccess
from kcr.endpoint.certificate import SecureServing, ServerCertificate
from kcr.endpoint.server import BindAddress, BrowserHeaders, HTTPServer, ProbeRequest, ProbeResponse, parse_address

__all__ = [
    "BindAddress",
    "BrowserHeaders",
    "HTTPServer",
    "ProbeRequest",
    "ProbeResponse",
    "ReviewedAccess",
    "SecureServing",
    "ServerCertificate",
    "parse_address",
]
