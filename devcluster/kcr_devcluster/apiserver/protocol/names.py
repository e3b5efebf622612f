"""Validation of names, labels and label selectors.

Each rule for a text returns the reasons why it is invalid, an empty tuple when there are none.

Source: kubernetes/staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go and
pkg/apis/meta/v1/validation/validation.go.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from kcr.api.selectors import LabelSelector, matches, text
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, forbidden, invalid, required, too_long
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN_PATTERN = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_QUALIFIED})?"
NOT_AN_OPERATOR = "not a valid selector operator"
_PORT_NAME = re.compile(r"[-a-z0-9]+")
_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

LABEL_MESSAGE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    f"with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
LABEL_1035_MESSAGE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    f"'{_LABEL_1035}')"
)
SUBDOMAIN_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN_PATTERN}')"
)
_QUALIFIED_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
)
QUALIFIED_MESSAGE = f"name part {_QUALIFIED_RULE}"
VALUE_MESSAGE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'{_VALUE}')"
)

_label, _label_1035, _subdomain = re.compile(_LABEL), re.compile(_LABEL_1035), re.compile(SUBDOMAIN_PATTERN)
_qualified, _value, _path = re.compile(_QUALIFIED), re.compile(_VALUE), re.compile(_PATH)

STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
NOT_STANDARD = "name is neither a standard finalizer name nor is it fully qualified"
_ANNOTATIONS_LIMIT = 256 * 1024


# The two rules for names of objects have no cache: most names are new, and to remember each costs more than the match.
def dns_label(text: str) -> tuple[str, ...]:
    """Return the reasons why a text is no DNS label, the form of host names and container names."""
    if len(text) <= 63 and _label.fullmatch(text):
        return ()
    # Upstream says characters and counts bytes.
    reasons = ["must be no more than 63 characters"] if len(text.encode()) > 63 else []
    if not _label.fullmatch(text):
        reasons.append("must not contain dots" if _subdomain.fullmatch(text) else LABEL_MESSAGE)
    return tuple(reasons)


@lru_cache(1024)
def dns_1035_label(text: str) -> tuple[str, ...]:
    """Return the reasons why a text is no DNS label of RFC 1035, the form of names of resources and versions."""
    reasons = ["must be no more than 63 characters"] if len(text.encode()) > 63 else []
    if not _label_1035.fullmatch(text):
        reasons.append(LABEL_1035_MESSAGE)
    return tuple(reasons)


def path_segment(text: str) -> tuple[str, ...]:
    """Return the reasons why a text is no part of a path, the form of the names of roles."""
    if text in (".", ".."):
        return (f"may not be '{text}'",)
    return tuple(f"may not contain '{one}'" for one in "/%" if one in text)


def dns_subdomain(text: str) -> tuple[str, ...]:
    """Return the reasons why a text is no DNS subdomain, the form of most names."""
    if len(text) <= 253 and _subdomain.fullmatch(text):
        return ()
    reasons = ["must be no more than 253 characters"] if len(text.encode()) > 253 else []
    if not _subdomain.fullmatch(text):
        reasons.append(SUBDOMAIN_MESSAGE)
    return tuple(reasons)


@lru_cache(4096)
def qualified_name(text: str) -> tuple[str, ...]:
    """Return the reasons why a text is no qualified name, `[prefix/]name`: label keys, condition types."""
    parts = text.split("/")
    if len(parts) > 2:
        return (
            f"a valid label key {_QUALIFIED_RULE} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')",
        )
    reasons: list[str] = []
    if len(parts) == 2:
        prefix = parts[0]
        found = dns_subdomain(prefix) if prefix else ("must be non-empty",)
        reasons += [f"prefix part {reason.replace(' 253 characters', ' 253 bytes')}" for reason in found]
    name = parts[-1]
    if not name:
        reasons.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        reasons.append("name part must be no more than 63 bytes")
    if not _qualified.fullmatch(name):
        reasons.append(QUALIFIED_MESSAGE)
    return tuple(reasons)


@lru_cache(4096)
def label_value(text: str) -> tuple[str, ...]:
    """Return the reasons why a text is no value of a label."""
    reasons = ["must be no more than 63 bytes"] if len(text.encode()) > 63 else []
    if not _value.fullmatch(text):
        reasons.append(VALUE_MESSAGE)
    return tuple(reasons)


@lru_cache(1024)
def port_name(text: str) -> tuple[str, ...]:
    """Return the reasons why a text is no name of a port."""
    reasons: list[str] = []
    if len(text) > 15:
        reasons.append("must be no more than 15 characters")
    if not _PORT_NAME.fullmatch(text):
        reasons.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        reasons.append("must contain at least one letter (a-z)")
    if "--" in text:
        reasons.append("must not contain consecutive hyphens")
    if text[:1] == "-" or text[-1:] == "-":
        reasons.append("must not begin or end with a hyphen")
    return tuple(reasons)


def check_labels(labels: Mapping[str, str], field: str) -> list[FieldError]:
    """Return the field errors of a map of labels."""
    errors: list[FieldError] = []
    for key in sorted(labels):
        if reasons := qualified_name(key):
            errors += [invalid(field, key, reason) for reason in reasons]
        if reasons := label_value(labels[key]):
            errors += [invalid(field, labels[key], reason) for reason in reasons]
    return errors


def check_annotations(annotations: Mapping[str, str], field: str) -> list[FieldError]:
    """Return the field errors of a map of annotations; keys count in lower case."""
    errors = [invalid(field, key, reason) for key in sorted(annotations) for reason in qualified_name(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        errors.append(too_long(field, _ANNOTATIONS_LIMIT))
    return errors


def check_finalizer(name: str, field: str) -> list[FieldError]:
    """Return the field errors of a finalizer with a valid name, which is a standard one, or one with a domain."""
    if "/" in name or name in STANDARD_FINALIZERS:
        return []
    return [invalid(field, name, NOT_STANDARD)]


def domain_prefixed_path(text: str) -> list[tuple[str, str]]:
    """Return the invalid part and the reason for each error of a path such as `acme.io/foo`."""
    host, slash, path = text.partition("/")
    if not slash or not host or not path:
        return [(text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [(host, reason) for reason in dns_subdomain(host)]
    if not _path.fullmatch(path):
        errors.append((path, f"Invalid path (regex used for validation is '{_PATH}')"))
    return errors


def check_selector(selector: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a label selector."""
    errors = check_labels(selector.get("matchLabels") or {}, f"{field}.matchLabels")
    for position, requirement in enumerate(selector.get("matchExpressions") or ()):
        errors += check_requirement(requirement, f"{field}.matchExpressions[{position}]")
    return errors


def check_requirement(
    requirement: Manifest, field: str, *, compares: bool = False, check_values: bool = True
) -> list[FieldError]:
    """Return the field errors of one requirement of a selector.

    Args:
        requirement: The requirement.
        field: Its path.
        compares: Whether it may have the operators `Gt` and `Lt`, as those of nodes.
        check_values: Whether values have to be those of labels.
    """
    errors: list[FieldError] = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append(
                forbidden(f"{field}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
    elif compares and operator in ("Gt", "Lt"):
        if len(values) != 1:
            words = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{field}.values", words))
    else:
        errors.append(invalid(f"{field}.operator", operator, NOT_AN_OPERATOR))
    key = requirement.get("key", "")
    errors += [invalid(f"{field}.key", key, reason) for reason in qualified_name(key)]
    for position, value in enumerate(values if check_values else ()):
        errors += [invalid(f"{field}.values[{position}]", value, reason) for reason in label_value(value)]
    return errors


def selector_text(selector: Manifest) -> str | None:
    """Return a label selector in the form that queries use, `""` for one that selects everything; None if invalid."""
    try:
        return text(msgspec.convert(selector, LabelSelector))
    except (KeyError, msgspec.ValidationError):
        return None


def selects(selector: Manifest, labels: Mapping[str, str]) -> bool:
    """Return whether a selector without errors picks these labels."""
    return matches(msgspec.convert(selector, LabelSelector), labels)
