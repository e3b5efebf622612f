"""HTTP ports for metrics and probes: plain, or with TLS, for those whom the API server allows to read."""

from kcr.endpoint.access import ReviewedAccess
from kcr.endpoint.certificate import CertificateOptions, PortCertificate, SecureServing, ServerCertificate
from kcr.endpoint.server import (
    BrowserHeaders,
    HTTPServer,
    ProbeRequest,
    ProbeResponse,
    ServerPort,
)
from kcr.endpoint.thread import ProgramLoop, ServerThread

__all__ = [
    "BrowserHeaders",
    "CertificateOptions",
    "HTTPServer",
    "PortCertificate",
    "ProbeRequest",
    "ProbeResponse",
    "ProgramLoop",
    "ReviewedAccess",
    "SecureServing",
    "ServerCertificate",
    "ServerPort",
    "ServerThread",
]
