"""The strategies of Mutating- and ValidatingAdmissionPolicyBindings.

Source: kubernetes/pkg/apis/admissionregistration/validation/validation.go,
validateValidatingAdmissionPolicyBindingSpec, validateMutatingAdmissionPolicyBindingSpec and validateParamRef.
"""

from collections.abc import Iterator, Sequence

from kcr_devcluster.apiserver.kinds.admission.rules import check_match_resources, check_mutating_operations
from kcr_devcluster.apiserver.kinds.admission.strategies import AdmissionStrategy
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import check_selector, dns_subdomain, path_segment

_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")


class BindingStrategy(AdmissionStrategy):
    """Bindings of both kinds: the policy, its parameters, and the resources that are bound."""

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a binding."""
        return list(self._check(obj.get("spec") or {}))

    def _check(self, spec: Manifest) -> Iterator[FieldError]:
        name = spec.get("policyName", "")
        if not name:
            yield required("spec.policyName")
        else:
            yield from (invalid("spec.policyName", name, reason) for reason in dns_subdomain(name))
        reference = spec.get("paramRef")
        if reference is not None:
            yield from _check_param_ref(reference, "spec.paramRef")
        yield from check_match_resources(spec.get("matchResources"), "spec.matchResources")


class MutatingBindingStrategy(BindingStrategy):
    """MutatingAdmissionPolicyBindings: they cannot bind deletions."""

    def _check(self, spec: Manifest) -> Iterator[FieldError]:
        yield from super()._check(spec)
        yield from check_mutating_operations(spec.get("matchResources"), "spec.matchResources")


class ValidatingBindingStrategy(BindingStrategy):
    """ValidatingAdmissionPolicyBindings: the actions after a failed validation."""

    def _check(self, spec: Manifest) -> Iterator[FieldError]:
        yield from super()._check(spec)
        yield from _check_actions(spec.get("validationActions") or (), "spec.validationActions")


def _check_actions(actions: Sequence[str], path: str) -> Iterator[FieldError]:
    for position, action in enumerate(actions):
        if action not in _ACTIONS:
            yield not_supported(f"{path}[{position}]", action, _ACTIONS)
        if action in actions[:position]:
            yield duplicate(f"{path}[{position}]", action)
    if {"Deny", "Warn"} <= set(actions):
        words = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response"
            " and headers serves no purpose)"
        )
        yield invalid(path, actions, words)
    if not actions:
        yield required(path, "at least one validation action is required")


def _check_param_ref(reference: Manifest, path: str) -> Iterator[FieldError]:
    name, selector = reference.get("name", ""), reference.get("selector")
    both = bool(name) and selector is not None
    words = "name and selector are mutually exclusive"
    if name:
        yield from (invalid(f"{path}.name", name, reason) for reason in path_segment(name))
    if both:
        yield forbidden(f"{path}.name", words)
    if selector is not None:
        yield from check_selector(selector, f"{path}.selector")
    if both:
        yield forbidden(f"{path}.selector", words)
    if not name and selector is None:
        yield required(path, "one of name or selector must be specified")
    action = reference.get("parameterNotFoundAction")
    if not action:
        yield required(f"{path}.parameterNotFoundAction")
    elif action not in _NOT_FOUND_ACTIONS:
        yield not_supported(f"{path}.parameterNotFoundAction", action, _NOT_FOUND_ACTIONS)
