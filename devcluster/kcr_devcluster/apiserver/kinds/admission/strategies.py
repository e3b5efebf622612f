"""The common base of the strategies of admissionregistration.k8s.io, above all the checks of expressions.

The strategies check what is said about expressions: that they are there, unique and not too many. To compile one, the
types of the kinds that a policy matches must be known, so a strategy of a floor above this one overrides
`compile_errors`, see `Kind.set_strategy`; it gets each expression in upstream's order, so that the compiler's errors
stand where they stand upstream.

Source: kubernetes/pkg/apis/admissionregistration/validation/validation.go, validateMatchConditions, validateVariable;
static_suffix.go; pkg/registry/admissionregistration/*/strategy.go.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, duplicate, invalid, required, too_many
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import qualified_name

# What expressions are for: this decides their type and the variables that they may use.
MATCH_CONDITION, VARIABLE, VALIDATION = "matchCondition", "variable", "validation"
MESSAGE, AUDIT_ANNOTATION = "messageExpression", "auditAnnotation"
APPLY_CONFIGURATION, JSON_PATCH = "applyConfiguration", "jsonPatch"

_STATIC_SUFFIX = ".static.k8s.io"
_MOST_CONDITIONS = 64
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = (
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
)  # fmt: skip


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


# Returns the field errors of an expression that does not compile.
Compile = Callable[[Expression], list[FieldError]]


class AdmissionStrategy(Strategy):
    """All six kinds: the generation counts the changes of the rules, and names for files of the server are reserved."""

    has_generation = True

    def compile_errors(self, expression: Expression) -> list[FieldError]:
        """Return the field errors of an expression that does not compile; here every expression is accepted.

        Called for each expression that is not empty, on create and on update, in the order of upstream's errors.

        Args:
            expression: Its text, field and purpose, and the variables that it may use.
        """
        return []

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return that a name will be reserved for the configuration that API servers read from files."""
        if not str(new["metadata"].get("name", "")).endswith(_STATIC_SUFFIX):
            return []
        words = (
            f'names ending with "{_STATIC_SUFFIX}" will be reserved for static manifest-based configurations when the'
        )
        return [f"metadata.name: {words} ManifestBasedAdmissionControlConfig feature gate is enabled"]


def check_match_conditions(
    conditions: Sequence[Manifest], path: str, has_params: bool, compile_errors: Compile
) -> Iterator[FieldError]:
    """Yield the field errors of match conditions: at most 64, with names that differ."""
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many(path, len(conditions), _MOST_CONDITIONS)
    names: set[str] = set()
    for position, condition in enumerate(conditions):
        place, name = f"{path}[{position}]", condition.get("name", "")
        text = condition.get("expression", "").strip()
        if text:
            yield from compile_errors(Expression(text, f"{place}.expression", MATCH_CONDITION, has_params))
        else:
            yield required(f"{place}.expression")
        if not name:
            yield required(f"{place}.name")
            continue
        yield from (invalid(f"{place}.name", name, reason) for reason in qualified_name(name))
        if name in names:
            yield duplicate(f"{place}.name", name)
        names.add(name)


def check_variables(
    variables: Sequence[Manifest], path: str, has_params: bool, compile_errors: Compile
) -> Iterator[FieldError]:
    """Yield the field errors of the variables of a policy; each may use those before it."""
    for position, variable in enumerate(variables):
        place, name, text = f"{path}[{position}]", variable.get("name", ""), variable.get("expression", "")
        if not name.strip():
            yield required(f"{place}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
            yield invalid(f"{place}.name", name, "name is not a valid CEL identifier")
        if not text.strip():
            yield required(f"{place}.expression", "expression is not specified")
        else:
            known = tuple(variables[:position])
            yield from compile_errors(Expression(text, f"{place}.expression", VARIABLE, has_params, known))
