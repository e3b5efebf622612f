"""The common base of the strategies of admissionregistration.k8s.io, above all the checks of expressions.

The strategies check that expressions exist, are unique and not too many, and compile each in upstream's order.

Source: kubernetes/pkg/apis/admissionregistration/validation/validation.go, validateMatchConditions, validateVariable;
static_suffix.go; pkg/registry/admissionregistration/*/strategy.go.
"""

import re
from collections.abc import Generator, Iterator, Sequence

from kcr_devcluster.apiserver.cel.admission import AdmissionExpression
from kcr_devcluster.apiserver.cel.syntax import CompilationError
from kcr_devcluster.apiserver.cel.types import CelType
from kcr_devcluster.apiserver.kinds.admission.expressions import (
    MATCH_CONDITION,
    VARIABLE,
    Expression,
    compile_errors,
    compiled,
    field_error,
    types_of,
)
from kcr_devcluster.apiserver.kinds.strategy import Strategy
from kcr_devcluster.apiserver.protocol.field_errors import FieldError, duplicate, invalid, required, too_many
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.protocol.names import qualified_name

_STATIC_SUFFIX = ".static.k8s.io"
_MOST_CONDITIONS = 64
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = (
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
)  # fmt: skip


class AdmissionStrategy(Strategy):
    """All six kinds: the generation counts the changes of the rules, and names for files of the server are reserved."""

    has_generation = True

    def warnings(self, new: Manifest, old: Manifest | None) -> list[str]:
        """Return the warning of a name that is reserved for configurations in files."""
        if not str(new["metadata"].get("name", "")).endswith(_STATIC_SUFFIX):
            return []
        words = (
            f'names ending with "{_STATIC_SUFFIX}" will be reserved for static manifest-based configurations when the'
        )
        return [f"metadata.name: {words} ManifestBasedAdmissionControlConfig feature gate is enabled"]


def check_match_conditions(conditions: Sequence[Manifest], path: str, has_params: bool) -> Iterator[FieldError]:
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
    variables: Sequence[Manifest], path: str, has_params: bool
) -> Generator[FieldError, None, dict[str, CelType]]:
    """Yield the field errors of the variables of a policy, and return their types; each may use those before it."""
    types: dict[str, CelType] = {}
    for position, variable in enumerate(variables):
        place, name, text = f"{path}[{position}]", variable.get("name", ""), variable.get("expression", "")
        if not name.strip():
            yield required(f"{place}.name", "name is not specified")
        elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
            yield invalid(f"{place}.name", name, "must be a valid CEL identifier")
        found: AdmissionExpression | CompilationError
        try:
            found = compiled(text, VARIABLE, has_params=has_params, variables=types)
        except CompilationError as error:
            found = error
        if not text.strip():
            yield required(f"{place}.expression", "expression is not specified")
        elif isinstance(found, CompilationError):
            yield field_error(text, f"{place}.expression", found)
        types |= types_of({name: found})
    return types
