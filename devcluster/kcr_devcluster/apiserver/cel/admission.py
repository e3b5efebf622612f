"""Expressions of admission: of policies and of the match conditions of webhooks.

Their objects may be of any kind, so `object`, `oldObject` and `params` have any type, unless a check of types gives
their schemas.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/{compile,composition,activation}.go;
pkg/cel/mutation/typeresolver.go.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.cel.checker import Environment
from kcr_devcluster.apiserver.cel.declared import Declared, DeclaredTypes, declared
from kcr_devcluster.apiserver.cel.metering import Budget, Metered, compile_program
from kcr_devcluster.apiserver.cel.rules import compiled
from kcr_devcluster.apiserver.cel.steps import CostExceededError
from kcr_devcluster.apiserver.cel.syntax import CompilationError
from kcr_devcluster.apiserver.cel.types import DYN, CelType, parsed_type
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.schema.extensions import Schema

_AUTHORIZER, _RESOURCE = "authorizer", "authorizer.requestResource"
_VARIABLES = "variables"
_TEXTS = "list(string)"
_LABELS = "map(string, string)"
_METADATA: Mapping[str, str] = {
    **dict.fromkeys(("name", "generateName", "namespace", "UID", "resourceVersion"), "string"),
    **dict.fromkeys(("labels", "annotations"), _LABELS),
    **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), "timestamp"),
    **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), "int"), "finalizers": _TEXTS,
}  # fmt: skip
_CONDITION: Mapping[str, str] = {
    **dict.fromkeys(("status", "type", "message", "reason"), "string"), "lastTransitionTime": "timestamp",
}  # fmt: skip
_REQUEST: Mapping[str, str] = {
    **dict.fromkeys(("kind", "requestKind"), "kubernetes.GroupVersionKind"),
    **dict.fromkeys(("resource", "requestResource"), "kubernetes.GroupVersionResource"),
    **dict.fromkeys(("subResource", "requestSubResource", "name", "namespace", "operation"), "string"),
    "userInfo": "kubernetes.UserInfo", "dryRun": "bool", "options": "dyn",
}  # fmt: skip
_FIELDS: Mapping[str, Mapping[str, str]] = {
    "kubernetes.GroupVersionKind": dict.fromkeys(("group", "version", "kind"), "string"),
    "kubernetes.GroupVersionResource": dict.fromkeys(("group", "version", "resource"), "string"),
    "kubernetes.UserInfo": {
        "username": "string", "uid": "string", "groups": _TEXTS, "extra": f"map(string, {_TEXTS})",
    },
    "kubernetes.AdmissionRequest": _REQUEST,
    "kubernetes.Namespace": {
        "metadata": "kubernetes.NamespaceMetadata", "spec": "kubernetes.NamespaceSpec",
        "status": "kubernetes.NamespaceStatus",
    },
    "kubernetes.NamespaceMetadata": _METADATA, "kubernetes.NamespaceSpec": {"finalizers": _TEXTS},
    "kubernetes.NamespaceStatus": {"conditions": "list(kubernetes.NamespaceCondition)", "phase": "string"},
    "kubernetes.NamespaceCondition": _CONDITION,
    **{f"kubernetes.authorization.{name}": {} for name in (
        "Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision",
    )},
}  # fmt: skip
_FIXED: Mapping[str, Mapping[str, CelType]] = {
    name: {field: parsed_type(of) for field, of in fields.items()} for name, fields in _FIELDS.items()
}


class Declarations(NamedTuple):
    """The variables that an expression may name, beside `object`, `oldObject`, `request` and `namespaceObject`.

    Attributes:
        has_params: Whether there is `params`.
        has_authorizer: Whether there is `authorizer`.
        has_patches: Whether the types of patches, `Object` and `JSONPatch`, are declared.
        variables: The types of `variables`, by their names; None for no variables.
        schemas: The names of the types of `object`, `oldObject` and `params`, and their schemas, where they are known.
    """

    has_params: bool = False
    has_authorizer: bool = True
    has_patches: bool = False
    variables: Mapping[str, CelType] | None = None
    schemas: Mapping[str, tuple[str, Schema]] = {}

    def environment(self) -> tuple[Environment, DeclaredTypes]:
        """Return what the expression may name."""
        of_schemas = self._of_schemas()
        names = ("object", "oldObject", *(("params",) if self.has_params else ()))
        variables = {name: of_schemas[name].type if name in of_schemas else DYN for name in names}
        variables["request"] = parsed_type("kubernetes.AdmissionRequest")
        variables["namespaceObject"] = parsed_type("kubernetes.Namespace")
        if self.has_authorizer:
            variables[_AUTHORIZER] = parsed_type("kubernetes.authorization.Authorizer")
            variables[_RESOURCE] = parsed_type("kubernetes.authorization.ResourceCheck")
        fixed = dict(_FIXED)
        if self.variables is not None:
            variables[_VARIABLES] = CelType("struct", "kubernetes.variables")
            fixed["kubernetes.variables"] = self.variables
        types = DeclaredTypes(of_schemas, fixed=fixed, constructs=self.has_patches)
        return Environment(variables, types), types

    def _of_schemas(self) -> dict[str, Declared]:
        found = {name: declared(schema, is_root=True, name=of) for name, (of, schema) in self.schemas.items()}
        return {name: one for name, one in found.items() if one is not None}


class AdmissionExpression(NamedTuple):
    """A compiled expression.

    Attributes:
        text: The expression.
        type: The type of its value.
        program: Its program.
    """

    text: str
    type: CelType
    program: Metered

    def evaluate(self, data: Mapping[str, Any], budget: Budget) -> Any:
        """Return the expression's value.

        Args:
            data: The values of all declared variables.
            budget: What it may cost.

        Raises:
            EvaluationError: It has none.
            OutOfBudgetError: It takes too long together with others.
            UnmeteredError: It may do so.
        """
        names = self.program.program.variables
        try:
            return budget.evaluate(self.program, [data.get(name) for name in names])
        except CostExceededError as error:
            raise EvaluationError(str(error)) from None


class LazyVariables(dict[str, Any]):
    """The variables of a policy, each evaluated when it is first read.

    Args:
        names: The names of the variables.
        read: Returns the value of one; raises `EvaluationError`.
    """

    def __init__(self, names: Sequence[str], read: Callable[[str], Any]) -> None:
        super().__init__(dict.fromkeys(names, self))
        self._read = read

    def __getitem__(self, name: str) -> Any:
        """Return the value of a variable."""
        found = super().__getitem__(name)
        if found is self:
            found = self[name] = self._read(name)
        return found


def compile_admission(text: str, declarations: Declarations, wanted: Sequence[str] = ()) -> AdmissionExpression:
    """Compile an expression.

    Args:
        text: The expression.
        declarations: The variables that it may name.
        wanted: The types that its value may have, such as `bool` or `list(JSONPatch)`; empty for any.

    Raises:
        CompilationError: It is no expression, or has another type.
    """
    environment, types = declarations.environment()
    try:
        checked = compiled(text, environment)
    except CompilationError as error:
        raise CompilationError(f"compilation failed: {error}") from None
    if wanted and _written(checked.result) not in wanted:
        one_of = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
        raise CompilationError(f"must evaluate to {one_of} but got {_written(checked.result)}")
    return AdmissionExpression(text, checked.result, compile_program(checked, types))


def _written(of: CelType) -> str:
    """Return a type as Go writes it in these messages, in which null has another name than in others."""
    names = {"null_type": "null_type", "timestamp": "google.protobuf.Timestamp", "duration": "google.protobuf.Duration"}
    return names.get(of.kind, str(of))
