"""The policy that the labels of a namespace state, and the evaluation of pods against a level.

Source: k8s.io/pod-security-admission/api/helpers.go, PolicyToEvaluate; policy/registry.go, EvaluatePod.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from kcr_devcluster.apiserver.pod_security.baseline import BASELINE
from kcr_devcluster.apiserver.pod_security.checks import Check, VersionedCheck, Violation
from kcr_devcluster.apiserver.pod_security.restricted import RESTRICTED
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid
from kcr_devcluster.apiserver.protocol.manifests import Manifest

PRIVILEGED = "privileged"
# From the least to the most strict one.
LEVELS = (PRIVILEGED, "baseline", "restricted")
_MODES = ("enforce", "audit", "warn")
_PREFIX = "pod-security.kubernetes.io/"
LABELS = frozenset(f"{_PREFIX}{mode}{end}" for mode in _MODES for end in ("", "-version"))
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)")
_NEWEST = 1 << 31


class Level(NamedTuple):
    """A level in a version.

    Attributes:
        name: One of `LEVELS`.
        version: `latest`, or a version of Kubernetes such as `v1.25`.
    """

    name: str = PRIVILEGED
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.name}:{self.version}"

    @property
    def rank(self) -> int:
        """How strict it is."""
        return LEVELS.index(self.name)


class NamespacePolicy(NamedTuple):
    """The levels that a namespace demands.

    Attributes:
        enforce: The level that pods must have.
        audit: The level whose violations are recorded; no audit log is written here.
        warn: The level whose violations clients are warned about.
        errors: The field errors of the labels.
    """

    enforce: Level = Level()
    audit: Level = Level()
    warn: Level = Level()
    errors: tuple[FieldError, ...] = ()


NO_POLICY = NamespacePolicy()


def policy_of(labels: Mapping[str, str]) -> NamespacePolicy:
    """Return the policy of a namespace with these labels; without the labels, everything is allowed."""
    if LABELS.isdisjoint(labels):
        return NO_POLICY
    errors: list[FieldError] = []
    levels = {mode: _level(labels, mode, errors) for mode in _MODES}
    enforce, warn = levels["enforce"], levels["warn"]
    given = labels.get(f"{_PREFIX}enforce")
    # Who enforces a level is warned about its violations in templates, too.
    if f"{_PREFIX}warn" not in labels and given in LEVELS and enforce.rank > warn.rank:
        version = warn.version if f"{_PREFIX}warn-version" in labels else enforce.version
        warn = Level(enforce.name, version)
    return NamespacePolicy(enforce, levels["audit"], warn, tuple(errors))


def _level(labels: Mapping[str, str], mode: str, errors: list[FieldError]) -> Level:
    """Return the level of a mode; an invalid label is an error, and enforces the most."""
    label = f"{_PREFIX}{mode}"
    name, version = labels.get(label, PRIVILEGED), labels.get(f"{label}-version", "latest")
    if name not in LEVELS:
        errors.append(invalid(f"metadata.labels[{label}]", name, f"must be one of {', '.join(LEVELS)}"))
        name = LEVELS[-1] if mode == "enforce" else PRIVILEGED
    if version != "latest" and not _VERSION.fullmatch(version):
        errors.append(invalid(f"metadata.labels[{label}-version]", version, 'must be "latest" or "v1.x"'))
        version = "latest"
    return Level(name, version)


def violations(level: Level, metadata: Manifest, spec: Manifest, newest: int = _NEWEST) -> list[Violation]:
    """Return the rules of a level that a pod breaks.

    Args:
        level: The level.
        metadata: The metadata of the pod, or of a template.
        spec: Its spec, with defaults.
        newest: The minor version that `latest` and later ones mean.
    """
    if level.name == PRIVILEGED:
        return []
    return [found for check in _checks(level, newest) if (found := check(metadata, spec)) is not None]


@lru_cache(256)
def _checks(level: Level, newest: int) -> tuple[Check, ...]:
    """Return the checks of a level in its version, those of `baseline` first."""
    minor = newest if level.version == "latest" else min(newest, int(level.version.partition(".")[2]))
    baseline = _in_version(BASELINE, minor)
    if level.name != LEVELS[-1]:
        return tuple(one.check for one in baseline)
    restricted = _in_version(RESTRICTED, minor)
    overridden = {one.overrides for one in restricted}
    return tuple(one.check for one in (*(one for one in baseline if one.id not in overridden), *restricted))


def _in_version(checks: Sequence[VersionedCheck], minor: int) -> list[VersionedCheck]:
    newest = {one.id: one for one in checks if one.minor <= minor}
    return [newest[name] for name in sorted(newest)]
