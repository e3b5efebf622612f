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
        variables: The types of the policy's variables that are declared before it.
    """

    text: str
    path: str
    purpose: str
    has_params: bool = False
    variables: Mapping[str, CelType] = {}


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
    variables: Sequence[Manifest], *, has_params: bool, schemas: Mapping[str, tuple[str, Schema]] = {}
) -> dict[str, AdmissionExpression | CompilationError]:
    """Compile the variables of a policy, in order: each may use those before it.

    Args:
        variables: The variables.
        has_params: Whether the policy has a kind of parameters.
        schemas: The schemas of the objects, where their types are checked.

    Returns:
        By name, the expression, or why it does not compile.
    """
    found: dict[str, AdmissionExpression | CompilationError] = {}
    for variable in variables:
        name, text = variable.get("name", ""), variable.get("expression", "")
        known = declarations(VARIABLE, has_params=has_params, variables=types_of(found))
        try:
            found[name] = compile_admission(text, known._replace(schemas=schemas))
        except CompilationError as error:
            found[name] = error
    return found


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
    text, path, purpose, has_params, variables = expression
    try:
        compiled(text, purpose, has_params=has_params, variables=variables)
    except CompilationError as error:
        return [field_error(text, path, error)]
    return []


def field_error(text: str, path: str, error: CompilationError) -> FieldError:
    """Return the field error of an expression that does not compile.

    Args:
        text: The expression.
        path: Its field.
        error: Why it does not compile.
    """
    if str(error).startswith(NO_PROGRAM):
        # Types and literals are in order: upstream takes what remains for a fault of its own.
        return FieldError(path, "InternalError", "Internal error", detail=str(error))
    return invalid(path, text, str(error))
