"""The policies of one kind with their bindings, compiled once per version of the policy.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go;
pkg/admission/plugin/policy/{validating,mutating}/plugin.go, compilePolicy.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kcr_devcluster.apiserver.admission.policies.evaluation import Compiled, Conditions
from kcr_devcluster.apiserver.cel.syntax import CompilationError
from kcr_devcluster.apiserver.cel.types import CelType
from kcr_devcluster.apiserver.kinds.admission.expressions import (
    APPLY_CONFIGURATION,
    AUDIT_ANNOTATION,
    JSON_PATCH,
    MATCH_CONDITION,
    MESSAGE,
    VALIDATION,
    compile_variables,
    compiled,
    types_of,
)
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.storage.records import Record
from kcr_devcluster.apiserver.storage.storage import Storage

_PATCHES = {"ApplyConfiguration": APPLY_CONFIGURATION, "JSONPatch": JSON_PATCH}


class PolicyBinding(NamedTuple):
    """A binding of a policy."""

    name: str
    spec: Manifest


class PolicyExpression(NamedTuple):
    """A validation, an audit annotation or a mutation of a policy, compiled.

    Attributes:
        source: As the policy has it.
        expression: Its expression.
        message: Its message expression; None without one.
    """

    source: Manifest
    expression: Compiled
    message: Compiled | None = None


class CompiledPolicy:
    """A policy, compiled.

    Attributes:
        name: Its name.
        spec: Its spec.
        conditions: Its match conditions.
        variables: Its variables.
        validations: Its validations.
        annotations: Its audit annotations.
        mutations: Its mutations.
    """

    def __init__(self, record: Record) -> None:
        self.name: str = record.metadata.name
        self.spec: Manifest = record.manifest().get("spec") or {}
        has_params = self.spec.get("paramKind") is not None
        self.variables = compile_variables(self.spec.get("variables") or (), has_params=has_params)
        self._types = types_of(self.variables)
        conditions = [self._compiled(one, "expression", MATCH_CONDITION) for one in self._list("matchConditions")]
        self.conditions: Conditions = Conditions(conditions, self.ignores_failures)
        self.validations = [
            PolicyExpression(
                one,
                self._compiled(one, "expression", VALIDATION),
                self._compiled(one, "messageExpression", MESSAGE) if one.get("messageExpression") else None,
            )
            for one in self._list("validations")
        ]
        self.annotations = [
            PolicyExpression(one, self._compiled(one, "valueExpression", AUDIT_ANNOTATION))
            for one in self._list("auditAnnotations")
        ]
        self.mutations = [self._mutation(one) for one in self._list("mutations")]

    @property
    def ignores_failures(self) -> bool:
        """Whether a request is admitted where the policy cannot be evaluated (`failurePolicy: Ignore`)."""
        return bool(self.spec.get("failurePolicy") == "Ignore")

    def _list(self, member: str) -> Sequence[Manifest]:
        return self.spec.get(member) or ()

    def _mutation(self, mutation: Manifest) -> PolicyExpression:
        purpose = _PATCHES[mutation.get("patchType", "")]
        return PolicyExpression(mutation, self._compiled(mutation.get(purpose) or {}, "expression", purpose))

    def _compiled(self, owner: Manifest, member: str, purpose: str) -> Compiled:
        return _compiled(owner.get(member, ""), purpose, self.spec.get("paramKind") is not None, self._types)


def _compiled(text: str, purpose: str, has_params: bool, variables: dict[str, CelType]) -> Compiled:
    try:
        return compiled(text, purpose, has_params=has_params, variables=variables)
    except CompilationError as error:
        return error


class Hook(NamedTuple):
    """A policy with its bindings."""

    policy: CompiledPolicy
    bindings: Sequence[PolicyBinding]


class Policies:
    """The policies of one kind, each with its bindings."""

    def __init__(self, storage: Storage, policies: Kind, bindings: Kind) -> None:
        self._policies, self._bindings = storage.cache(policies), storage.cache(bindings)
        # The records that the hooks were read from; a change of any makes a new record.
        self._read: tuple[Record, ...] = ()
        self._hooks: tuple[Hook, ...] = ()
        # By record: a change of a binding compiles no policy.
        self._compiled: dict[Record, CompiledPolicy] = {}

    @property
    def are_bound(self) -> bool:
        """Whether there are any, with bindings."""
        return bool(self._policies.records and self._bindings.records)

    def hooks(self) -> tuple[Hook, ...]:
        """Return the policies that have bindings, and their bindings, by their names."""
        policies, bindings = tuple(self._policies.records.values()), tuple(self._bindings.records.values())
        if (read := (*policies, *bindings)) != self._read:
            self._hooks, self._read = self._bound(policies, bindings), read
        return self._hooks

    def _bound(self, policies: Sequence[Record], bindings: Sequence[Record]) -> tuple[Hook, ...]:
        by_policy: dict[str, list[PolicyBinding]] = {}
        for record in sorted(bindings, key=lambda one: one.metadata.name):
            spec = record.manifest().get("spec") or {}
            by_policy.setdefault(spec.get("policyName", ""), []).append(PolicyBinding(record.metadata.name, spec))
        bound = sorted((one for one in policies if one.metadata.name in by_policy), key=lambda one: one.metadata.name)
        self._compiled = {one: self._compiled.get(one) or CompiledPolicy(one) for one in bound}
        return tuple(Hook(policy, by_policy[policy.name]) for policy in self._compiled.values())
