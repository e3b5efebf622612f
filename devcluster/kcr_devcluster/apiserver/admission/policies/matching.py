"""Which requests a policy and its bindings apply to.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/matching/matching.go;
pkg/admission/plugin/policy/generic/{policy_dispatcher,policy_matcher}.go.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kcr_devcluster.apiserver.admission.objects import Review
from kcr_devcluster.apiserver.admission.policies.configurations import CompiledPolicy, Hook, Policies, PolicyBinding
from kcr_devcluster.apiserver.admission.policies.params import ConfigurationError, collect_params, param_kind
from kcr_devcluster.apiserver.admission.rules import matched_kind, selects_namespace, selects_object
from kcr_devcluster.apiserver.authorization import Authorizer
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.served import ServedIndex
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.replay import replay
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.storage.admission import AdmissionAttributes
from kcr_devcluster.apiserver.storage.storage import Storage


class Invocation(NamedTuple):
    """A policy that applies to a request, with a binding and a parameter.

    Attributes:
        policy: The policy.
        binding: The binding; None where the policy itself cannot be evaluated.
        kind: The kind in the version that the rules match.
        params: The parameter; None for none.
        error: Why it cannot be evaluated; empty where it can.
    """

    policy: CompiledPolicy
    binding: PolicyBinding | None
    kind: Kind
    params: Manifest | None = None
    error: str = ""


class PolicyMatcher:
    """Finds the policies of one kind that apply to a request.

    Attributes:
        policies: The policies.
        storage: The objects, for parameters and namespaces.
        authorizer: Decides whether a user may do something.
    """

    def __init__(self, policies: Policies, storage: Storage, served: ServedIndex, authorizer: Authorizer) -> None:
        self.policies = policies
        self.storage = storage
        self.authorizer = authorizer
        self._served = served

    @property
    def is_needed(self) -> bool:
        """Whether any policy is bound."""
        return self.policies.are_bound

    def concerns(self, attributes: AdmissionAttributes) -> bool:
        """Return whether the rules of a bound policy match a request; it may select fewer."""
        return self.is_needed and any(
            not (rules := (hook.policy.spec.get("matchConstraints") or {}).get("resourceRules"))
            or matched_kind(rules, attributes, self._served, is_exact=False) is not None
            for hook in self.policies.hooks()
        )

    async def invocations(self, review: Review) -> list[Invocation]:
        """Return the policies that apply, each with its bindings that apply, and their parameters."""
        applying: list[Invocation] = []
        for hook in self.policies.hooks():
            requested = review.attributes.requested
            try:
                kind = self._match(hook.policy.spec.get("matchConstraints") or {}, review)
                if kind is None:
                    continue
                params = param_kind(hook.policy.spec, self._served)
            except (StatusError, ConfigurationError) as error:
                said = f"failed to configure policy: {error}"
                applying.append(Invocation(hook.policy, None, requested, error=said))
                continue
            applying += await self._bound(hook, kind, params, review)
        return applying

    async def _bound(self, hook: Hook, kind: Kind, params: Kind | None, review: Review) -> list[Invocation]:
        applying: list[Invocation] = []
        for binding in hook.bindings:
            try:
                matched = binding.spec.get("matchResources")
                if matched is not None and self._match(matched, review) is None:
                    continue
                found = await self._params(params, binding, review.attributes.namespace)
            except (StatusError, ConfigurationError) as error:
                said = f"failed to configure binding: {error}"
                applying.append(Invocation(hook.policy, binding, kind, error=said))
                continue
            applying += [Invocation(hook.policy, binding, kind, one) for one in found]
        return applying

    async def _params(self, kind: Kind | None, binding: PolicyBinding, namespace: str) -> Sequence[Manifest | None]:
        async def collect() -> Sequence[Manifest | None]:
            # A webhook may convert them.
            return collect_params(kind, binding.spec.get("paramRef"), namespace, self.storage)

        return await replay(collect)

    def _match(self, matched: Manifest, review: Review) -> Kind | None:
        """Return the kind in the version that rules match, None where they do not match the request."""
        attributes, missing = review.attributes, None
        try:
            if not selects_namespace(matched.get("namespaceSelector") or {}, attributes, review.obj, self.storage):
                return None
        except StatusError as error:
            # It is the answer only where the rules match.
            missing = error
        if not selects_object(matched.get("objectSelector") or {}, review.obj, review.old):
            return None
        is_exact = matched.get("matchPolicy") == "Exact"
        excluded = _named(matched.get("excludeResourceRules"), attributes)
        if matched_kind(excluded, attributes, self._served, is_exact=is_exact) is not None:
            return None
        kind: Kind | None = attributes.requested
        if matched.get("resourceRules"):
            kind = matched_kind(
                _named(matched["resourceRules"], attributes), attributes, self._served, is_exact=is_exact
            )
        if kind is not None and missing is not None:
            raise missing
        return kind


def _named(rules: Sequence[Manifest] | None, attributes: AdmissionAttributes) -> list[Manifest]:
    """Return the rules for all names, and those for the name of the object."""
    named = ((rule, rule.get("resourceNames")) for rule in rules or ())
    return [rule for rule, names in named if not names or attributes.name in names]
