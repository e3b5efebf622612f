"""URLs: `url`, `isURL` and the parts of URLs.

Source: k8s.io/apiserver/pkg/cel/url.go; k8s.io/apiserver/pkg/cel/library/urls.go.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.schema.formats import parses
from kcr_devcluster.apiserver.schema.urls import Url, check_url, parse_url


class URL:
    """A URL; two are equal if Go writes them alike.

    Attributes:
        parts: Its parts.
    """

    cel_type: ClassVar[str] = "kubernetes.URL"

    def __init__(self, parts: Url) -> None:
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same text."""
        return isinstance(other, URL) and str(self.parts) == str(other.parts)

    def __hash__(self) -> int:
        """Return the hash of the text."""
        return hash(str(self.parts))


def _parse(text: str) -> URL:
    try:
        return URL(parse_url(text))
    except ValueError as error:
        raise EvaluationError(f"URL parse error during conversion from string: {error}") from None


def _part(name: str, returns: str, part: Callable[[Url], Any]) -> tuple[Overload, ...]:
    return (Overload(f"url_get_{name}", returns, (URL.cel_type,), lambda url: part(url.parts)),)


FUNCTIONS: Functions = {
    "url": (Overload("string_to_url", URL.cel_type, ("string",), _parse, False),),
    "isURL": (Overload("is_url_string", "bool", ("string",), parses(check_url), False),),
    "getScheme": _part("scheme", "string", lambda url: url.scheme),
    "getHost": _part("host", "string", lambda url: url.host),
    "getHostname": _part("hostname", "string", lambda url: url.hostname),
    "getPort": _part("port", "string", lambda url: url.port),
    "getEscapedPath": _part("escaped_path", "string", lambda url: url.escaped_path),
    "getQuery": _part("query", "map(string, list(string))", lambda url: url.values),
}
