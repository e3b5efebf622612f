"""Validation of the names and addresses of a pod: DNS, host aliases, host ports.

Source: kubernetes/pkg/apis/core/validation/validation.go, validatePodDNSConfig, ValidateHostAliases,
validatePodHostNetworkDeps and checkHostPortConflicts.
"""

import re
from collections.abc import Sequence

from kcr_devcluster.apiserver.kinds.formats import check_address
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, duplicate, invalid, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_subdomain

_MOST_SERVERS, _MOST_SEARCHES, _LONGEST_SEARCHES, _LONGEST_NAME = 3, 32, 2048, 253
_LABEL = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SEARCH = re.compile(rf"_?{_LABEL}(\._?{_LABEL})*")
_SEARCH_MESSAGE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SEARCH.pattern}')"
)


def check_dns(config: Manifest | None, policy: str, field: str) -> list[FieldError]:
    """Return the field errors of a pod's DNS configuration.

    Args:
        config: The configuration; None where it is missing.
        policy: The pod's `dnsPolicy`.
        field: The path of the configuration.
    """
    if policy == "None":
        if config is None:
            return [required(field, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            words = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{field}.nameservers", words)]
    if config is None:
        return []
    servers: list[str] = config.get("nameservers") or []
    errors: list[FieldError] = []
    if len(servers) > _MOST_SERVERS:
        words = f"must not have more than {_MOST_SERVERS} nameservers"
        errors.append(invalid(f"{field}.nameservers", servers, words))
    for position, server in enumerate(servers):
        errors += check_address(f"{field}.nameservers[{position}]", server)
    errors += _check_searches(config.get("searches") or [], f"{field}.searches")
    errors += [required(f"{field}.options[{position}]", "must not be empty")
               for position, option in enumerate(config.get("options") or ()) if not option.get("name")]  # fmt: skip
    return errors


def _check_searches(searches: list[str], field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(searches) > _MOST_SEARCHES:
        errors.append(invalid(field, searches, f"must not have more than {_MOST_SEARCHES} search paths"))
    if len(" ".join(searches)) > _LONGEST_SEARCHES:
        words = f"must not have more than {_LONGEST_SEARCHES} characters (including spaces) in the search list"
        errors.append(invalid(field, searches, words))
    for position, search in enumerate(searches):
        name = search.removesuffix(".")
        if search != "." and len(name) > _LONGEST_NAME:
            errors.append(invalid(f"{field}[{position}]", name, f"must be no more than {_LONGEST_NAME} characters"))
        if search != "." and not _SEARCH.fullmatch(name):
            errors.append(invalid(f"{field}[{position}]", name, _SEARCH_MESSAGE))
    return errors


def check_host_aliases(aliases: Sequence[Manifest], field: str) -> list[FieldError]:
    """Return the field errors of host aliases."""
    errors: list[FieldError] = []
    for position, alias in enumerate(aliases):
        path = f"{field}[{position}]"
        errors += check_address(f"{path}.ip", alias.get("ip", ""))
        errors += [invalid(f"{path}.hostnames[{place}]", name, reason)
                   for place, name in enumerate(alias.get("hostnames") or ())
                   for reason in dns_subdomain(name)]  # fmt: skip
    return errors


def check_host_ports(spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of host ports of containers: taken twice, or different from the port in the container."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, container in enumerate(spec.get("containers") or ()):
        for place, port in enumerate(container.get("ports") or ()):
            number = port.get("hostPort")
            if not number:
                continue
            path = f"{field}.containers[{position}].ports[{place}].hostPort"
            text = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{number}"
            if text in seen:
                errors.append(duplicate(path, text))
            seen.add(text)
            if spec.get("hostNetwork") and number != port.get("containerPort"):
                errors.append(invalid(path, number, "must match `containerPort` when `hostNetwork` is true"))
    return errors
