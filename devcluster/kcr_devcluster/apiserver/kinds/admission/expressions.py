"""Expressions of CEL in webhooks and policies: each is compiled when the object is written, as for its evaluation.

Source: kubernetes/pkg/apis/admissionregistration/validation/validation.go, validateCELCondition;
staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/{validating,mutating}/plugin.go, compilePolicy.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kcr_devcluster.apiserver.cel.admission import AdmissionExpression, Declarations, compile_admission
from kcr_devcluster.apiserver.cel.programs import NO_PROGRAM
from kcr_devcluster.apiserver.cel.syntax import CompilationError
from kcr_devcluster.apiserver.cel.types import DYN, CelType
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, invalid
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.extensions import Schema

# The uses of expressions, which decide their type and the variables that they may use.
MATCH_CONDITION, VARIABLE, VALIDATION = "matchCondition", "variable", "validation"
MESSAGE, AUDIT_ANNOTATION = "messageExpression", "auditAnnotation"
APPLY_CONFIGURATION, JSON_PATCH = "applyConfiguration", "jsonPatch"

# The types that the values of expressions may have, by purpose; a variable may have any.
_TYPES: Mapping[str, Sequence[str]] = {
    MATCH_CONDITION: ("bool",), VALIDATION: ("bool",), MESSAGE: ("string",), AUDIT_ANNOTATION: ("string", "null_type"),
    APPLY_CONFIGURATION: ("Object",), JSON_PATCH: ("list(JSONPatch)",), VARIABLE: (),
}  # fmt: skip
# Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/composition.go, convertCelTypeToDeclType.
_PLAIN_KINDS = frozenset({
    "any", "bool", "bytes", "double", "duration", "int", "null_type", "string", "timestamp", "uint",
})  # fmt: skip
_PATCHES = (APPLY_CONFIGURATION, JSON_PATCH, VARIABLE)


class Expression(NamedTuple):
    """An expression of CEL in a webhook or a policy.

    Attributes:
        text: The expression as compiled; upstream trims some.
        path: Its field, such as `spec.validations[0].expression`.
        purpose: One of the constants of this module.
        has_params: Whether `params` is declared.
        variables: The variables of the policy that are declared before it, each with `name` and `expression`.
    """

    text: str
    path: str
    purpose: str
    has_params: bool = False
    variables: tuple[Manifest, ...] = ()


def declarations(purpose: str, *, has_params: bool, variables: Mapping[str, CelType]) -> Declarations:
    """Return the variables that expressions may name.

    Args:
        purpose: One of the constants of this module.
        has_params: Whether the policy has a kind of parameters.
        variables: The types of the policy's variables; match conditions are evaluated without them.
    """
    if purpose == MATCH_CONDITION:
        variables = {}
    return Declarations(
        has_params=has_params,
        has_authorizer=purpose != MESSAGE,
        has_patches=purpose in _PATCHES,
        variables=variables if variables or purpose in _PATCHES else None,
    )


def compiled(
    text: str, purpose: str, *, has_params: bool = False, variables: Mapping[str, CelType] | None = None
) -> AdmissionExpression:
    """Compile an expression for its purpose.

    Raises:
        CompilationError: It does not compile, or has another type.
    """
    declared = declarations(purpose, has_params=has_params, variables=variables or {})
    return compile_admission(text, declared, _TYPES[purpose])


def compile_variables(
    variables: Sequence[Manifest], *, has_params: bool, schemas: Mapping[str, tuple[str, Schema]] | None = None
) -> dict[str, AdmissionExpression | CompilationError]:
    """Compile the variables of a policy, in order: each may use those before it.

    Args:
        variables: The variables.
        has_params: Whether the policy has a kind of parameters.
        schemas: The schemas of the objects, where their types are checked.

    Returns:
        By name, the expression, or why it does not compile.
    """
    texts = tuple((variable.get("name", ""), variable.get("expression", "")) for variable in variables)
    if schemas is not None:
        return _Variables(has_params, schemas).compiled(texts)
    # A policy has an expression after another compiled, each with the variables before it.
    if _last[0].has_params != has_params or not _last[0].starts_like(texts):
        _last[0] = _Variables(has_params, {})
    return _last[0].compiled(texts)


class _Variables:
    """The variables of one policy, each compiled once."""

    def __init__(self, has_params: bool, schemas: Mapping[str, tuple[str, Schema]]) -> None:
        self.has_params = has_params
        self._schemas = schemas
        self._texts: list[tuple[str, str]] = []
        self._compiled: list[AdmissionExpression | CompilationError] = []

    def starts_like(self, texts: Sequence[tuple[str, str]]) -> bool:
        """Return whether other variables are the same as far as both go."""
        return all(one == other for one, other in zip(self._texts, texts, strict=False))

    def compiled(self, texts: Sequence[tuple[str, str]]) -> dict[str, AdmissionExpression | CompilationError]:
        """Return variables that start like these, compiled."""
        found = {name: one for (name, _), one in zip(texts, self._compiled, strict=False)}
        for name, text in texts[len(self._texts) :]:
            known = declarations(VARIABLE, has_params=self.has_params, variables=types_of(found))
            try:
                found[name] = compile_admission(text, known._replace(schemas=self._schemas))
            except CompilationError as error:
                found[name] = error
            self._texts.append((name, text))
            self._compiled.append(found[name])
        return found


_last = [_Variables(False, {})]


def types_of(variables: Mapping[str, AdmissionExpression | CompilationError]) -> dict[str, CelType]:
    """Return the types of compiled variables; one that does not compile has any type."""
    return {name: DYN if isinstance(one, CompilationError) else _kept(one.type) for name, one in variables.items()}


def _kept(of: CelType) -> CelType:
    """Return the type of a variable as its users see it: of types with parameters, lists and maps alone are known."""
    if of.kind in ("list", "map"):
        return of._replace(parameters=tuple(map(_kept, of.parameters)))
    return of if of.kind in _PLAIN_KINDS else DYN


def compile_errors(expression: Expression) -> list[FieldError]:
    """Return the field errors of an expression that does not compile."""
    variables = compile_variables(expression.variables, has_params=expression.has_params)
    try:
        compiled(expression.text, expression.purpose, has_params=expression.has_params, variables=types_of(variables))
    except CompilationError as error:
        if str(error).startswith(NO_PROGRAM):
            # Types and literals are in order: upstream takes what remains for a fault of its own.
            return [FieldError(expression.path, "InternalError", "Internal error", detail=str(error))]
        return [invalid(expression.path, expression.text, str(error))]
    return []
