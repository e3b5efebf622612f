"""The plugins of policies, their places in the chain of admission, and the match conditions of webhooks.

Source: kubernetes/pkg/kubeapiserver/options/plugins.go, AllOrderedPlugins; staging/src/k8s.io/apiserver/pkg/admission/
plugin/webhook/generic/webhook.go, ShouldCallHook.
"""

from functools import lru_cache

from kcr_devcluster.apiserver.admission.caller import WebhookCaller
from kcr_devcluster.apiserver.admission.chain import Admission
from kcr_devcluster.apiserver.admission.configurations import Webhook
from kcr_devcluster.apiserver.admission.matching import MatchConditions
from kcr_devcluster.apiserver.admission.objects import Review
from kcr_devcluster.apiserver.admission.policies.configurations import Policies
from kcr_devcluster.apiserver.admission.policies.evaluation import Compiled, Conditions, Evaluation, inputs_of
from kcr_devcluster.apiserver.admission.policies.matching import PolicyMatcher
from kcr_devcluster.apiserver.admission.policies.mutating import MutatingPolicies
from kcr_devcluster.apiserver.admission.policies.validating import ValidatingPolicies
from kcr_devcluster.apiserver.authorization import Authorizer
from kcr_devcluster.apiserver.cel.syntax import CompilationError
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.kinds.admission.expressions import MATCH_CONDITION, compiled
from kcr_devcluster.apiserver.kinds.catalogue import (
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
)
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.served import ServedIndex
from kcr_devcluster.apiserver.protocol.responses import forbidden
from kcr_devcluster.apiserver.storage.admission import AdmissionContext
from kcr_devcluster.apiserver.storage.storage import Storage


def make_admission(
    context: AdmissionContext, served: ServedIndex, authorizer: Authorizer, caller: WebhookCaller | None
) -> Admission:
    """Return the chain of a server: policies are evaluated before webhooks are called.

    Args:
        context: The objects, the time and randomness.
        served: The kinds that are served.
        authorizer: Decides whether a user may do something.
        caller: The connections to webhooks; None for none.
    """
    storage = context.storage

    def matcher(policies: Kind, bindings: Kind) -> PolicyMatcher:
        return PolicyMatcher(Policies(storage, policies, bindings), storage, served, authorizer)

    mutating = MutatingPolicies(matcher(MUTATING_POLICIES, MUTATING_POLICY_BINDINGS))
    validating = ValidatingPolicies(matcher(VALIDATING_POLICIES, VALIDATING_POLICY_BINDINGS))
    return Admission(context, served, _match_conditions(storage, authorizer), (mutating, validating), caller)


def _match_conditions(storage: Storage, authorizer: Authorizer) -> MatchConditions:
    """Return the function that evaluates the match conditions of webhooks.

    Args:
        storage: The objects, for the namespace of a request.
        authorizer: Decides whether a user may do something.
    """

    async def hold(webhook: Webhook, review: Review, kind: Kind) -> bool:
        expressions = [_compiled(one.get("expression", "").strip()) for one in webhook.match_conditions]
        evaluation = Evaluation(await inputs_of(review, kind, storage), authorizer)
        try:
            return Conditions(expressions, webhook.ignores_failures).hold(evaluation)
        except EvaluationError as error:
            attributes = review.attributes
            raise forbidden(attributes.requested.type, attributes.name, str(error)) from None

    return hold


@lru_cache(1024)
def _compiled(text: str) -> Compiled:
    try:
        return compiled(text, MATCH_CONDITION)
    except CompilationError as error:
        return error
