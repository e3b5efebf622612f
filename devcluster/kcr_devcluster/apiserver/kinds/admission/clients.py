"""Validation of the address of a webhook: the URL or the service that requests are sent to.

One difference on purpose: upstream calls ValidateWebhookService with name and namespace in the wrong order, so that an
empty name is reported as an empty namespace (kubernetes#141353). Here the error names the field that is empty.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/util/webhook/validation.go; Go's net/url, Parse.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid, rendered, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_subdomain

_FORM = "; desired format: https://host[/path]"
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PORT = re.compile(r"(?:\[[^\]]*\]|[^:]*)(:.*)?")
_HIGHEST_PORT = 65_535


class _URL(NamedTuple):
    """The parts of a URL that are checked."""

    scheme: str
    user: str | None
    host: str
    query: str
    fragment: str


def check_client_config(client: Manifest, path: str) -> Iterator[FieldError]:
    """Yield the field errors of the `clientConfig` of a webhook of admission."""
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from check_webhook_url(url, f"{path}.url")
    elif service is not None:
        yield from check_webhook_service(service, f"{path}.service")


def check_webhook_url(text: str, path: str) -> Iterator[FieldError]:
    """Yield the field errors of a URL: https and a host, without user, query and fragment."""
    try:
        url = _parse(text)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: parse {rendered(text)}: {error}{_FORM}")
        return
    if url.scheme != "https":
        yield invalid(path, url.scheme, f"'https' is the only allowed URL scheme{_FORM}")
    if not url.host:
        yield invalid(path, url.host, f"host must be specified{_FORM}")
    if url.user is not None:
        yield invalid(path, url.user, "user information is not permitted in the URL")
    if url.fragment:
        yield invalid(path, url.fragment, "fragments are not permitted in the URL")
    if url.query:
        yield invalid(path, url.query, "query parameters are not permitted in the URL")


def _parse(text: str) -> _URL:
    """Split a URL as Go does.

    Raises:
        ValueError: It is no URL; the message is Go's.
    """
    before, _, fragment = text.partition("#")
    if _CONTROL.search(before):
        raise ValueError("net/url: invalid control character in URL")
    if not text:
        return _URL("", None, "", "", "")
    if before.startswith(":"):
        raise ValueError("missing protocol scheme")
    found = _SCHEME.fullmatch(before)
    scheme, rest = (found[1].lower(), found[2]) if found else ("", before)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme and ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
        return _URL(scheme, None, "", query, fragment)
    if not rest.startswith("//"):
        return _URL(scheme, None, "", query, fragment)
    user, at, host = rest[2:].partition("/")[0].rpartition("@")
    port = _PORT.fullmatch(host)
    if port is None or (port[1] and not (port[1][1:].isascii() and (port[1] == ":" or port[1][1:].isdigit()))):
        after = port[1] if port else host[host.rfind(":") :]
        raise ValueError(f"invalid port {rendered(after)} after host")
    return _URL(scheme, user if at else None, host, query, fragment)


def check_webhook_service(service: Manifest, path: str) -> Iterator[FieldError]:
    """Yield the field errors of a reference to a service: name, namespace, port and path."""
    # Upstream takes the one for the other.
    for name, other in (("name", "namespace"), ("namespace", "name")):
        if not service.get(name):
            yield required(f"{path}.{other}")
    port = service.get("port", 443)
    if not 1 <= port <= _HIGHEST_PORT:
        yield invalid(f"{path}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    where = service.get("path")
    if where and where != "/":
        yield from _check_path(where, f"{path}.path")


def _check_path(where: str, path: str) -> Iterator[FieldError]:
    if where == "//":
        yield invalid(path, where, "segment[0] may not be empty")
        return
    if not where.startswith("/"):
        yield invalid(path, where, "must start with a '/'")
    for position, step in enumerate(where[1:].removesuffix("/").split("/")):
        if step:
            yield from (invalid(path, where, f"segment[{position}]: {reason}") for reason in dns_subdomain(step))
        else:
            yield invalid(path, where, f"segment[{position}] may not be empty")
