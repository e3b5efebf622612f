"""The strategies of Mutating- and ValidatingAdmissionPolicies.

Source: kubernetes/pkg/apis/admissionregistration/validation/validation.go, validateValidatingAdmissionPolicySpec,
validateMutatingAdmissionPolicySpec and validateValidatingAdmissionPolicyStatus; pkg/registry/admissionregistration.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from kcr_devcluster.apiserver.cel.types import CelType
from kcr_devcluster.apiserver.kinds.admission.expressions import (
    AUDIT_ANNOTATION,
    MESSAGE,
    VALIDATION,
    Expression,
    compile_errors,
)
from kcr_devcluster.apiserver.kinds.admission.rules import (
    FAILURE_POLICIES,
    REINVOCATION_POLICIES,
    check_choice,
    check_match_resources,
    check_mutating_operations,
)
from kcr_devcluster.apiserver.kinds.admission.strategies import (
    AdmissionStrategy,
    check_match_conditions,
    check_variables,
)
from kcr_devcluster.apiserver.kinds.conditions import check_conditions
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, duplicate, invalid, not_supported, required
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import dns_1035_label, dns_subdomain, qualified_name

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MOST_ANNOTATIONS = 20
_LONGEST_ANNOTATION = 5 * 1024
_LINE_BREAK = re.compile(r"[\n\r]")
# The member of a mutation that each patch type demands; the other one may not be set.
_PATCHES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


# Returns the field errors of an expression: of its text, path and purpose.
Compile = Callable[[str, str, str], list[FieldError]]


class PolicyStrategy(AdmissionStrategy):
    """Both kinds of policies: the resources that they match, parameters, conditions and variables."""

    def validate(self, obj: Manifest) -> list[FieldError]:
        """Return the field errors of a new policy."""
        return list(self._check(obj, None))

    def validate_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update; match conditions that stay the same are not checked again."""
        return list(self._check(new, old))

    def _check(self, obj: Manifest, old: Manifest | None) -> Iterator[FieldError]:
        spec, before = obj.get("spec") or {}, (old or {}).get("spec") or {}
        kind, has_params = spec.get("paramKind"), spec.get("paramKind") is not None
        yield from check_choice(spec, "spec", "failurePolicy", FAILURE_POLICIES)
        if kind is not None:
            yield from _check_param_kind(kind, "spec.paramKind")
        yield from self._check_matched(spec.get("matchConstraints"), "spec.matchConstraints")
        if old is None or any(spec.get(name) != before.get(name) for name in ("paramKind", "matchConditions")):
            conditions = spec.get("matchConditions") or ()
            yield from check_match_conditions(conditions, "spec.matchConditions", has_params)
        types = yield from check_variables(spec.get("variables") or (), "spec.variables", has_params)
        yield from self._check_rules(obj["metadata"].get("name", ""), spec, partial(_compile, has_params, types))

    def _check_matched(self, matched: Manifest | None, path: str) -> Iterator[FieldError]:
        if matched is None:
            yield required(path)
            return
        yield from check_match_resources(matched, path)
        if not matched.get("resourceRules"):
            yield required(f"{path}.resourceRules")

    def _check_rules(self, name: str, spec: Manifest, compile_: Compile) -> Iterator[FieldError]:
        raise NotImplementedError


class ValidatingPolicyStrategy(PolicyStrategy):
    """ValidatingAdmissionPolicies: a controller writes the results of type checking into their status."""

    status_resets = ("spec", "metadata")

    def prepare_create(self, obj: Manifest) -> None:
        """Empty the status: it is written through `/status` only."""
        obj["status"] = {}

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return the field errors of an update of the status."""
        status, errors = new.get("status") or {}, []
        for position, one in enumerate((status.get("typeChecking") or {}).get("expressionWarnings") or ()):
            path = f"status.typeChecking.expressionWarnings[{position}]"
            errors += [required(f"{path}.{name}") for name in ("warning", "fieldRef") if not one.get(name, "").strip()]
        return errors + check_conditions(status.get("conditions") or (), "status.conditions")

    def _check_rules(self, name: str, spec: Manifest, compile_: Compile) -> Iterator[FieldError]:
        validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
        if not validations and not annotations:
            words = "validations or auditAnnotations must contain at least one item"
            yield required("spec.validations", words)
            yield required("spec.auditAnnotations", words)
        for position, validation in enumerate(validations):
            yield from self._check_validation(compile_, validation, f"spec.validations[{position}]")
        if len(annotations) > _MOST_ANNOTATIONS:
            words = f"must not have more than {_MOST_ANNOTATIONS} auditAnnotations"
            yield invalid("spec.auditAnnotations", annotations, words)
        for position, annotation in enumerate(annotations):
            path, key = f"spec.auditAnnotations[{position}]", annotation.get("key", "")
            yield from self._check_annotation(compile_, annotation, f"{name}/{key}", path)
            if any(key == one.get("key", "") for one in annotations[:position]):
                yield duplicate(f"{path}.key", key)

    def _check_validation(self, compile_: Compile, validation: Manifest, path: str) -> Iterator[FieldError]:
        text, message = validation.get("expression", ""), validation.get("message", "")
        if text.strip():
            yield from compile_(text, f"{path}.expression", VALIDATION)
        else:
            yield required(f"{path}.expression", "expression is not specified")
        said = validation.get("messageExpression", "")
        if said.strip():
            yield from compile_(said, f"{path}.messageExpression", MESSAGE)
        elif said:
            yield invalid(f"{path}.messageExpression", said, "must be non-empty if specified")
        if message and not message.strip():
            yield invalid(f"{path}.message", message, "must be non-empty if specified")
        elif _LINE_BREAK.search(message.strip()):
            yield invalid(f"{path}.message", message, "must not contain line breaks")
        yield from check_choice(validation, path, "reason", _REASONS)

    def _check_annotation(self, compile_: Compile, annotation: Manifest, key: str, path: str) -> Iterator[FieldError]:
        yield from (invalid(f"{path}.key", key, reason) for reason in qualified_name(key))
        text, place = annotation.get("valueExpression", "").strip(), f"{path}.valueExpression"
        if not text:
            yield required(place, "valueExpression is not specified")
        elif len(text.encode()) > _LONGEST_ANNOTATION:
            yield required(place, f"must not exceed {_LONGEST_ANNOTATION} bytes in length")
        else:
            yield from compile_(text, place, AUDIT_ANNOTATION)


class MutatingPolicyStrategy(PolicyStrategy):
    """MutatingAdmissionPolicies: patches, and whether they are made again after others."""

    def _check_matched(self, matched: Manifest | None, path: str) -> Iterator[FieldError]:
        yield from super()._check_matched(matched, path)
        yield from check_mutating_operations(matched, path)

    def _check_rules(self, name: str, spec: Manifest, compile_: Compile) -> Iterator[FieldError]:
        mutations: Sequence[Manifest] = spec.get("mutations") or ()
        if not mutations:
            yield required("spec.mutations", "mutations must contain at least one item")
        for position, mutation in enumerate(mutations):
            yield from self._check_mutation(compile_, mutation, f"spec.mutations[{position}]")
        if not spec.get("reinvocationPolicy"):
            yield required("spec.reinvocationPolicy")
        else:
            yield from check_choice(spec, "spec", "reinvocationPolicy", REINVOCATION_POLICIES)

    def _check_mutation(self, compile_: Compile, mutation: Manifest, path: str) -> Iterator[FieldError]:
        kind = mutation.get("patchType", "")
        if not kind:
            yield required(f"{path}.patchType")
        elif kind not in _PATCHES:
            yield not_supported(f"{path}.patchType", kind, tuple(_PATCHES))
        for patch_type, member in _PATCHES.items():
            patch, place = mutation.get(member), f"{path}.{member}"
            if kind == patch_type and patch is None:
                yield required(place, f"must be specified when patchType is {kind}")
            elif kind == patch_type and patch is not None:
                if text := patch.get("expression", "").strip():
                    yield from compile_(text, f"{place}.expression", member)
                else:
                    yield required(f"{place}.expression")
            elif kind in _PATCHES and patch is not None:
                yield invalid(place, f"{{{member}}}", f"must not be specified when patchType is {kind}")


def _compile(
    has_params: bool, variables: Mapping[str, CelType], text: str, path: str, purpose: str
) -> list[FieldError]:
    return compile_errors(Expression(text, path, purpose, has_params, variables))


def _check_param_kind(kind: Manifest, path: str) -> Iterator[FieldError]:
    api_version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    group, slash, version = api_version.rpartition("/")
    if not api_version:
        yield required(f"{path}.apiVersion")
    elif api_version.count("/") > 1:
        yield invalid(f"{path}.apiVersion", api_version, f"unexpected GroupVersion string: {api_version}")
    else:
        if group and (reasons := dns_subdomain(group)):
            yield invalid(f"{path}.apiVersion", group, ",".join(reasons))
        if slash and not version:
            yield invalid(f"{path}.apiVersion", api_version, "version must be specified")
        elif reasons := dns_1035_label(version):
            yield invalid(f"{path}.apiVersion", version, ",".join(reasons))
    if not name:
        yield required(f"{path}.kind")
    elif reasons := dns_1035_label(name.lower()):
        words = "may have mixed case, but should otherwise match: "
        yield invalid(f"{path}.kind", name, words + ",".join(reasons))
