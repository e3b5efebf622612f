"""Checks the types of a policy's expressions: `object` has the types of the kinds that its rules name.

A policy with such errors works nevertheless, as far as its expressions can be evaluated. Only fields that do not exist
and operators between values of different types are found; the arguments of most functions are not checked.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/admission/plugin/policy/validating/typechecking.go;
pkg/cel/common/schemas.go, SchemaDeclType.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice, product
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.cel.admission import compile_admission
from kcr_devcluster.apiserver.cel.syntax import CompilationError
from kcr_devcluster.apiserver.kinds.admission.expressions import VALIDATION, compile_variables, declarations, types_of
from kcr_devcluster.apiserver.kinds.kind import Kind
from kcr_devcluster.apiserver.kinds.served import ServedIndex
from kcr_devcluster.apiserver.protocol.manifests import Manifest
from kcr_devcluster.apiserver.schema.builtin import LIST, MAP, type_facts, type_of_kind
from kcr_devcluster.apiserver.schema.extensions import INT_OR_STRING, Schema

_MOST_TYPES = 10
_MOMENT: Schema = {"type": "string", "format": "date-time"}
# Of the types of quantities nothing is known: their schemas allow numbers as well.
_SCALARS: Mapping[str, Schema] = {
    "amount": {}, "any": {}, "bool": {"type": "boolean"}, "bytes": {"type": "string", "format": "byte"},
    "float64": {"type": "number"}, "int-or-string": {INT_OR_STRING: True}, "int32": {"type": "integer"},
    "int64": {"type": "integer"}, "microtime": _MOMENT, "quantity": {}, "string": {"type": "string"}, "time": _MOMENT,
}  # fmt: skip
_METADATA = "meta.v1.ObjectMeta"


class _Fields(Mapping[str, Schema]):
    """The schemas of a built-in type's fields, made when they are read: types may contain themselves."""

    def __init__(self, type_name: str, version: str) -> None:
        self._types = {name: facts.type for name, facts in type_facts(type_name, version).items()}
        self._version = version

    def __getitem__(self, name: str) -> Schema:
        return _schema_of(self._types[name], self._version)

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def __eq__(self, other: object) -> bool:
        # There is one of each type.
        return self is other

    def __hash__(self) -> int:
        return id(self)


@cache
def _schema_of(written: str, version: str) -> Schema:
    """Return the schema of a type of a version's table, such as `[]core.v1.Container`."""
    if written.startswith(LIST):
        return {"type": "array", "items": _schema_of(written.removeprefix(LIST), version)}
    if written.startswith(MAP):
        return {"type": "object", "additionalProperties": _schema_of(written.removeprefix(MAP), version)}
    return _SCALARS[written] if written in _SCALARS else {"type": "object", "properties": _Fields(written, version)}


def _schema_of_kind(kind: Kind, version: str) -> Schema | None:
    """Return the schema of the objects of a kind, None where it is not known."""
    if kind.openapi_schema is None:
        known = type_of_kind(kind.type.api_version, kind.type.kind)
        return None if known is None else _schema_of(known, version)
    text: Schema = {"type": "string"}
    resource: dict[str, Schema] = {"apiVersion": text, "kind": text, "metadata": _schema_of(_METADATA, version)}
    return {**kind.openapi_schema, "properties": {**(kind.openapi_schema.get("properties") or {}), **resource}}


class _Checked(NamedTuple):
    """A kind that a policy is checked for: its name as Go writes it, and the schemas of its variables."""

    name: str
    schemas: Mapping[str, tuple[str, Schema]]


def expression_warnings(spec: Manifest, served: ServedIndex) -> list[dict[str, str]]:
    """Return the `expressionWarnings` of a ValidatingAdmissionPolicy: those of its validations and their messages.

    Args:
        spec: The spec of the policy.
        served: The kinds that are served.
    """
    checked = list(_checked(spec, served))
    found: list[dict[str, str]] = []
    for position, validation in enumerate(spec.get("validations") or ()):
        for member in ("expression", "messageExpression"):
            text = validation.get(member, "")
            if text and (warning := "\n".join(_warnings(text, spec, checked))):
                found.append({"fieldRef": f"spec.validations[{position}].{member}", "warning": warning})
    return found


def _warnings(text: str, spec: Manifest, checked: Sequence[_Checked]) -> Iterator[str]:
    has_params = bool(spec.get("paramKind"))
    for name, schemas in checked:
        variables = compile_variables(spec.get("variables") or (), has_params=has_params, schemas=schemas)
        known = declarations(VALIDATION, has_params=has_params, variables=types_of(variables))
        try:
            compile_admission(text, known._replace(schemas=schemas))
        except CompilationError as error:
            yield f"{name}: {str(error).removeprefix('compilation failed: ')}\n"


def _checked(spec: Manifest, served: ServedIndex) -> Iterator[_Checked]:
    params = _params_schema(spec.get("paramKind") or {}, served)
    for kind in _kinds(spec.get("matchConstraints") or {}, served):
        schema = _schema_of_kind(kind, served.version)
        if schema is not None:
            of = (kind.type.kind, schema)
            schemas = {"object": of, "oldObject": of, **({} if params is None else {"params": params})}
            version = f"{kind.type.group}/{kind.type.version}"
            yield _Checked(f"{version}, Kind={kind.type.kind}", schemas)


def _params_schema(wanted: Manifest, served: ServedIndex) -> tuple[str, Schema] | None:
    for kind in served.kinds:
        if (kind.type.api_version, kind.type.kind) == (wanted.get("apiVersion"), wanted.get("kind")):
            schema = _schema_of_kind(kind, served.version)
            return None if schema is None else (kind.type.kind, schema)
    return None


def _kinds(matched: Manifest, served: ServedIndex) -> list[Kind]:
    """Return the kinds that rules name, the first ten of each rule; wildcards name none."""
    found: dict[Any, Kind] = {}
    for rule in matched.get("resourceRules") or ():
        groups, versions = sorted(rule.get("apiGroups") or ()), sorted(rule.get("apiVersions") or ())
        if any("*" in one for one in (*groups, *versions)):
            continue
        resources = sorted(one for one in rule.get("resources") or () if not set("*/") & set(one))
        places = product(groups, versions, resources)
        kinds = (served.by_place[place] for place in places if place in served.by_place)
        found |= {(kind.type.group, kind.type.version, kind.type.kind): kind for kind in islice(kinds, _MOST_TYPES)}
    return [found[name] for name in sorted(found)]
