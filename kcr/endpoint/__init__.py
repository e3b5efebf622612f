"""HTTP ports for metrics and probes: plain, or with TLS and the API server's word on who may read."""

from kcr.endpoint.server import BindAddress, HTTPServer, ProbeRequest, ProbeResponse, parse_address

__all__ = ["BindAddress", "HTTPServer", "ProbeRequest", "ProbeResponse", "parse_address"]
