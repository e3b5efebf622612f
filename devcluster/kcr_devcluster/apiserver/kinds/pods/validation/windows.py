"""Validation of the options of Windows in security contexts.

Source: kubernetes/pkg/apis/core/validation/validation.go, validateWindowsSecurityContextOptions and
validateWindowsHostProcessPod.
"""

import re
from collections.abc import Iterator

from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_subdomain

_LARGEST_SPEC, _LONGEST_DOMAIN, _LONGEST_USER = 64, 256, 104
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NET_BIOS = re.compile(r"""[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}""")
_DNS_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_NOT_OF_USERS, _DOTS = re.compile(r"""["/\\:;|=,+*?<>@\[\]]"""), re.compile("[. ]+")


def check_windows(options: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of the options."""
    errors: list[FieldError] = []
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        path = f"{field}.gmsaCredentialSpecName"
        errors += [invalid(path, name, reason) for reason in dns_subdomain(name)]
    spec, path = options.get("gmsaCredentialSpec"), f"{field}.gmsaCredentialSpec"
    if spec == "":
        errors.append(invalid(path, spec, "gmsaCredentialSpec cannot be an empty string"))
    elif spec and len(spec.encode()) > _LARGEST_SPEC * 1024:
        errors.append(invalid(path, spec, f"gmsaCredentialSpec size must be under {_LARGEST_SPEC} KiB"))
    if (name := options.get("runAsUserName")) is not None:
        errors += [invalid(f"{field}.runAsUserName", name, f"runAsUserName{why}") for why in _wrong_user(name)]
    return errors


def _wrong_user(name: str) -> Iterator[str]:
    domain, separator, user = name.rpartition("\\")
    if not name:
        yield " cannot be an empty string"
    elif _CONTROL.search(name):
        yield " cannot contain control characters"
    elif "\\" in domain:
        yield " cannot contain more than one backslash"
    else:
        if len(domain.encode()) >= _LONGEST_DOMAIN:
            yield f"'s Domain length must be under {_LONGEST_DOMAIN} characters"
        if separator and not _NET_BIOS.fullmatch(domain) and not _DNS.fullmatch(domain):
            yield "'s Domain doesn't match the NetBios nor the DNS format"
        if not user:
            yield "'s User cannot be empty"
        elif len(user.encode()) > _LONGEST_USER:
            yield f"'s User length must not be longer than {_LONGEST_USER} characters"
        if _DOTS.fullmatch(user):
            yield "'s User cannot contain only periods or spaces"
        if _NOT_OF_USERS.search(user):
            yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


def check_host_processes(spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of a pod whose containers are processes of the host: all of them are."""
    errors: list[FieldError] = []
    of_pod, count, processes = _of_host(spec), 0, 0
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for position, container in enumerate(spec.get(kind) or ()):
            own = _of_host(container)
            count, processes = count + 1, processes + bool(of_pod if own is None else own)
            if of_pod is not None and own is not None and of_pod != own:
                path = f"{field}.{kind}[{position}].securityContext.windowsOptions.hostProcess"
                words = f"pod hostProcess value must be identical if both are specified, was {str(of_pod).lower()}"
                errors.append(invalid(path, own, words))
    if processes and processes != count:
        words = "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        errors.append(invalid(field, "", words))
    if processes and not spec.get("hostNetwork"):
        words = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{field}.hostNetwork", False, words))
    return errors


def _of_host(holder: Manifest) -> bool | None:
    context = holder.get("securityContext")
    options = context.get("windowsOptions") if context else None
    found: bool | None = options.get("hostProcess") if options else None
    return found
