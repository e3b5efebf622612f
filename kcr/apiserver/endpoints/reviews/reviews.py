"""Self subject reviews, as `kubectl auth` sends them. Every user may do everything.

Source: kubernetes/pkg/registry/authorization/{selfsubjectaccessreview,selfsubjectrulesreview}/rest.go,
pkg/registry/authentication/selfsubjectreview/rest.go.
"""

from collections.abc import Callable, Mapping

from kcr.apiserver.authentication import User
from kcr.apiserver.endpoints import request_body
from kcr.apiserver.kinds.field_errors import invalid as invalid_field
from kcr.apiserver.kinds.strategy import Manifest
from kcr.apiserver.responses import APIResponse, encoded, invalid, json_response
from kcr.apiserver.schema.builtin import type_shape

_ALL_RULES: Manifest = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
_AUTHORIZATION, _AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"


def _access(review: Manifest, user: User) -> Manifest:
    spec = review.get("spec") or {}
    if bool(spec.get("resourceAttributes")) == bool(spec.get("nonResourceAttributes")):
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        error = invalid_field("spec.resourceAttributes", spec.get("nonResourceAttributes"), why)
        raise invalid("SelfSubjectAccessReview", _AUTHORIZATION, "", [error])
    return {"allowed": True}


_REVIEWS: Mapping[tuple[str, ...], tuple[str, Callable[[Manifest, User], Manifest]]] = {
    (_AUTHORIZATION, "v1", "selfsubjectaccessreviews"): ("authorization.v1.SelfSubjectAccessReview", _access),
    (_AUTHORIZATION, "v1", "selfsubjectrulesreviews"): (
        "authorization.v1.SelfSubjectRulesReview", lambda review, user: _ALL_RULES
    ),
    (_AUTHENTICATION, "v1", "selfsubjectreviews"): (
        "authentication.v1.SelfSubjectReview", lambda review, user: {"userInfo": user.info}
    ),
}  # fmt: skip


def is_review(method: str, steps: list[str]) -> bool:
    """Return whether a request asks for a review."""
    return method == "POST" and steps[0] == "apis" and tuple(steps[1:]) in _REVIEWS


def respond(steps: list[str], body: bytes, content_type: str, user: User) -> APIResponse:
    """Handle a POST of a review by a user: the review with its status.

    Raises:
        StatusError: 400, 415 or 422, it is invalid.
    """
    name, evaluate = _REVIEWS[tuple(steps[1:])]
    shape = type_shape(name)
    review = request_body.decode_as(shape, body, content_type)
    named = {"kind": shape.short_name, "apiVersion": f"{steps[1]}/{steps[2]}", "metadata": review.get("metadata") or {}}
    spec = {"spec": review["spec"]} if "spec" in review else {}
    return json_response(encoded({**named, **spec, "status": evaluate(review, user)}), 201)
