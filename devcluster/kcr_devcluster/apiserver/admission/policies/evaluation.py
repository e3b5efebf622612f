"""One evaluation: the values of the variables that the expressions of a policy name.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/{activation,composition,condition}.go,
CreateAdmissionRequest and CreateNamespaceObject.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.admission.objects import Review
from kcr_devcluster.apiserver.admission.review import request_head
from kcr_devcluster.apiserver.authentication import User, service_account_groups
from kcr_devcluster.apiserver.authentication.users import AUTHENTICATED
from kcr_devcluster.apiserver.authorization import Authorizer
from kcr_devcluster.apiserver.authorization.attributes import Attributes
from kcr_devcluster.apiserver.cel.admission import AdmissionExpression, LazyVariables
from kcr_devcluster.apiserver.cel.libraries import authorizer as questions
from kcr_devcluster.apiserver.cel.metering import UNLIMITED, Budget, size_of
from kcr_devcluster.apiserver.cel.syntax import CompilationError
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.kinds.catalogue import NAMESPACES
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.responses import StatusError
from kcr_devcluster.apiserver.storage.admission import CONNECT, AdmissionAttributes
from kcr_devcluster.apiserver.storage.storage import Storage

# An expression of a stored policy, or why it does not compile.
Compiled = AdmissionExpression | CompilationError
_NAMESPACE_FIELDS = (
    "name", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
)  # fmt: skip


class Inputs(NamedTuple):
    """The objects that expressions are evaluated for.

    Attributes:
        attributes: The request.
        kind: The kind in the version that the rules match.
        obj: The new object in that version, None for a DELETE.
        old: The old object, None for a CREATE.
        namespace: The namespace of the request, None for the cluster scope.
    """

    attributes: AdmissionAttributes
    kind: Kind
    obj: Manifest | None
    old: Manifest | None
    namespace: Manifest | None


class UnconvertedError(Exception):
    """The objects of a review cannot be converted to the version that the rules match."""


async def inputs_of(review: Review, kind: Kind, storage: Storage) -> Inputs:
    """Return the objects of a review in a version.

    Raises:
        UnconvertedError: The webhook that converts them failed.
    """
    try:
        obj, old = await review.versioned(kind)
    except StatusError as error:
        raise UnconvertedError(str(error)) from None
    return Inputs(review.attributes, kind, obj, old, _namespace(review.attributes, storage))


def _namespace(attributes: AdmissionAttributes, storage: Storage) -> Manifest | None:
    # A namespace that is written is in none.
    if not attributes.namespace or attributes.kind is NAMESPACES:
        return None
    record = storage.get(NAMESPACES, "", attributes.namespace)
    if record is None:
        return None
    found = record.manifest()
    metadata = {name: found["metadata"][name] for name in _NAMESPACE_FIELDS if name in found["metadata"]}
    return {**found, "metadata": metadata}


def _request(inputs: Inputs) -> Manifest:
    """Return the variable `request`."""
    attributes, user = inputs.attributes, inputs.attributes.user
    return {
        **request_head(attributes, inputs.kind),
        "userInfo": {} if user is None else _user_info(user),
        "dryRun": attributes.dry_run,
        "options": None if attributes.operation == CONNECT else dict(attributes.options),
    }


def _user_info(user: User) -> Manifest:
    info = user.info
    if "groups" in info:
        info["groups"] = list(info["groups"])
    if "extra" in info:
        info["extra"] = {name: list(values) for name, values in info["extra"].items()}
    return info


class Evaluation:
    """Evaluates expressions for the same objects; a variable is evaluated once, when an expression first needs it.

    Attributes:
        inputs: The request and its objects.
    """

    def __init__(
        self,
        inputs: Inputs,
        authorizer: Authorizer,
        *,
        params: Manifest | None = None,
        variables: Mapping[str, Compiled] | None = None,
    ) -> None:
        """Evaluate for a request.

        Args:
            inputs: The request and its objects.
            authorizer: Decides whether a user may do something.
            params: The parameters of the binding, None for none.
            variables: The variables of the policy.
        """
        self.inputs: Inputs = inputs
        self._authorizer = authorizer
        self._budget = Budget(UNLIMITED, size_of(inputs.obj, inputs.old, params))
        self._variables = variables or {}
        self._data: dict[str, Any] = {
            "object": inputs.obj, "oldObject": inputs.old, "params": params, "request": _request(inputs),
            "namespaceObject": inputs.namespace, "variables": LazyVariables(tuple(self._variables), self._variable),
            "authorizer": questions.Authorizer(self._authorize),
            "authorizer.requestResource": questions.ResourceCheck(self._authorize, self._resource_of_request()),
        }  # fmt: skip

    def evaluate(self, expression: Compiled) -> Any:
        """Return the value of an expression.

        Raises:
            EvaluationError: It has none; the message is upstream's.
        """
        if isinstance(expression, CompilationError):
            raise EvaluationError(f"compilation error: {expression}")
        try:
            return expression.evaluate(self._data, self._budget)
        except EvaluationError as error:
            raise EvaluationError(f"expression '{expression.text}' resulted in error: {error}") from None

    def _resource_of_request(self) -> dict[str, str]:
        attributes = self.inputs.attributes
        return {
            "group": attributes.requested.type.group, "resource": attributes.requested.type.plural,
            "subresource": attributes.subresource, "namespace": attributes.namespace, "name": attributes.name,
        }  # fmt: skip

    def _variable(self, name: str) -> Any:
        variable = self._variables[name]
        if isinstance(variable, CompilationError):
            raise EvaluationError(f'composited variable "{name}" fails to compile: {variable}')
        try:
            return variable.evaluate(self._data, self._budget)
        except EvaluationError as error:
            raise EvaluationError(f'composited variable "{name}" fails to evaluate: {error}') from None

    def _authorize(self, wanted: Mapping[str, str]) -> questions.Decision:
        """Return whether the user of the request, or a service account, may do something, and why."""
        namespace, _, account = wanted.get("serviceAccount", "").partition(":")
        user = self.inputs.attributes.user or User("")
        if account:
            groups = (*service_account_groups(namespace), AUTHENTICATED)
            user = User(f"system:serviceaccount:{namespace}:{account}", groups=groups)
        known = {name: wanted[name] for name in Attributes._fields if name in wanted}
        decision = self._authorizer.authorize(user, Attributes(**known))
        return questions.Decision(decision.is_allowed, decision.reason)


class Conditions(NamedTuple):
    """The match conditions of a policy or a webhook, compiled."""

    expressions: Sequence[Compiled]
    ignores_failures: bool

    def hold(self, evaluation: Evaluation) -> bool:
        """Return whether a request is reviewed: one condition that is false outweighs others that fail.

        Raises:
            EvaluationError: Some cannot be evaluated, and the failure policy is not to ignore that.

        Source: pkg/admission/plugin/webhook/matchconditions/matcher.go, Match.
        """
        errors: list[str] = []
        for expression in self.expressions:
            try:
                if evaluation.evaluate(expression) is False:
                    return False
            except EvaluationError as error:
                errors.append(str(error))
        if errors and not self.ignores_failures:
            distinct = list(dict.fromkeys(errors))
            raise EvaluationError(distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]")
        return not errors
