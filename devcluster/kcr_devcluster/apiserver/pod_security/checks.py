"""The form of a check of Pod Security, and the parts of its messages.

Source: k8s.io/pod-security-admission/policy/checks.go, helpers.go and visitor.go.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kcr_devcluster.apiserver.protocol.manifests import Manifest


class Violation(NamedTuple):
    """A rule that a pod breaks.

    Attributes:
        reason: The rule, such as `hostPort`.
        detail: The containers and values that break it; `""` for none.
    """

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


# Called with the metadata and the spec of a pod; None for a pod that keeps the rule.
Check = Callable[[Manifest, Manifest], Violation | None]


class VersionedCheck(NamedTuple):
    """A check as it is from a version on.

    Attributes:
        id: Its name; checks are evaluated in the order of their names.
        minor: The minor version of Kubernetes from which on it applies, until the next one with this name.
        check: The function.
        overrides: The check of `baseline` that it replaces in `restricted`, `""` for none.
    """

    id: str
    minor: int
    check: Check
    overrides: str = ""


def containers(spec: Manifest) -> Iterator[tuple[str, Manifest, Manifest]]:
    """Yield name, container and security context of all containers, the init containers first."""
    for member in ("initContainers", "containers", "ephemeralContainers"):
        for one in spec.get(member) or ():
            yield one.get("name", ""), one, one.get("securityContext") or {}


def quoted(texts: Iterable[str]) -> str:
    """Return texts in quotes, separated by commas."""
    return ", ".join(f'"{one}"' for one in texts)


def plural(word: str, count: int) -> str:
    """Return a word for a number of things."""
    return word if count == 1 else f"{word}s"


def named(names: list[str]) -> str:
    """Return containers with their names: `container "a"`, `containers "a", "b"`."""
    return f"{plural('container', len(names))} {quoted(names)}"


def setters(pod: bool, names: list[str]) -> str:
    """Return the places of a bad value: `pod`, `container "a"`, or both; `""` for none."""
    return " and ".join((["pod"] if pod else []) + ([named(names)] if names else []))


def in_user_namespace(spec: Manifest) -> bool:
    """Return whether a pod has users of its own, so that its root is not the node's."""
    return spec.get("hostUsers") is False


def is_windows(spec: Manifest) -> bool:
    """Return whether a pod says that it is for Windows."""
    return bool((spec.get("os") or {}).get("name") == "windows")
