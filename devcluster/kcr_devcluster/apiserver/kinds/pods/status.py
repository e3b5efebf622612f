"""Validation of writes to the status of a pod, and its defaults.

Phases are not validated: the node may set any, in any order.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidatePodStatusUpdate.
"""

from collections.abc import Iterator

from kcr_devcluster.apiserver.kinds.formats import check_address
from kcr_devcluster.apiserver.protocol.field_errors import IMMUTABLE, FieldError, forbidden, invalid
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_subdomain, qualified_name

_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")


def default_pod_status(status: Manifest) -> None:
    """Fill in the addresses of the pod: the first of several stands for itself as well, and decides over them.

    Source: kubernetes/pkg/apis/core/v1/conversion.go, Convert_v1_PodStatus_To_core_PodStatus.
    """
    one, many = status.get("podIP"), status.get("podIPs")
    if one and (not many or many[0].get("ip") != one):
        status["podIPs"] = [{"ip": one}]
    elif many and not one and (first := many[0].get("ip")):
        status["podIP"] = first


def check_pod_status(new: Manifest, old: Manifest, spec: Manifest) -> list[FieldError]:
    """Return the field errors of a new status, given the stored one and the stored spec."""
    errors = [
        invalid(f"status.conditions[{position}].Type", condition.get("type", ""), reason)
        for position, condition in enumerate(new.get("conditions") or ())
        if condition.get("type") not in _SYSTEM_CONDITIONS
        for reason in qualified_name(condition.get("type", ""))
    ]
    for position, condition in enumerate(new.get("conditions") or ()):
        path = f"status.conditions[{position}].observedGeneration"
        errors += _non_negative(path, condition.get("observedGeneration"))
    if name := new.get("nominatedNodeName"):
        errors += [invalid("status.nominatedNodeName", name, reason) for reason in dns_subdomain(name)]
    errors += _non_negative("status.observedGeneration", new.get("observedGeneration"))
    if new.get("qosClass", "") != old.get("qosClass", ""):
        errors.append(invalid("status.qosClass", new.get("qosClass", ""), IMMUTABLE))
    errors += _check_ended("containerStatuses", "containers", new, old, spec)
    errors += _check_ended("initContainerStatuses", "initContainers", new, old, spec)
    return [*errors, *_check_addresses(new)]


def _check_ended(statuses: str, containers: str, new: Manifest, old: Manifest, spec: Manifest) -> Iterator[FieldError]:
    """Yield an error for each terminated container that runs again although its restart policy forbids it."""
    specs = {one.get("name"): one for one in spec.get(containers) or ()}
    now = {one.get("name"): one for one in new.get(statuses) or ()}
    for position, before in enumerate(old.get(statuses) or ()):
        ended = (before.get("state") or {}).get("terminated")
        after = now.get(before.get("name"))
        if ended is None or after is None or (after.get("state") or {}).get("terminated") is not None:
            continue
        if _may_restart(specs.get(before.get("name")) or {}, spec, ended.get("exitCode", 0)):
            continue
        yield forbidden(f"status.{statuses}[{position}].state", "may not be transitioned to non-terminated state")


def _may_restart(container: Manifest, spec: Manifest, code: int) -> bool:
    """Return whether a container that exited with a code may run again: by its policy, or by a restart rule.

    Source: kubernetes/pkg/api/v1/pod/util.go, ContainerShouldRestart and AllContainersCouldRestart.
    """
    policy = container.get("restartPolicy") or spec.get("restartPolicy", "Always")
    if policy == "Always" or (policy == "OnFailure" and code != 0):
        return True
    if any(_is_named(rule, code) for rule in container.get("restartPolicyRules") or ()):
        return True
    every = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    rules = (rule for one in every for rule in one.get("restartPolicyRules") or ())
    return any(rule.get("action") == "RestartAllContainers" for rule in rules)


def _is_named(rule: Manifest, code: int) -> bool:
    codes = rule.get("exitCodes") or {}
    return (code in (codes.get("values") or ())) == (codes.get("operator") == "In")


def _non_negative(field: str, value: int | None) -> list[FieldError]:
    return [invalid(field, value, "must be a non-negative integer")] if (value or 0) < 0 else []


def _check_addresses(status: Manifest) -> Iterator[FieldError]:
    hosts = [address.get("ip", "") for address in status.get("hostIPs") or ()]
    if hosts and hosts[0] != status.get("hostIP", ""):
        yield invalid("status.hostIPs[0].ip", hosts[0], "must be equal to `hostIP`")
    for many, addresses in (("podIPs", [one.get("ip", "") for one in status.get("podIPs") or ()]), ("hostIPs", hosts)):
        wrong = [
            error
            for position, one in enumerate(addresses)
            for error in check_address(f"status.{many}[{position}]", one)
        ]
        yield from wrong
        if not wrong and len({":" in address for address in addresses}) < len(addresses):
            shown = [{"IP": address} for address in addresses]
            yield invalid(f"status.{many}", shown, "may specify no more than one IP for each IP family")
