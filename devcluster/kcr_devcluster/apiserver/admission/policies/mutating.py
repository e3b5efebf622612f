"""The admission plugin MutatingAdmissionPolicy: the mutations of policies change the objects of requests.

Policies come before webhooks. A policy with `reinvocationPolicy: IfNeeded` is evaluated once more where a later one, a
webhook or a step of the server has changed the object.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/mutating/{dispatcher,
reinvocationcontext}.go; pkg/admission/plugin/policy/generic/policy_dispatcher.go, Dispatch.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.admission.objects import MutatingReview, copied
from kcr_devcluster.apiserver.admission.policies.configurations import CompiledPolicy, PolicyBinding
from kcr_devcluster.apiserver.admission.policies.evaluation import Evaluation, UnconvertedError, inputs_of
from kcr_devcluster.apiserver.admission.policies.matching import Invocation, PolicyMatcher
from kcr_devcluster.apiserver.admission.policies.patches import PatchError, apply_configuration, apply_json_patch
from kcr_devcluster.apiserver.admission.reinvocation import Reinvocation
from kcr_devcluster.apiserver.admission.rules import group_version_kind
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.kinds.kind import SUBRESOURCE_KINDS, Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError, forbidden, internal
from kcr_devcluster.apiserver.schema.builtin import encoded_shape
from kcr_devcluster.apiserver.schema.shape import Shape
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes

_NAME = "MutatingAdmissionPolicy"
_INVALID = "Invalid"


class _Failure(NamedTuple):
    """A policy that cannot be evaluated, or whose patch cannot be applied."""

    policy: CompiledPolicy
    binding: PolicyBinding | None
    message: str
    reason: str = ""

    @property
    def text(self) -> str:
        """The message with the names of the policy and the binding."""
        if self.binding is None:
            return f'policy "{self.policy.name}" denied request: {self.message}'
        return f"policy '{self.policy.name}' with binding '{self.binding.name}' denied request: {self.message}"


class MutatingPolicies:
    """Evaluates the MutatingAdmissionPolicies that are bound."""

    def __init__(self, matcher: PolicyMatcher) -> None:
        self.matcher = matcher

    async def admit(self, review: MutatingReview) -> None:
        """Make the mutations of all policies that match, one after another; each sees the changes of those before.

        Raises:
            StatusError: Some fail, and their failure policy is not to ignore that.
        """
        memory = Reinvocation.of(review, _NAME)
        failures: list[_Failure] = []
        for invocation in await self.matcher.invocations(review):
            policy, binding = invocation.policy, invocation.binding
            if invocation.error:
                failures.append(_Failure(policy, binding, invocation.error))
                continue
            key, before = _key(invocation), review.obj
            try:
                if not await self._conditions_hold(invocation, review) or not memory.calls(key):
                    continue
                failures += await self._mutate(invocation, review)
            except UnconvertedError as error:
                failures.append(_Failure(policy, None, f"failed to configure policy: {error}"))
            except EvaluationError as error:
                failures.append(_Failure(policy, binding, str(error), _INVALID))
                continue
            is_reinvoked = policy.spec.get("reinvocationPolicy") == "IfNeeded"
            memory = memory.called(key, changed=not same_json(review.obj, before), is_reinvoked=is_reinvoked)
        memory.remember(review, _NAME)
        failures = [one for one in failures if not one.policy.ignores_failures]
        if failures:
            raise _denied(review.attributes, failures)

    async def _conditions_hold(self, invocation: Invocation, review: MutatingReview) -> bool:
        conditions = invocation.policy.conditions
        return not conditions.expressions or conditions.hold(await self._evaluation(invocation, review))

    async def _evaluation(self, invocation: Invocation, review: MutatingReview) -> Evaluation:
        inputs = await inputs_of(review, invocation.kind, self.matcher.storage)
        variables = invocation.policy.variables
        return Evaluation(inputs, self.matcher.authorizer, params=invocation.params, variables=variables)

    async def _mutate(self, invocation: Invocation, review: MutatingReview) -> list[_Failure]:
        """Make the mutations of one policy, and return the failures; the other mutations are made nevertheless."""
        failures: list[_Failure] = []
        for mutation in invocation.policy.mutations:
            evaluation = await self._evaluation(invocation, review)
            obj = evaluation.inputs.obj
            if obj is None:
                break
            try:
                value = evaluation.evaluate(mutation.expression)
                if mutation.source.get("patchType") == "JSONPatch":
                    patched = apply_json_patch(obj, value)
                    _decode_strictly(invocation.kind, patched, review.version)
                else:
                    shape = _shape(invocation.kind, review.attributes.subresource, review.version)
                    patched = apply_configuration(obj, value, shape)
                await review.change(invocation.kind, patched)
            except (EvaluationError, PatchError) as error:
                failures.append(_Failure(invocation.policy, invocation.binding, str(error), _INVALID))
        return failures


def _decode_strictly(kind: Kind, patched: Manifest, version: str) -> None:
    """Refuse an object of a built-in kind that has fields which its kind has not, or values of another type.

    Raises:
        StatusError: 500.
    """
    if kind.custom is not None:
        return
    if unknown := [f'unknown field "{path}"' for path in kind.shape_in(version).unknown(patched)]:
        raise internal(f"strict decoding error: {', '.join(unknown)}")
    try:
        kind.shape.conform(copied(patched))
    except ValueError as error:
        raise internal(str(error)) from None


def _key(invocation: Invocation) -> str:
    metadata = (invocation.params or {}).get("metadata") or {}
    binding = "" if invocation.binding is None else invocation.binding.name
    return f"{invocation.policy.name}/{binding}/{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _shape(kind: Kind, subresource: str, served: str) -> Shape:
    """Return the fields of the objects that a request sends."""
    if subresource not in SUBRESOURCE_KINDS:
        return kind.shape_in(served)
    group, version, name = group_version_kind(kind, subresource)
    return encoded_shape(f"{group}/{version}" if group else version, name) or kind.shape


def _denied(attributes: AdmissionAttributes, failures: Sequence[_Failure]) -> StatusError:
    causes = [{"message": one.text} for one in failures]
    error = forbidden(attributes.requested.type, attributes.called, "", causes)
    return StatusError(403, failures[0].reason or error.reason, failures[0].text, details=error.details)
