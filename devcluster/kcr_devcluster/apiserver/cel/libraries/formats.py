"""Named formats of strings: `format.dns1123Label()`, `format.named('uri')` and `validate`.

Source: k8s.io/apiserver/pkg/cel/format.go; k8s.io/apiserver/pkg/cel/library/format.go.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kcr_devcluster.apiserver.cel.libraries.overloads import Functions, Overload
from kcr_devcluster.apiserver.cel.values import NONE, Optional
from kcr_devcluster.apiserver.protocol.names import (
    dns_1035_label,
    dns_label,
    dns_subdomain,
    label_value,
    qualified_name,
)
from kcr_devcluster.apiserver.schema.formats import FORMATS
from kcr_devcluster.apiserver.schema.urls import check_url

_KIND = "kubernetes.NamedFormat"

_Check = Callable[[str], Sequence[str]]


class NamedFormat(NamedTuple):
    """A format.

    Attributes:
        name: Its name, by which formats are equal.
        check: Returns what is wrong with a text.
        pattern_size: How long its regular expression is, or one that would do as much; costs depend on it.
    """

    name: str
    check: _Check
    pattern_size: int

    @property
    def cel_type(self) -> str:
        """The name of the type."""
        return _KIND

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same name."""
        return isinstance(other, NamedFormat) and self.name == other.name

    def __hash__(self) -> int:
        """Return the hash of the name."""
        return hash(self.name)


def _prefix(check: _Check) -> _Check:
    """Return the check of texts that something follows: Go puts an `a` for a dash at the end and what is before it."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _format(name: str, wrong: str) -> _Check:
    holds = FORMATS[name]
    return lambda text: () if holds(text) else (wrong,)


def _uri(text: str) -> Sequence[str]:
    try:
        check_url(text)
    except ValueError as error:
        return (str(error),)
    return ()


# The sizes for patterns of strfmt and govalidator.
_URL_SIZE, _BASE64_SIZE, _UUID_SIZE, _DATETIME_SIZE = 1103, 84, 70, 71

_NAMED = {
    "dns1123Label": NamedFormat("DNS1123Label", dns_label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", dns_subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", dns_1035_label, 30),
    "qualifiedName": NamedFormat("QualifiedName", qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix(dns_label), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix(dns_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix(dns_1035_label), 30),
    "labelValue": NamedFormat("LabelValue", label_value, 40),
    "uri": NamedFormat("URI", _uri, _URL_SIZE),
    "uuid": NamedFormat("uuid", _format("uuid", "does not match the UUID format"), _UUID_SIZE),
    "byte": NamedFormat("byte", _format("byte", "invalid base64"), _BASE64_SIZE),
    "date": NamedFormat("date", _format("date", "invalid date"), _DATETIME_SIZE),
    "datetime": NamedFormat("datetime", _format("datetime", "invalid datetime"), _DATETIME_SIZE),
}


def _named(name: str) -> Optional:
    return Optional(True, found) if (found := _NAMED.get(name)) is not None else NONE


def _validate(given: NamedFormat, text: str) -> Optional:
    return Optional(True, list(reasons)) if (reasons := given.check(text)) else NONE


def _constant(name: str, value: NamedFormat) -> tuple[Overload, ...]:
    return (Overload(name, _KIND, (), lambda: value, False),)


FUNCTIONS: Functions = {
    **{f"format.{name}": _constant(f"format.{name}", value) for name, value in _NAMED.items()},
    "format.named": (
        Overload("format-named", f"optional_type({_KIND})", ("string",), _named, False),
    ),
    "validate": (
        Overload("format-validate", "optional_type(list(string))", (_KIND, "string"), _validate),
    ),
}  # fmt: skip
