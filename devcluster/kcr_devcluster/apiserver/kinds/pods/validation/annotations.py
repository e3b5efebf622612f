"""Validation of annotations that mean something for a pod.

Source: kubernetes/pkg/apis/core/validation/validation.go, ValidatePodSpecificAnnotations, ValidateSeccompPodAnnotations
and ValidateAppArmorPodAnnotations.
"""

from collections.abc import Mapping

from kcr.api.pods import DELETION_COST, parse_deletion_cost
from kcr_devcluster.apiserver.kinds.formats import descending_path
from kcr_devcluster.apiserver.kinds.pods.defaults import containers_of
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid
from kcr_devcluster.apiserver.protocol.manifests import Manifest

_MIRROR = "kubernetes.io/config.mirror"
_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP, _SECCOMP_CONTAINER = (
    "seccomp.security.alpha.kubernetes.io/pod",
    "container.seccomp.security.alpha.kubernetes.io/",
)
_SECCOMP_PROFILES = ("runtime/default", "docker/default", "unconfined")
_LOCAL = "localhost/"


def check_pod_annotations(annotations: Mapping[str, str], spec: Manifest, field: str) -> list[FieldError]:
    """Return the field errors of the annotations of a pod or of a pod template.

    Args:
        annotations: The annotations.
        spec: The spec of the pod.
        field: The path of the annotations.
    """
    errors: list[FieldError] = []
    if (mirror := annotations.get(_MIRROR)) is not None and not spec.get("nodeName"):
        words = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{field}[{_MIRROR}]", mirror, words))
    if (cost := annotations.get(DELETION_COST)) is not None and parse_deletion_cost(cost) is None:
        errors.append(invalid(f"{field}[{DELETION_COST}]", cost, "must be a 32bit integer"))
    for key, value in annotations.items():
        if key == _SECCOMP or key.startswith(_SECCOMP_CONTAINER):
            errors += _check_seccomp(value, f"{field}.{key}")
        elif key.startswith(_APP_ARMOR):
            errors += _check_app_armor(key.removeprefix(_APP_ARMOR), value, spec, f"{field}[{key}]")
    return errors


def _check_seccomp(profile: str, field: str) -> list[FieldError]:
    if profile in _SECCOMP_PROFILES:
        return []
    if profile.startswith(_LOCAL):
        return descending_path(field, profile.removeprefix(_LOCAL))
    return [invalid(field, profile, "must be a valid seccomp profile")]


def _check_app_armor(container: str, profile: str, spec: Manifest, field: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if container not in {one.get("name") for one in containers_of(spec)}:
        errors.append(invalid(field, container, "container not found"))
    if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCAL):
        errors.append(invalid(field, profile, f'invalid AppArmor profile name: "{profile}"'))
    return errors
