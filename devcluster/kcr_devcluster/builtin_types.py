"""Classes of Kubernetes' built-in types, from the table that the embedded API server's schema is made of.

Prose is not in that table. Where the package `kubernetes-validate` is installed (the extra `schema`), `published_prose`
takes it from there.
"""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple

from msgspec.structs import replace

from kcr.errors import ConfigError
from kcr_devcluster.apiserver.http.openapi.definitions import full_name
from kcr_devcluster.apiserver.http.openapi.prose import installed_prose
from kcr_devcluster.apiserver.schema.builtin import (
    LIST,
    MAP,
    FieldFacts,
    builtin_kinds,
    kind_types,
    kubernetes_version,
    type_facts,
    type_of_kind,
)
from kcr_devcluster.codegen import model
from kcr_devcluster.codegen.model import Class, ClassField, Expr, Pair, Text, class_name, field_names
from kcr_devcluster.versions import VERSIONS

_SCALARS: Mapping[str, Expr] = {
    "string": "str", "bool": "bool", "int32": "int", "int64": "int", "float64": "float", "bytes": "bytes",
    "time": "datetime", "microtime": "MicroTime", "quantity": "Quantity", "int-or-string": "IntOrString",
    "any": model.OPAQUE,
}  # fmt: skip
# The part between group and name of the types of kinds in other objects.
_EMBEDDED = ".Embedded"
# Types that kcr.api has already, whole but for managed fields.
_SHARED: Mapping[str, str] = {
    "meta.v1.ObjectMeta": "ObjectMeta", "meta.v1.OwnerReference": "OwnerReference", "meta.v1.Condition": "Condition",
    "meta.v1.LabelSelector": "LabelSelector", "meta.v1.LabelSelectorRequirement": "Requirement",
}  # fmt: skip
_TYPE_META = ("apiVersion", "kind", "metadata")
_SECRET = ("core.v1.Secret",)
# Kinds that live in namespaces, of those whose names the table does not have.
_NAMESPACED = frozenset(
    ("Binding", "Event", "Eviction", "HorizontalPodAutoscaler", "LocalSubjectAccessReview", "PodGroup", "ResourceClaim",
     "ResourceClaimTemplate", "Scale", "TokenRequest", "Workload")
)  # fmt: skip
_PLURALS = (("s", "ses"), ("y", "ies"), ("", "s"))

# Returns the schema's text for a type, and with a second argument for one of its fields.
Prose = Callable[[str, str], str]


class KindFacts(NamedTuple):
    """A built-in kind.

    Attributes:
        api_version: Group and version, such as `apps/v1`.
        name: Such as `Deployment`.
        type: Its type in the table, such as `apps.v1.Deployment`.
        plural: Its name in paths.
        namespaced: Whether its objects live in namespaces.
    """

    api_version: str
    name: str
    type: str
    plural: str
    namespaced: bool


@cache
def _fields(of: str) -> dict[str, FieldFacts]:
    """Return the fields of a type; kinds in it have types of their own, where apiVersion is a field like any other."""
    facts, kinds = type_facts(of.replace(_EMBEDDED, ".")), frozenset(kind_types().values())
    embedded = {name: one for name, one in facts.items() if _item(one) in kinds}
    return facts | {name: replace(one, type=_EMBEDDED.join(one.type.rsplit(".", 1))) for name, one in embedded.items()}


def builtin_kind(api_version: str, name: str) -> KindFacts:
    """Return a kind by its apiVersion and name.

    Raises:
        ConfigError: Kubernetes has no such kind.
    """
    of = type_of_kind(api_version, name)
    if of is None:
        raise ConfigError(
            f"{api_version}/{name} is not a kind of Kubernetes {kubernetes_version()}: {_hint(api_version, name)}"
        )
    named = builtin_kinds().get((api_version, name))
    if named is None:
        return KindFacts(api_version, name, of, _plural(name.lower()), name in _NAMESPACED)
    return KindFacts(api_version, name, of, named.plural, named.namespaced)


def _hint(api_version: str, name: str) -> str:
    """Return the kinds that an unknown apiVersion and name may mean."""
    others = [f"{version}/{kind}" for version, kind in kind_types() if kind == name]
    if others:
        return f"there is {' and '.join(others)}"
    # By all its names: in lower case, and as in paths.
    names: dict[str, str] = {}
    for version, kind in kind_types():
        if version == api_version:
            names |= dict.fromkeys((kind.lower(), _plural(kind.lower())), kind)
    near = get_close_matches(name.lower(), names, 1)
    return f"is it {names[near[0]]}?" if near else "name apiVersion/Kind"


def _plural(name: str) -> str:
    """Return the plural of a kind in lower case. Source: apimachinery/pkg/api/meta, UnsafeGuessKindToResource."""
    end, plural = next(pair for pair in _PLURALS if name.endswith(pair[0]))
    return name.removesuffix(end) + plural if end else name + plural


def types_of(kinds: Iterable[KindFacts]) -> list[str]:
    """Return the names of all types that kinds are made of, but those that kcr.api has; each once, kinds first."""
    found = dict.fromkeys(kind.type for kind in kinds)
    waiting = list(found)
    while waiting:
        for field, facts in _fields(waiting.pop(0)).items():
            name = _item(facts)
            # Of the names of types, those of scalars have no dot.
            if field not in _TYPE_META and "." in name and name not in _SHARED and name not in found:
                found[name] = None
                waiting.append(name)
    return list(found)


def _item(facts: FieldFacts) -> str:
    """Return the type in lists and maps of it."""
    return facts.type.rpartition("]")[2]


def class_names(types: Iterable[str]) -> dict[str, str]:
    """Return the names of the classes of types: upstream's, with the group before it where two would be the same."""
    found: dict[str, str] = {}
    for one in types:
        group, _, name = one.rpartition(".")
        found[one] = class_name(name) if class_name(name) not in found.values() else class_name(group, name)
    return found


def classes(types: Iterable[str], kinds: Iterable[KindFacts], names: Mapping[str, str], prose: Prose) -> list[Class]:
    """Return the classes of types.

    Args:
        types: Their names in the table.
        kinds: Which of them are kinds.
        names: The names of their classes, and of those that their fields refer to.
        prose: For docstrings.
    """
    by_type = {kind.type: kind for kind in kinds}
    return [_class(one, by_type.get(one), names, prose) for one in types]


def _class(of: str, kind: KindFacts | None, names: Mapping[str, str], prose: Prose) -> Class:
    facts = {name: one for name, one in _fields(of).items() if kind is None or name not in _TYPE_META}
    python = field_names(facts, of_kind=kind is not None)
    fields = tuple(
        _field(python[wire], wire, one, names, prose(of, wire), of_kind=kind is not None)
        for wire, one in facts.items()
    )  # fmt: skip
    refers = frozenset(names[_item(one)] for one in facts.values() if _item(one) in names)
    if kind is None:
        return Class(names[of], "Object", prose(of, ""), fields, refers=refers)
    options: list[Pair] = [Pair("api_version", Text(kind.api_version)), Pair("plural", Text(kind.plural))]
    if names[of] != kind.name:
        options.insert(0, Pair("kind", Text(kind.name)))
    if not kind.namespaced:
        options.append(Pair("namespaced", "False"))
    holds_raw = any(_item(one) == "any" for name in types_of([kind]) for one in _fields(name).values())
    return Class(names[of], "FullResource", prose(of, ""), fields, tuple(options), refers, holds_raw, of in _SECRET)


def _field(
    name: str, wire: str, facts: FieldFacts, names: Mapping[str, str], text: str, *, of_kind: bool
) -> ClassField:
    written, of = facts.type, _type(facts.type, names)
    if of_kind and written in names and wire in ("spec", "status"):
        # As Go has them: always there. One that would have to be filled is required, or for a status left out.
        if not any(one.required for one in _fields(written).values()):
            return ClassField(name, wire, of, f"{names[written]}()", text)
        if wire == "spec":
            return ClassField(name, wire, of, None, text)
    if facts.required and written != "any":
        return ClassField(name, wire, of, None, text)
    if written.startswith(LIST):
        return ClassField(name, wire, of, model.EMPTY_LIST, text)
    if written.startswith(MAP):
        return ClassField(name, wire, of, model.EMPTY_MAP, text)
    if written == "any":
        return ClassField(name, wire, model.Either((of, "msgspec.UnsetType")), model.UNSET, text)
    return ClassField(name, wire, model.optional(of), model.NONE, text)


def _type(written: str, names: Mapping[str, str]) -> Expr:
    if written.startswith(LIST):
        return model.list_of(_type(written.removeprefix(LIST), names))
    if written.startswith(MAP):
        return model.map_of(_type(written.removeprefix(MAP), names))
    return _SCALARS.get(written) or _SHARED.get(written) or names[written]


def published_prose(name: str, field: str) -> str:
    """Return the text of Kubernetes' OpenAPI document; without the extra `schema` a short one for a type alone."""
    prose, full = installed_prose(VERSIONS[-1]), full_name(name)
    if field:
        return prose.of_field(full, field)
    group, _, short = name.rpartition(".")
    return prose.of_type(full) or f"{short} of {group.replace('.', '/')}."


def classes_of_kinds(named: Iterable[tuple[str, str]]) -> list[Class]:
    """Return the classes of built-in kinds and of all that they are made of, for `kcr types generate`.

    Args:
        named: The kinds by apiVersion and name.

    Raises:
        ConfigError: Kubernetes has no such kind.
    """
    kinds = [builtin_kind(*one) for one in named]
    types = types_of(kinds)
    return classes(types, kinds, class_names(types), published_prose)
