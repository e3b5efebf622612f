"""The reviews by their paths, as `kubectl auth` and authorizing proxies send them.

Source: kubernetes/pkg/registry/authorization/rest/storage_authorization.go;
pkg/registry/authentication/selfsubjectreview/rest.go.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcr.apiserver.endpoints import request_body
from kcr.apiserver.endpoints.reviews import access
from kcr.apiserver.endpoints.reviews.access import Asker
from kcr.apiserver.kinds.strategy import Manifest
from kcr.apiserver.responses import APIResponse, encoded, json_response
from kcr.apiserver.schema.builtin import type_shape


class ReviewKind(NamedTuple):
    """A kind of review: the type of its objects, and what returns their status."""

    type_name: str
    status: Callable[[Manifest, Asker], Manifest]
    is_namespaced: bool = False


def _whoami(review: Manifest, asker: Asker) -> Manifest:
    return {"userInfo": asker.user.info}


_REVIEWS: Mapping[tuple[str, str, str], ReviewKind] = {
    ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"): ReviewKind(
        "authorization.v1.SelfSubjectAccessReview", access.self_access
    ),
    ("authorization.k8s.io", "v1", "subjectaccessreviews"): ReviewKind(
        "authorization.v1.SubjectAccessReview", access.subject_access
    ),
    ("authorization.k8s.io", "v1", "localsubjectaccessreviews"): ReviewKind(
        "authorization.v1.LocalSubjectAccessReview", access.local_subject_access, is_namespaced=True
    ),
    ("authorization.k8s.io", "v1", "selfsubjectrulesreviews"): ReviewKind(
        "authorization.v1.SelfSubjectRulesReview", access.self_rules
    ),
    ("authentication.k8s.io", "v1", "selfsubjectreviews"): ReviewKind("authentication.v1.SelfSubjectReview", _whoami),
}


class ReviewRoute(NamedTuple):
    """What the path of a review names."""

    kind: ReviewKind
    api_version: str
    namespace: str = ""


def find(method: str, steps: list[str]) -> ReviewRoute | None:
    """Return the review that a request asks for, None for another request."""
    if method != "POST" or steps[0] != "apis":
        return None
    match steps:
        case ["apis", group, version, plural]:
            namespace = ""
        case ["apis", group, version, "namespaces", namespace, plural]:
            pass
        case _:
            return None
    kind = _REVIEWS.get((group, version, plural))
    if kind is None or kind.is_namespaced != bool(namespace):
        return None
    return ReviewRoute(kind, f"{group}/{version}", namespace)


def respond(route: ReviewRoute, body: bytes, content_type: str, asker: Asker) -> APIResponse:
    """Handle a POST of a review by a user: the review with its status.

    Raises:
        StatusError: 400, 415 or 422, it is invalid.
    """
    shape = type_shape(route.kind.type_name)
    given = request_body.decode_as(shape, body, content_type)
    review: Manifest = {
        "kind": shape.short_name, "apiVersion": route.api_version, "metadata": given.get("metadata") or {},
    }  # fmt: skip
    if "spec" in given:
        review["spec"] = given["spec"]
    return json_response(encoded({**review, "status": route.kind.status(review, asker)}), 201)
