"""The reviews by their paths, as `kubectl auth` and authorizing proxies send them.

Source: kubernetes/pkg/registry/authorization/rest/storage_authorization.go;
pkg/registry/authentication/{selfsubjectreview,tokenreview}/{rest,storage}.go;
staging/src/k8s.io/apiserver/pkg/authentication/request/bearertoken/bearertoken.go.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kcr_devcluster.apiserver.authentication import AUDIENCE, InvalidTokenError
from kcr_devcluster.apiserver.http.bodies import field_validation, request_body
from kcr_devcluster.apiserver.http.reviews import access
from kcr_devcluster.apiserver.http.reviews.access import Asker
from kcr_devcluster.apiserver.kinds.strategy import conform
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.query import Query
from kcr_devcluster.apiserver.protocol.responses import APIResponse, add_warnings, bad_request, encoded, json_response
from kcr_devcluster.apiserver.schema.builtin import type_shape

_INVALID_TOKEN = "invalid bearer token"
_RULES = "SelfSubjectRulesReview"


class ReviewKind(NamedTuple):
    """A kind of review: the type of its objects, and the function that returns their status."""

    type_name: str
    status: Callable[[Manifest, Asker], Manifest]
    is_namespaced: bool = False


def _self_subject(review: Manifest, asker: Asker) -> Manifest:
    """Return the status of a SelfSubjectReview: the user as the server knows him."""
    return {"userInfo": asker.user.info}


def _token(review: Manifest, asker: Asker) -> Manifest:
    """Return the status of a TokenReview: the user of the token, or why it has none.

    Raises:
        StatusError: 400, it has no token.
    """
    spec = review.get("spec") or {}
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    try:
        user, audiences = asker.check_token(spec["token"], tuple(spec.get("audiences") or (AUDIENCE,)))
    except InvalidTokenError as error:
        why = f"[{_INVALID_TOKEN}, {error}]" if str(error) else _INVALID_TOKEN
        return {"user": {}, "error": why}
    return {"authenticated": True, "user": user.info, "audiences": audiences}


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
    ("authentication.k8s.io", "v1", "selfsubjectreviews"): ReviewKind(
        "authentication.v1.SelfSubjectReview", _self_subject
    ),
    ("authentication.k8s.io", "v1", "tokenreviews"): ReviewKind("authentication.v1.TokenReview", _token),
}


class ReviewRoute(NamedTuple):
    """The kind, version and namespace in the path of a review."""

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


def respond(route: ReviewRoute, body: bytes, content_type: str, query: Query, asker: Asker) -> APIResponse:
    """Handle a POST of a review by a user: the review with its status.

    Args:
        route: The kind of the review, and where it is posted.
        body: The review.
        content_type: Its form.
        query: It says how fields that the kind does not have are answered.
        asker: The user, and who knows the answer.

    Raises:
        StatusError: 400, 415 or 422, it is invalid.
    """
    shape = type_shape(route.kind.type_name)
    given = request_body.decode_as(shape, (route.api_version,), body, content_type)
    warnings = field_validation.check(shape, given, body, content_type, query)
    conform(shape, given)
    review: Manifest = {
        "kind": shape.short_name, "apiVersion": route.api_version, "metadata": given.get("metadata") or {},
    }  # fmt: skip
    if "spec" in given:
        review["spec"] = given["spec"]
    status = route.kind.status(review, asker)
    if shape.short_name == _RULES:
        # Upstream answers with the rules alone.
        review["spec"] = {}
    return add_warnings(json_response(encoded({**review, "status": status}), 201), warnings)
