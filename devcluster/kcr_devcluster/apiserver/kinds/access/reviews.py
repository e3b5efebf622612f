"""The kinds of reviews and bindings, as discovery and OpenAPI show them: they can be created, and nothing else.

Source: kubernetes/pkg/registry/{authorization,authentication}/rest/storage_{authorization,authentication}.go;
kubernetes/pkg/registry/core/pod/storage/storage.go, LegacyBindingREST.
"""

from dataclasses import dataclass

from kcr.api.resources import ResourceType
from kcr_devcluster.apiserver.kinds.kind import Kind

_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"


@dataclass(frozen=True, eq=False)
class VirtualKind(Kind):
    """A kind whose objects are answered and never stored."""

    @property
    def verbs(self) -> tuple[str, ...]:
        """The one verb of the kind."""
        return ("create",)


def _kind(group: str, name: str, *, namespaced: bool = False) -> Kind:
    return VirtualKind(ResourceType(group, "v1", name, f"{name.lower()}s", namespaced))


REVIEW_KINDS: tuple[Kind, ...] = (
    _kind(_AUTHENTICATION, "SelfSubjectReview"),
    _kind(_AUTHENTICATION, "TokenReview"),
    _kind(_AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True),
    _kind(_AUTHORIZATION, "SelfSubjectAccessReview"),
    _kind(_AUTHORIZATION, "SelfSubjectRulesReview"),
    _kind(_AUTHORIZATION, "SubjectAccessReview"),
)
# What `pods/binding` takes, at a path of its own.
BINDINGS: Kind = _kind("", "Binding", namespaced=True)
