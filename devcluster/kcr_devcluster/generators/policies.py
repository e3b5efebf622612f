"""ValidatingAdmissionPolicies with the CEL rules of a class, for kinds of others.

A rule is evaluated where its field is present, in each item of a list and each value of a map; a rule that names
`oldSelf` only on updates, and for items of lists with keys.

Source: k8s.io/api/admissionregistration/v1/types.go; apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kcr.api.meta import Resource
from kcr.api.structural import Schema, object_schema

API_VERSION = "admissionregistration.k8s.io/v1"

# A text or a comment, in which nothing is selected; or `self` or `oldSelf` with the fields that are selected of it.
_TOKEN = re.compile(
    r"""//[^\n]*|(?P<quote>'''|"{3}|"|')(?:\\.|(?!(?P=quote)).)*(?P=quote)"""
    r"""|(?P<has>\bhas\(\s*)?(?<![\w.])(?P<root>self|oldSelf)\b(?P<fields>(?:\.\w+\b(?!\s*\())*)""",
    re.DOTALL,
)
_KEYWORD, _ESCAPED = re.compile(r"__([a-z]+)__"), ("dash", "dot", "slash", "underscores")
_NAME = re.compile(r"[A-Za-z_]\w*")
# Values of these formats are texts in a policy.
_CONVERTED = {"date-time": "timestamp({})", "date": "timestamp({} + 'T00:00:00Z')", "duration": "duration({})"}


class _Step(NamedTuple):
    """A step to a rule: a field by its name, or `[]` and `.*` for all items and values."""

    name: str
    schema: Schema


class _Rule(NamedTuple):
    """A rule, and the steps to it from the whole object."""

    rule: Mapping[str, Any]
    schema: Schema
    steps: tuple[_Step, ...]

    @property
    def place(self) -> str:
        return "".join(one.name if one.name in ("[]", ".*") else f".{one.name}" for one in self.steps).lstrip(".")

    @property
    def uses_old(self) -> bool:
        return any(found["root"] == "oldSelf" for found in _TOKEN.finditer(self.rule["rule"]))


def policy_manifests(kind: type[Resource], name: str, actions: Sequence[str] = ("Deny",)) -> list[dict[str, Any]]:
    """Return a ValidatingAdmissionPolicy with the CEL rules of a class, and its binding.

    Args:
        kind: A class of any kind, such as one of `apps/v1`, that declares the fields with rules.
        name: The name of both.
        actions: `Deny`, `Warn` and `Audit`.

    Raises:
        TypeError: The class has no rules, or one that no policy can have; the message has the remedy.
    """
    found = tuple(_rules(_without_defaults(object_schema(kind)), ()))
    if not found:
        raise TypeError(f"{kind.__name__}: it has no rules: declare some with validations=(kcr.Validation(…),)")
    resource = kind.resource
    status = [f"{resource.plural}/status"] if any(one.place.startswith("status") for one in found) else []
    matched = {
        "apiGroups": [resource.group], "apiVersions": [resource.version], "operations": ["CREATE", "UPDATE"],
        "resources": [resource.plural, *status],
    }  # fmt: skip
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [matched]},
        "validations": [_validation(kind, one) for one in found],
    }
    binding = {"policyName": name, "validationActions": list(actions)}
    specs = {"ValidatingAdmissionPolicy": spec, "ValidatingAdmissionPolicyBinding": binding}
    return [
        {"apiVersion": API_VERSION, "kind": one, "metadata": {"name": name}, "spec": said}
        for one, said in specs.items()
    ]


def schema_without_defaults(kind: type[Resource]) -> dict[str, Any]:
    """Return the versions of a class for `unguarded`: its defaults are not those of the API server."""
    schema = {"openAPIV3Schema": _without_defaults(object_schema(kind))}
    return {"spec": {"versions": [{"name": kind.resource.version, "schema": schema}]}}


def _without_defaults(schema: Any) -> Any:
    match schema:
        case {"properties": fields, **rest}:
            kept = {name: _without_defaults(one) for name, one in fields.items()}
            return _without_defaults(rest) | {"properties": kept}
        case dict():
            return {name: _without_defaults(one) for name, one in schema.items() if name != "default"}
    return schema


def _rules(schema: Schema, steps: tuple[_Step, ...]) -> Iterator[_Rule]:
    for rule in schema.get("x-kubernetes-validations", ()):
        yield _Rule(rule, schema, steps)
    for name, one in schema.get("properties", {}).items():
        yield from _rules(one, (*steps, _Step(name, schema)))
    for member, step in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(member), Mapping):
            yield from _rules(schema[member], (*steps, _Step(step, schema)))


def _validation(kind: type[Resource], one: _Rule) -> dict[str, Any]:
    rule, place = one.rule, f"{one.place}: " if one.place else ""
    made: dict[str, Any] = {"expression": _expression(kind, one)}
    made["message"] = f"{place}{rule.get('message') or 'failed rule: ' + ' '.join(rule['rule'].split())}"
    # Outside of the loops over lists and maps there is no item for it.
    if "messageExpression" in rule and not any(step.name in ("[]", ".*") for step in one.steps):
        value = _substituted(kind, one, rule["messageExpression"], *_paths(one))
        made["messageExpression"] = f"'{place}' + ({value})" if place else value
    if "reason" in rule:
        made["reason"] = "Forbidden" if rule["reason"] == "FieldValueForbidden" else "Invalid"
    return made


def _paths(one: _Rule) -> tuple[str, str]:
    """Return the expressions of `self` and `oldSelf` of a rule that is in no list or map."""
    names = [step.name for step in one.steps]
    old = "oldObject" + "".join(f".?{name}" for name in names)
    if not one.rule.get("optionalOldSelf"):
        return "object" + "".join(map(_selection, names)), "oldObject" + "".join(map(_selection, names))
    old = f"optional.of({old})" if not names else old
    return "object" + "".join(map(_selection, names)), f"(oldObject == null ? optional.none() : {old})"


def _expression(kind: type[Resource], one: _Rule) -> str:
    """Return a rule as an expression of `object` and `oldObject`."""
    is_looped = any(step.name in ("[]", ".*") for step in one.steps)
    rule, suffix = one.rule["rule"], ""
    while re.search(rf"\b(item|old|key){suffix}\b", rule):
        suffix += "_"

    def last(here: str, old: str) -> str:
        return _substituted(kind, one, rule, here, old)

    if not one.uses_old:
        return _walk("object", "", one.steps, last, suffix)
    if one.rule.get("optionalOldSelf"):
        if is_looped:
            raise _refusal(kind, one, "an optional oldSelf in a list or map", "compare the whole list or map")
        old = _paths(one)[1]
        return _walk("object", "", one.steps, lambda here, _: last(here, old), suffix)
    for step in one.steps:
        if step.name == "[]" and not step.schema.get("x-kubernetes-list-map-keys"):
            raise _refusal(
                kind, one, "oldSelf in the items of a list without keys", 'give it kcr.ListType("map", keys=("name",))'
            )
    return f"oldObject == null || {_walk('object', 'oldObject', one.steps, last, suffix)}"


def _walk(here: str, old: str, steps: Sequence[_Step], last: Callable[[str, str], str], suffix: str) -> str:
    """Return an expression that is true unless the rule at the end of the steps is false somewhere.

    Args:
        here: The expression of the present value.
        old: That of its old value; empty where the rule has none.
        steps: The steps from there.
        last: Returns the rule for the values at the end.
        suffix: Ends the names of loop variables, so that they are not those of the rule, or of a loop around it.
    """
    if not steps:
        return f"({last(here, old)})"
    step, *rest = steps
    if step.name == "[]":
        item, before = f"item{suffix}", f"old{suffix}"
        inner = _walk(item, before if old else "", rest, last, f"{suffix}_")
        if old:
            keys = (_selection(key) for key in step.schema["x-kubernetes-list-map-keys"])
            same = " && ".join(f"{before}{key} == {item}{key}" for key in keys)
            inner = f"{old}.filter({before}, {same}).all({before}, {inner})"
        return f"{here}.all({item}, {inner})"
    if step.name == ".*":
        key = f"key{suffix}"
        inner = _walk(f"{here}[{key}]", f"{old}[{key}]" if old else "", rest, last, f"{suffix}_")
        return f"{here}.all({key}, {f'!({key} in {old}) || ' if old else ''}{inner})"
    guards = "".join(f"!{_presence(value, step.name)} || " for value in (here, old) if value)
    selection = _selection(step.name)
    return guards + _walk(f"{here}{selection}", f"{old}{selection}" if old else "", rest, last, suffix)


def _selection(name: str) -> str:
    return f".{name}" if _NAME.fullmatch(name) else f"['{name}']"


def _presence(value: str, name: str) -> str:
    return f"has({value}.{name})" if _NAME.fullmatch(name) else f"('{name}' in {value})"


def _substituted(kind: type[Resource], one: _Rule, rule: str, here: str, old: str) -> str:
    """Return a rule with these expressions in place of `self` and `oldSelf`."""

    def replaced(found: re.Match[str]) -> str:
        if found["root"] is None:
            return found[0] if found["quote"] else ""
        fields = _KEYWORD.sub(lambda name: name[0] if name[1] in _ESCAPED else name[1], found["fields"])
        if any(f"__{name}__" in fields for name in _ESCAPED):
            raise _refusal(kind, one, f"the escaped name in {found[0]}", "put the rule on that field")
        value, form = f"{here if found['root'] == 'self' else old}{fields}", _format(one.schema, fields)
        if found["has"] is not None:
            return f"{found['has']}{value}"
        return _CONVERTED[form].format(value) if form in _CONVERTED else value

    return _TOKEN.sub(replaced, rule)


def _format(schema: Schema, fields: str) -> str:
    """Return the format of a field; empty for none."""
    for name in fields.split(".")[1:]:
        schema = schema.get("properties", {}).get(name, {})
    form: str = schema.get("format", "")
    return form


def _refusal(kind: type[Resource], one: _Rule, what: str, remedy: str) -> TypeError:
    return TypeError(f"{kind.__name__}: the rule `{one.rule['rule']}` of {one.place}: no policy has {what}: {remedy}")
