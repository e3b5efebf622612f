"""Validation rules (`x-kubernetes-validations`): their check in a definition, and their evaluation for objects.

Rules that name `oldSelf` (transition rules) hold between a value and its old value, which is correlated through
objects, maps and lists of type `map`. An unchanged value gets no errors from rules without `oldSelf` (ratcheting).

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalid_whole,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.schema.shape import ABSENT
from kcr_devcluster.apiserver.structural.cel import expressions as cel
from kcr_devcluster.apiserver.structural.cel.costs import RuleCost, cardinality, cost_refusal, total_refusals
from kcr_devcluster.apiserver.structural.cel.values import scalar_converter
from kcr_devcluster.apiserver.structural.checks import ROOT
from kcr_devcluster.apiserver.structural.composites import correlation
from kcr_devcluster.apiserver.structural.list_types import has
from kcr_devcluster.apiserver.structural.shapes import LIST_TYPE, MAP_TYPE, RULES, Schema

Rule = Mapping[str, Any]
# Adds the errors of a value at a path, given its old value; the boolean is true where the value around it is unchanged.
RuleCheck = Callable[[Any, str, Any, bool, list[FieldError]], None]

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_BLOCKING = (
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid",
)  # fmt: skip
_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:\\.|[^'\\])*)'\]")
_MISMATCH = "call arguments did not match a supported operator, function or macro signature for rule"
_TOO_COSTLY = "no further validation rules will be run due to call cost exceeds limit for rule"
NOT_CHECKED = FieldError(
    ROOT,
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation",
)


def missing_library(schema: Schema) -> str:
    """Return the warning for a schema whose rules cannot be evaluated, `""` where there is nothing to warn of."""
    if cel.is_available() or not has(schema, (RULES,)):
        return ""
    return (
        f"{RULES} are not evaluated: the package {cel.LIBRARY} is not installed; "
        "pip install 'kcr[embedded]' installs it where there are builds of it"
    )


def blocks(errors: list[FieldError]) -> bool:
    """Return whether errors keep rules from being evaluated: the value may not have the types that rules expect."""
    return any(error.reason in _BLOCKING for error in errors)


def definition_errors(schema: Schema, path: str) -> list[FieldError]:
    """Return the errors of all rules in a schema, given its path in the definition."""
    costs: list[RuleCost] = []
    errors = list(_definition_errors(schema, _Place(path), costs, is_root=True))
    return errors + [forbidden(field, words) for field, words in total_refusals(costs, path)]


class _Place(NamedTuple):
    """Where in a schema a rule stands.

    Attributes:
        path: The path of its schema in the definition.
        uncorrelated: The path of the outermost list or object in which old values cannot be correlated, `""` for none.
        bounds: The lists and maps that its values lie in.
    """

    path: str
    uncorrelated: str = ""
    bounds: tuple[Schema, ...] = ()

    def below(self, step: str, *, lost: bool = False, bound: Schema | None = None) -> "_Place":
        """Return the place of a schema in this one's; `lost` means that old values cannot be correlated there."""
        uncorrelated = self.uncorrelated or (self.path if lost else "")
        return _Place(f"{self.path}.{step}", uncorrelated, self.bounds if bound is None else (*self.bounds, bound))


def _definition_errors(
    schema: Schema, place: _Place, costs: list[RuleCost], *, is_root: bool = False
) -> Iterator[FieldError]:
    for position, rule in enumerate(schema.get(RULES) or ()):
        here = f"{place.path}.{RULES}[{position}]"
        wrong = list(_rule_errors(rule, here)) + _field_path_errors(rule, schema, here)
        yield from wrong
        if not wrong and cel.is_available():
            scope = cel.Scope(schema, bool(rule.get("optionalOldSelf")), is_root)
            yield from _expression_errors(rule, scope, here, place, costs)
    is_atomic = schema.get(MAP_TYPE) == "atomic"
    for name, inner in (schema.get("properties") or {}).items():
        yield from _definition_errors(inner, place.below(f"properties[{name}]", lost=is_atomic), costs)
    if isinstance(schema.get("additionalProperties"), Mapping):
        inner_place = place.below("additionalProperties", bound=schema)
        yield from _definition_errors(schema["additionalProperties"], inner_place, costs)
    if isinstance(schema.get("items"), Mapping):
        is_lost = schema.get(LIST_TYPE) != "map"
        yield from _definition_errors(schema["items"], place.below("items", lost=is_lost, bound=schema), costs)


def _rule_errors(rule: Rule, path: str) -> Iterator[FieldError]:
    text, message = rule.get("rule") or "", rule.get("message") or ""
    if not text.strip():
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif re.search(r"[\n\r]", text.strip()) and not message.strip():
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if rule.get("messageExpression") and not rule["messageExpression"].strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        yield not_supported(f"{path}.reason", rule["reason"], _REASONS)


def _field_path_errors(rule: Rule, schema: Schema, path: str) -> list[FieldError]:
    field = rule.get("fieldPath")
    if not field:
        return []
    if not field.strip():
        return [invalid(f"{path}.fieldPath", field, "must be non-empty if specified")]
    if re.search(r"[\n\r]", field):
        return [invalid(f"{path}.fieldPath", field, "must not contain line breaks")]
    return [] if _normalized(schema, field) else [invalid(f"{path}.fieldPath", field, "must be a valid path")]


def _normalized(schema: Schema, field: str) -> str:
    """Return a rule's fieldPath as messages show it, `""` where the schema has no such field."""
    shown, at = "", 0
    while at < len(field):
        step = _STEP.match(field, at)
        if step is None:
            return ""
        name = step[1] or re.sub(r"\\(.)", r"\1", step[2] or "")
        fields, other = schema.get("properties"), schema.get("additionalProperties")
        if fields and name in fields:
            schema, shown = fields[name], f"{shown}.{name}"
        elif not fields and isinstance(other, Mapping):
            schema, shown = other, f"{shown}[{name}]"
        else:
            return ""
        at = step.end()
    return shown.removeprefix(".")


def _expression_errors(
    rule: Rule, scope: cel.Scope, path: str, place: _Place, costs: list[RuleCost]
) -> Iterator[FieldError]:
    count = cardinality(scope.schema, place.bounds)
    for member, wanted, what in (
        ("rule", "bool", "cel expression"),
        ("messageExpression", "string", "messageExpression"),
    ):
        if not rule.get(member):
            continue
        try:
            cel.compile_expression(rule[member], scope, wanted)
            cost = cel.check_types(rule[member], scope) * count
        except cel.CompilationError as error:
            is_of_rule = member == "rule" and str(error).startswith("compilation")
            yield _unusable(f"{path}.{member}", rule, str(error) if is_of_rule else f"{what} {error}")
            return
        costs.append(RuleCost(f"{path}.{member}", cost))
        if refusal := cost_refusal(f"estimated {member} cost", cost):
            yield forbidden(f"{path}.{member}", refusal)
    if not cel.uses_old(rule["rule"]):
        if rule.get("optionalOldSelf") is not None:
            words = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], words)
    elif place.uncorrelated:
        words = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelated}"
        yield invalid(f"{path}.rule", rule["rule"], words)


def _unusable(path: str, rule: Rule, why: str) -> FieldError:
    """Return the error of a rule, shown as Go encodes it."""
    shown = {
        "Rule": rule["rule"],
        "Message": rule.get("message", ""),
        "MessageExpression": rule.get("messageExpression", ""),
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath", ""),
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    return invalid_whole(path, f"{msgspec.json.encode(shown).decode()}: {why}")


class _CompiledRule(NamedTuple):
    """A rule of a schema, compiled."""

    program: cel.Program
    message: cel.Program | None
    rule: Rule
    field: str
    type: str

    def error(self, value: Any, seen: Any, path: str, old: tuple[Any] | None) -> FieldError | None:
        """Return the error of a value that breaks the rule or has no result by it; `seen` is the value for CEL."""
        words = (self.rule.get("message") or self.rule["rule"]).strip()
        try:
            if self.program.evaluate(seen, old) is True:
                return None
        except cel.EvaluationError as error:
            if str(error).startswith("no such overload"):
                return invalid(path or ROOT, self.type, f"'{error}': {_MISMATCH}: {words}")
            if str(error) == cel.OVER_BUDGET:
                return invalid(path or ROOT, self.type, f"'{error}': {_TOO_COSTLY}: {words}")
            return invalid(path or ROOT, self.type, f"{error} evaluating rule: {words}")
        separator = "." if path and self.field and not self.field.startswith("[") else ""
        return self._refusal(f"{path}{separator}{self.field}" or ROOT, value, self._detail(seen, old))

    def _detail(self, seen: Any, old: tuple[Any] | None) -> str:
        if self.message is not None:
            try:
                text = str(self.message.evaluate(seen, old)).strip()
            except cel.EvaluationError:
                text = ""
            if text and "\n" not in text:
                return text
        return (self.rule.get("message") or "").strip() or f"failed rule: {self.rule['rule'].strip()}"

    def _refusal(self, path: str, value: Any, detail: str) -> FieldError:
        match self.rule.get("reason"):
            case "FieldValueForbidden":
                return forbidden(path, detail)
            case "FieldValueRequired":
                return required(path, detail)
            case "FieldValueDuplicate":
                return duplicate(path, value)
        return invalid_whole(path, detail) if isinstance(value, dict | list) else invalid(path, value, detail)


def rule_errors(schema: Schema, value: Any) -> list[FieldError]:
    """Return the errors of a value by the rules of a schema, which compile; without an old value."""
    errors: list[FieldError] = []
    if (check := compile_rules(schema)) is not None:
        check(value, "", ABSENT, False, errors)
    return errors


def compile_rules(schema: Schema) -> RuleCheck | None:
    """Return the check of the rules in a schema; None where there are none or the library is missing."""
    if not cel.is_available() or not has(schema, (RULES,)):
        return None
    own = _own_check(schema)
    descend = _descent(schema)

    def check(value: Any, path: str, old: Any, unchanged: bool, errors: list[FieldError]) -> None:
        if value is None:
            return
        # What is in an unchanged value is unchanged.
        unchanged = unchanged or (old is not ABSENT and same_json(old, value))
        own(value, path, old, unchanged, errors)
        descend(value, path, old, unchanged, errors)

    return check


def _compiled(rule: Rule, schema: Schema) -> _CompiledRule:
    scope = cel.Scope(schema, bool(rule.get("optionalOldSelf")))
    message = rule.get("messageExpression")
    return _CompiledRule(
        cel.compile_expression(rule["rule"], scope, "bool"),
        cel.compile_expression(message, scope, "string") if message else None,
        rule,
        _normalized(schema, rule.get("fieldPath") or ""),
        schema.get("type") or "",
    )


def _own_check(schema: Schema) -> RuleCheck:
    """Return the check of a value by the rules of its own schema."""
    rules, convert = [_compiled(rule, schema) for rule in schema.get(RULES) or ()], scalar_converter(schema)

    def check(value: Any, path: str, old: Any, unchanged: bool, errors: list[FieldError]) -> None:
        if not rules:
            return
        seen = value if convert is None else convert(value)
        had = None if old is ABSENT or old is None else (old if convert is None else convert(old),)
        for one in rules:
            if one.program.uses_old and had is None and not one.rule.get("optionalOldSelf"):
                continue
            error = one.error(value, seen, path, had)
            if error is not None and (one.program.uses_old or not unchanged):
                errors.append(error)

    return check


def _descent(schema: Schema) -> RuleCheck:
    """Return the check of the fields, entries and items of a value."""
    fields = {name: made for name, one in (schema.get("properties") or {}).items() if (made := compile_rules(one))}
    other, item = schema.get("additionalProperties"), schema.get("items")
    check_other = compile_rules(other) if isinstance(other, Mapping) else None
    check_item = compile_rules(item) if isinstance(item, Mapping) else None
    is_correlated = schema.get(MAP_TYPE) != "atomic"

    def check(value: Any, path: str, old: Any, unchanged: bool, errors: list[FieldError]) -> None:
        if isinstance(value, list) and check_item is not None:
            before = correlation(schema, old)
            for position, one in enumerate(value):
                check_item(one, f"{path}[{position}]", before(one), unchanged, errors)
        elif isinstance(value, dict):
            earlier = old if is_correlated and isinstance(old, dict) else {}
            for name, one in value.items():
                if (check_field := fields.get(name)) is not None:
                    check_field(one, f"{path}.{name}" if path else name, earlier.get(name, ABSENT), unchanged, errors)
                elif check_other is not None:
                    check_other(one, f"{path}[{name}]", earlier.get(name, ABSENT), unchanged, errors)

    return check
