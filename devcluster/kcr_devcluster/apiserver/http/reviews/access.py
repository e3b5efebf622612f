"""Access reviews: whether a user may do something, and all that he may do, by the server's own authorizer.

Source: kubernetes/pkg/registry/authorization/{selfsubjectaccessreview,subjectaccessreview,localsubjectaccessreview,
selfsubjectrulesreview}/rest.go; pkg/registry/authorization/util/helpers.go; pkg/apis/authorization/validation.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kcr_devcluster.apiserver.authentication import User
from kcr_devcluster.apiserver.authorization import Attributes, Authorizer
from kcr_devcluster.apiserver.authorization.rbac import joined
from kcr_devcluster.apiserver.authorization.rules import PolicyRule
from kcr_devcluster.apiserver.protocol.field_errors import FieldError
from kcr_devcluster.apiserver.protocol.field_errors import invalid as invalid_field
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import bad_request, invalid

_GROUP = "authorization.k8s.io"
_RESOURCE, _PATH = "resourceAttributes", "nonResourceAttributes"


class Asker(NamedTuple):
    """The sender of a review, and the functions that decide it.

    Attributes:
        user: The user of the request.
        authorizer: Decides.
        check_token: Returns the user of a token, and those of some audiences that it is for; raises InvalidTokenError.
        namespace: The namespace of the path, `""` for none.
    """

    user: User
    authorizer: Authorizer
    check_token: Callable[[str, Sequence[str]], tuple[User, tuple[str, ...]]]
    namespace: str = ""


def self_access(review: Manifest, asker: Asker) -> Manifest:
    """Return the status of a SelfSubjectAccessReview.

    Raises:
        StatusError: 422, it does not ask for exactly one thing.
    """
    spec = review.get("spec") or {}
    _raise_if_invalid([*_what_faults(spec), *_metadata_faults(review)])
    return _status(asker.user, spec, asker.authorizer)


def subject_access(review: Manifest, asker: Asker) -> Manifest:
    """Return the status of a SubjectAccessReview.

    Raises:
        StatusError: 422, it has not exactly one kind of attributes, or names neither user nor group.
    """
    spec = review.get("spec") or {}
    _raise_if_invalid([*_subject_faults(spec), *_metadata_faults(review)])
    return _status(_user_of(spec), spec, asker.authorizer)


def local_subject_access(review: Manifest, asker: Asker) -> Manifest:
    """Return the status of a LocalSubjectAccessReview: whether a user may do something in one namespace.

    Raises:
        StatusError: 400 or 422, it asks for another namespace, or is invalid as other reviews are.
    """
    spec, metadata = review.get("spec") or {}, review.setdefault("metadata", {})
    if metadata.setdefault("namespace", asker.namespace) != asker.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    errors = [*_subject_faults(spec), *_metadata_faults(review, "must be empty except for namespace", "namespace")]
    wanted, path = spec.get(_RESOURCE), spec.get(_PATH)
    if wanted is not None and (said := wanted.get("namespace") or "") != asker.namespace:
        errors.append(invalid_field("spec.resourceAttributes.namespace", said, "must match metadata.namespace"))
    if path is not None:
        errors.append(invalid_field(f"spec.{_PATH}", _as_in_go(path), "disallowed on this kind of request"))
    _raise_if_invalid(errors)
    return _status(_user_of(spec), spec, asker.authorizer)


def self_rules(review: Manifest, asker: Asker) -> Manifest:
    """Return the status of a SelfSubjectRulesReview.

    Raises:
        StatusError: 400, it names no namespace.
    """
    namespace = (review.get("spec") or {}).get("namespace") or ""
    if not namespace:
        raise bad_request("no namespace on request")
    rights = asker.authorizer.rights(asker.user, namespace)
    status: Manifest = {
        "resourceRules": [_resource_rule(rule) for rule in rights.rules if rule.resources],
        "nonResourceRules": [
            {"verbs": rule.verbs, "nonResourceURLs": rule.paths} for rule in rights.rules if rule.paths
        ],
        "incomplete": False,
    }
    return status | ({"evaluationError": joined(rights.errors)} if rights.errors else {})


def _resource_rule(rule: PolicyRule) -> Manifest:
    members = {"apiGroups": rule.groups, "resources": rule.resources, "resourceNames": rule.names}
    return {"verbs": rule.verbs} | {name: values for name, values in members.items() if values}


def _status(user: User, spec: Manifest, authorizer: Authorizer) -> Manifest:
    decision = authorizer.authorize(user, _wanted(spec))
    return {"allowed": decision.is_allowed} | ({"reason": decision.reason} if decision.reason else {})


def _wanted(spec: Manifest) -> Attributes:
    asked, path = spec.get(_RESOURCE), spec.get(_PATH)
    if asked is None:
        return Attributes(path.get("verb") or "", path=path.get("path") or "") if path else Attributes("")
    members = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(*(asked.get(member) or "" for member in members))


def _user_of(spec: Manifest) -> User:
    extra = {name: tuple(values) for name, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)


def _what_faults(spec: Manifest) -> list[FieldError]:
    asked, path = spec.get(_RESOURCE), spec.get(_PATH)
    if asked is not None and path is not None:
        return [invalid_field(f"spec.{_PATH}", _as_in_go(path), f"cannot be specified in combination with {_RESOURCE}")]
    if asked is None and path is None:
        why = f"exactly one of {_PATH} or {_RESOURCE} must be specified"
        return [invalid_field(f"spec.{_RESOURCE}", None, why)]
    return []


def _subject_faults(spec: Manifest) -> list[FieldError]:
    errors = _what_faults(spec)
    if not spec.get("user") and not spec.get("groups"):
        errors.append(invalid_field("spec.user", "", "at least one of user or group must be specified"))
    return errors


def _metadata_faults(review: Manifest, why: str = "must be empty", *allowed: str) -> list[FieldError]:
    metadata = {name: value for name, value in (review.get("metadata") or {}).items() if value}
    if metadata.keys() <= {"managedFields", "creationTimestamp", *allowed}:
        return []
    return [invalid_field("metadata", metadata, why)]


def _as_in_go(path: Manifest) -> Manifest:
    """Return attributes of a path with the names of the internal type, as messages show it."""
    return {"Path": path.get("path") or "", "Verb": path.get("verb") or ""}


def _raise_if_invalid(errors: list[FieldError]) -> None:
    if errors:
        # Upstream asks the internal object for its kind, which has none.
        raise invalid("", _GROUP, "", errors)
