"""HTTP ports for metrics and probes: plain, or with TLS, for those whom the API server allows to read."""

from kcr.serving.ports.access import ReviewedAccess
from kcr.serving.ports.certificate import CertificateOptions, PortCertificate, SecureServing, ServerCertificate
from kcr.serving.ports.server import (
    BrowserHeaders,
    HTTPServer,
    PortLimits,
    ProbeRequest,
    ProbeResponse,
    ProgramLoop,
    ServerPort,
    ServerThread,
)

__all__ = [
    "BrowserHeaders",
    "CertificateOptions",
    "HTTPServer",
    "PortCertificate",
    "PortLimits",
    "ProbeRequest",
    "ProbeResponse",
    "ProgramLoop",
    "ReviewedAccess",
    "SecureServing",
    "ServerCertificate",
    "ServerPort",
    "ServerThread",
]
