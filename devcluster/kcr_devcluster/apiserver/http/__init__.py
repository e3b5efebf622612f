"""Requests and responses: routes, bodies, reads, watches, writes, serialization, discovery, OpenAPI, metrics."""
