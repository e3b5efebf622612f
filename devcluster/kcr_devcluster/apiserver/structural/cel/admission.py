"""Expressions of admission: of policies and of the match conditions of webhooks.

Their objects may be of any kind, so `object`, `oldObject` and `params` have any type, unless a check of types gives
their schemas. The library compiles every expression twice: with the check of types, which finds its errors, and without
it, for the evaluation of its rewritten syntax tree.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/cel/{compile,composition,activation}.go.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.structural.cel.analysis import DYN, analyse, error_at
from kcr_devcluster.apiserver.structural.cel.expressions import (
    OVER_BUDGET,
    CompilationError,
    EvaluationError,
    in_words_of_cel_go,
    is_fit,
)
from kcr_devcluster.apiserver.structural.cel.library import (
    FOR_EVALUATION,
    LIBRARIES,
    OPTIONAL_VERSION,
    STRINGS_VERSION,
    extension,
    kubernetes_functions,
    library_type,
    map_functions,
)
from kcr_devcluster.apiserver.structural.cel.syntax_tree import EVALUATION, VARIABLES, constructed_type, rewritten
from kcr_devcluster.apiserver.structural.cel.values import type_of
from kcr_devcluster.apiserver.structural.shapes import Schema

_ERROR = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*?)(?=\nERROR: <input>:|\Z)", re.DOTALL)
# The library does not know the types of constructed objects, and refuses them only.
_CONSTRUCTED = re.compile(r"undeclared reference to '(?:Object(?:\.\w+)*|JSONPatch)' ")
_UNDECLARED_FIELD = re.compile(r"(?<=undeclared reference to ')(\w+)\.[\w.]+")
_TEXT: Schema = {"type": "string"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_INTEGER: Schema = {"type": "integer"}
_MOMENT: Schema = {"type": "string", "format": "date-time"}
_MAP: Schema = {"type": "object", "additionalProperties": _TEXT}


def _object(**fields: Schema) -> Schema:
    return {"type": "object", "properties": fields}


def _names(last: str) -> Schema:
    return _object(**dict.fromkeys(("group", "version", last), _TEXT))


# Source: compile.go, BuildRequestType and BuildNamespaceType.
REQUEST: Schema = _object(
    kind=_names("kind"), resource=_names("resource"), subResource=_TEXT, requestKind=_names("kind"),
    requestResource=_names("resource"), requestSubResource=_TEXT, name=_TEXT, namespace=_TEXT, operation=_TEXT,
    userInfo=_object(
        username=_TEXT, uid=_TEXT, groups=_TEXTS, extra={"type": "object", "additionalProperties": _TEXTS},
    ),
    dryRun={"type": "boolean"}, options={},
)  # fmt: skip
NAMESPACE: Schema = _object(
    metadata=_object(
        name=_TEXT, generateName=_TEXT, namespace=_TEXT, labels=_MAP, annotations=_MAP, UID=_TEXT,
        creationTimestamp=_MOMENT, deletionGracePeriodSeconds=_INTEGER, deletionTimestamp=_MOMENT, generation=_INTEGER,
        resourceVersion=_TEXT, finalizers=_TEXTS,
    ),
    spec=_object(finalizers=_TEXTS),
    status=_object(
        conditions={
            "type": "array",
            "items": _object(status=_TEXT, type=_TEXT, lastTransitionTime=_MOMENT, message=_TEXT, reason=_TEXT),
        },
        phase=_TEXT,
    ),
)  # fmt: skip


class Declarations(NamedTuple):
    """The variables that an expression may name, beside `object`, `oldObject`, `request` and `namespaceObject`.

    Attributes:
        has_params: Whether there is `params`.
        has_authorizer: Whether there is `authorizer`.
        has_patches: Whether the types of patches, `Object` and `JSONPatch`, are declared.
        variables: The schemas of `variables`, by their names, `{}` for one of any type; None for no variables.
        schemas: The schemas of `object`, `oldObject` and `params`, where they are known.
    """

    has_params: bool = False
    has_authorizer: bool = True
    has_patches: bool = False
    variables: Mapping[str, Schema] | None = None
    schemas: Mapping[str, Schema] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all variables."""
        optional = {
            "params": self.has_params, "authorizer": self.has_authorizer, VARIABLES: self.variables is not None,
        }  # fmt: skip
        there = (name for name, is_there in optional.items() if is_there)
        return ("object", "oldObject", "request", "namespaceObject", *there)

    @property
    def scope(self) -> dict[str, Schema | None]:
        """The schemas of the variables."""
        known: dict[str, Schema | None] = dict.fromkeys(("object", "oldObject", "params"), DYN)
        known |= {"request": REQUEST, "namespaceObject": NAMESPACE, **self.schemas}
        known["authorizer"] = _object(requestResource={})
        if self.variables is not None:
            known[VARIABLES] = {"type": "object", "properties": self.variables}
        return known


class AdmissionExpression(NamedTuple):
    """A compiled expression.

    Attributes:
        text: The expression.
        schema: The schema of its value, `{}` where it is not known.
        program: The library's program.
    """

    text: str
    schema: Schema
    program: Any

    def evaluate(self, data: Mapping[str, Any]) -> Any:
        """Return the expression's value.

        Args:
            data: The values of all declared variables.

        Raises:
            EvaluationError: It has none.
        """
        try:
            result = self.program.eval(data=data)
        except RuntimeError as error:
            raise EvaluationError(OVER_BUDGET if "budget exceeded" in str(error) else str(error)) from None
        if result.type().name() == "ERROR":
            raise EvaluationError(in_words_of_cel_go(str(result.value())))
        return result.plain_value()


@lru_cache(1024)
def _compiled(text: str) -> Any:
    """Return the program of an expression that was checked before."""
    parsed = _environment(()).compile(text, disable_check=True)
    return _environment((), for_evaluation=True).deserialize(rewritten(parsed.serialize()))


def compile_admission(text: str, declarations: Declarations, wanted: Sequence[str] = ()) -> AdmissionExpression:
    """Compile an expression.

    Args:
        text: The expression.
        declarations: The variables that it may name.
        wanted: The types that its value may have, such as `bool` or `list(JSONPatch)`; empty for any.

    Raises:
        CompilationError: It is no expression, or has another type.
    """
    environment = _environment(declarations.names)
    returned, checked = "dyn", None
    try:
        checked = environment.compile(text)
        returned = _go_type(checked.return_type().name())
    except RuntimeError as error:
        issues = _issues(str(error), text, has_patches=declarations.has_patches)
        if issues and not is_fit("\n".join(issues), text):
            raise CompilationError(f"compilation failed: {chr(10).join(issues)}") from None
    try:
        serialized = (checked or environment.compile(text, disable_check=True)).serialize()
    except RuntimeError as error:
        issues = _issues(str(error), text, has_patches=False)
        raise CompilationError(f"compilation failed: {chr(10).join(issues)}") from None
    found = analyse(serialized, text, declarations.scope)
    if found.errors:
        raise CompilationError(f"compilation failed: {chr(10).join(found.errors)}")
    schema = found.schema or _schema_of(returned)
    if schema is not DYN and returned == "dyn":
        returned = constructed_type(serialized) or (type_of(schema) if found.schema else "")
    _check_type(returned, wanted)
    return AdmissionExpression(text, schema, _compiled(text))


def _check_type(returned: str, wanted: Sequence[str]) -> None:
    """Refuse an expression whose value has another type; one of which nothing is known is evaluated."""
    if not wanted or not returned or returned in wanted:
        return
    if returned.startswith("list(dyn") and any(one.startswith("list(") for one in wanted):
        return
    one_of = wanted[0] if len(wanted) == 1 else f"one of [{' '.join(wanted)}]"
    raise CompilationError(f"must evaluate to {one_of} but got {returned}")


def _issues(said: str, text: str, *, has_patches: bool) -> list[str]:
    """Return the errors of the library in the order of their places, as cel-go has them."""
    said = said.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    found = [
        _issue(int(one[1]), int(one[2]), one[0], text)
        for one in _ERROR.finditer(said)
        if not (has_patches and _CONSTRUCTED.match(one[3]))
    ]
    if "ERROR: " not in said:
        return [error_at(text, 0, said)]
    return [words for *_, words in sorted(found)]


def _issue(line: int, column: int, words: str, text: str) -> tuple[int, int, str]:
    """Return an error with its place; of a field of an undeclared variable, cel-go names the variable."""
    found = _UNDECLARED_FIELD.search(words)
    offset = sum(len(one) + 1 for one in text.split("\n")[: line - 1]) + column - 1
    # The library's place is that of the last dot; of a type, it is that of its name.
    if found is None or text[offset : offset + 1] != ".":
        return line, column, words
    before = len(found[0].rpartition(".")[0])
    words = error_at(text, offset - before, f"undeclared reference to '{found[1]}' (in container '')")
    return line, column - before, words


def _go_type(name: str) -> str:
    """Return the library's name of a type as cel-go writes it."""
    found = name.lower().replace("<", "(").replace(">", ")")
    return {"null": "null_type"}.get(found, found)


def _schema_of(type_name: str) -> Schema:
    """Return a schema whose values have a type, `{}` for types that no schema has."""
    scalars: Mapping[str, Schema] = {
        "bool": {"type": "boolean"}, "int": _INTEGER, "double": {"type": "number"}, "string": _TEXT,
    }  # fmt: skip
    if type_name.startswith("list("):
        return {"type": "array", "items": _schema_of(type_name[5:-1])}
    return scalars.get(type_name, {})


@cache
def _environment(names: tuple[str, ...], *, for_evaluation: bool = False) -> Any:
    from cel_expr_python import cel  # noqa: PLC0415  # loaded with the first expression
    from cel_expr_python.ext import ext_optional, ext_strings  # noqa: PLC0415

    from kcr_devcluster.apiserver.structural.cel.admission_functions import ADMISSION_FUNCTIONS  # noqa: PLC0415

    declared = {
        name: {f"admission_{name.replace('.', '_')}_{position}": one for position, one in enumerate(overloads)}
        for name, overloads in ADMISSION_FUNCTIONS.items()
    }
    every = names or (*Declarations(has_params=True, variables={}).names, EVALUATION)
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(FOR_EVALUATION if for_evaluation else LIBRARIES),
        variables=dict.fromkeys(every, library_type("dyn")),
        extensions=[
            ext_optional.ExtOptional(OPTIONAL_VERSION), ext_strings.ExtStrings(STRINGS_VERSION),
            kubernetes_functions(), extension("admission", declared), *([map_functions()] if for_evaluation else ()),
        ],
    )  # fmt: skip
