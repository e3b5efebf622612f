"""The admission plugin ValidatingAdmissionPolicy: requests that break the validations of a policy are refused.

Audit annotations are evaluated, for one that fails denies the request; this server keeps no audit log.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/{dispatcher,validator}.go.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kcr_devcluster.apiserver.admission.objects import Review
from kcr_devcluster.apiserver.admission.policies.configurations import CompiledPolicy, PolicyBinding, PolicyExpression
from kcr_devcluster.apiserver.admission.policies.evaluation import Evaluation, UnconvertedError, inputs_of
from kcr_devcluster.apiserver.admission.policies.matching import Invocation, PolicyMatcher
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.protocol.responses import StatusError, forbidden
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes

_INVALID = "Invalid"
_CODES: Mapping[str, int] = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
_LONGEST_MESSAGE = 5 * 1024


class _Failure(NamedTuple):
    """A validation that does not hold, or an expression that cannot be evaluated.

    Attributes:
        message: Why.
        reason: The reason of the Status.
        is_action: Whether the actions of the binding decide; otherwise the request is denied.
    """

    message: str
    reason: str = _INVALID
    is_action: bool = True


class _Denial(NamedTuple):
    """A failure that denies the request."""

    policy: CompiledPolicy
    binding: PolicyBinding | None
    failure: _Failure


class ValidatingPolicies:
    """Evaluates the ValidatingAdmissionPolicies that are bound."""

    def __init__(self, matcher: PolicyMatcher) -> None:
        self.matcher = matcher

    async def validate(self, review: Review) -> None:
        """Refuse a request that breaks a policy whose binding denies, after all policies have been evaluated.

        Raises:
            StatusError: By the first failure; others are not named.
        """
        denials: list[_Denial] = []
        for invocation in await self.matcher.invocations(review):
            policy, binding = invocation.policy, invocation.binding
            try:
                failures = await self._failures(invocation, review)
            except UnconvertedError as error:
                said = f"failed to configure policy: failed to convert object version: {error}"
                if not policy.ignores_failures:
                    denials.append(_Denial(policy, None, _Failure(said)))
                continue
            for failure in failures:
                actions = binding.spec.get("validationActions") or () if binding and failure.is_action else ("Deny",)
                if "Deny" in actions:
                    denials.append(_Denial(policy, binding, failure))
                if binding is not None and "Warn" in actions:
                    review.warnings.append(
                        f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding "
                        f"'{binding.name}': {failure.message}"
                    )
        if denials:
            raise _denied(review.attributes, denials[0])

    async def _failures(self, invocation: Invocation, review: Review) -> list[_Failure]:
        policy = invocation.policy
        if invocation.error:
            return [] if policy.ignores_failures else [_Failure(invocation.error, is_action=False)]
        inputs = await inputs_of(review, invocation.kind, self.matcher.storage)
        evaluation = Evaluation(inputs, self.matcher.authorizer, params=invocation.params, variables=policy.variables)
        try:
            if not policy.conditions.hold(evaluation):
                return []
        except EvaluationError as error:
            return [_Failure(str(error))]
        results = [_validated(rule, evaluation, policy) for rule in policy.validations]
        results += [_annotated(rule, evaluation, policy) for rule in policy.annotations]
        return [failure for failure in results if failure is not None]


def _validated(rule: PolicyExpression, evaluation: Evaluation, policy: CompiledPolicy) -> _Failure | None:
    try:
        if evaluation.evaluate(rule.expression) is True:
            return None
    except EvaluationError as error:
        return None if policy.ignores_failures else _Failure(str(error), "")
    message = _message(rule, evaluation) or rule.source.get("message", "").strip()
    expression = rule.source.get("expression", "").strip()
    return _Failure(message or f"failed expression: {expression}", rule.source.get("reason") or _INVALID)


def _message(rule: PolicyExpression, evaluation: Evaluation) -> str:
    """Return the value of a message expression, `""` where there is none or it is no message."""
    if rule.message is None:
        return ""
    try:
        value = evaluation.evaluate(rule.message)
    except EvaluationError:
        return ""
    text = value.strip() if isinstance(value, str) else ""
    return "" if "\n" in text or len(text.encode()) > _LONGEST_MESSAGE else text


def _annotated(rule: PolicyExpression, evaluation: Evaluation, policy: CompiledPolicy) -> _Failure | None:
    """Return the failure of an audit annotation; whatever the actions of the binding, it denies the request."""
    try:
        evaluation.evaluate(rule.expression)
    except EvaluationError as error:
        return None if policy.ignores_failures else _Failure(str(error), "", is_action=False)
    return None


def _denied(attributes: AdmissionAttributes, denial: _Denial) -> StatusError:
    bound = f" with binding '{denial.binding.name}'" if denial.binding else ""
    message = f"ValidatingAdmissionPolicy '{denial.policy.name}'{bound} denied request: {denial.failure.message}"
    error = forbidden(attributes.requested.type, attributes.called, message, [{"message": message}])
    reason = denial.failure.reason or _INVALID
    return StatusError(_CODES.get(reason, 422), reason, error.message, details=error.details)
