"""Validation rules (`x-kubernetes-validations`): their check in a definition, and their evaluation for objects.

Rules that name `oldSelf` (transition rules) hold between a value and its old value, which is correlated through
objects, maps and lists of type `map`. An unchanged value gets no errors from rules without `oldSelf` (ratcheting).

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, reduce
from typing import Any, NamedTuple, NoReturn

from kcr.api.equality import same_json
from kcr_devcluster.apiserver.cel.conversion import converter
from kcr_devcluster.apiserver.cel.costs import MOST
from kcr_devcluster.apiserver.cel.declared import REQUEST_BYTES, declared
from kcr_devcluster.apiserver.cel.metering import Bound, Budget, OutOfBudgetError, Tally, UnmeteredError, size_of
from kcr_devcluster.apiserver.cel.rules import Rule as Expression
from kcr_devcluster.apiserver.cel.rules import Scope, compile_message, compile_rule
from kcr_devcluster.apiserver.cel.steps import CostExceededError
from kcr_devcluster.apiserver.cel.syntax import CompilationError
from kcr_devcluster.apiserver.cel.values import EvaluationError
from kcr_devcluster.apiserver.protocol.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalid_whole,
    not_supported,
    required,
)
from kcr_devcluster.apiserver.protocol.gojson import encode_json
from kcr_devcluster.apiserver.schema.extensions import EMBEDDED, LIST_TYPE, RULES, Schema
from kcr_devcluster.apiserver.schema.shape import ABSENT
from kcr_devcluster.apiserver.structural.checks import ROOT
from kcr_devcluster.apiserver.structural.composites import correlation

Rule = Mapping[str, Any]
# Returns what the rules of a schema find in a value, given its old value, `ABSENT` for none.
RuleCheck = Callable[[Any, Any], "Findings"]
# Adds what rules find in a value at a path, given its old value; the boolean is true where the value around it is
# unchanged.
_Check = Callable[[Any, str, Any, bool, "_Run"], None]

_DUPLICATE = "FieldValueDuplicate"
_REASONS = (_DUPLICATE, "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_BLOCKING = (
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid",
)  # fmt: skip
_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:\\.|[^'\\])*)'\]")
_MISMATCH = "call arguments did not match a supported operator, function or macro signature for rule"
_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_MESSAGE_OUT_OF_BUDGET = (
    "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run"
)
# Source: kubernetes/staging/src/k8s.io/apiserver/pkg/apis/cel/config.go, RuntimeCELCostBudget.
_BUDGET = 10_000_000
_TOO_COSTLY = "no further validation rules will be run due to call cost exceeds limit for rule"
_NO_TYPE = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert "
    "structural schema to CEL declarations"
)
# Limits of estimated costs; so many of the most costly expressions are named.
# Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go.
_LIMIT, _TOTAL_LIMIT, _NAMED = 10_000_000, 100_000_000, 4
_CONTRIBUTED = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
_HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)
_LONGEST_MESSAGE = 5 * 1024
NOT_CHECKED = invalid(
    ROOT,
    None,
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation",
)


def blocks(errors: list[FieldError]) -> bool:
    """Return whether errors keep rules from being evaluated: the value may not have the types that rules expect."""
    return any(error.reason in _BLOCKING for error in errors)


class RuleCost(NamedTuple):
    """The estimated cost of an expression, and its path."""

    path: str
    cost: int


def definition_errors(schema: Schema, path: str) -> list[FieldError]:
    """Return the errors of all rules in a schema, given its path in the definition."""
    costs: list[RuleCost] = []
    wrong, unusable = _definition_errors(schema, _Place(path), costs, _with_rules(schema), is_root=True)
    return wrong + unusable + _total_refusals(costs, path)


def _with_rules(schema: Schema) -> set[int]:
    """Return the identities of the schemas that have rules, and of those around them: large schemas have few."""
    found: set[int] = set()

    def look(schema: Schema) -> bool:
        inner = [schema.get("items"), schema.get("additionalProperties"), *(schema.get("properties") or {}).values()]
        has_rules = bool(schema.get(RULES))
        for one in inner:
            has_rules |= type(one) is dict and look(one)
        if has_rules:
            found.add(id(schema))
        return has_rules

    look(schema)
    return found


class _Place(NamedTuple):
    """Where in a schema a rule stands.

    Attributes:
        path: The path of its schema in the definition.
        uncorrelated: The path of the outermost list or object in which old values cannot be correlated, `""` for none.
        most: How many values of its schema an object may have, None without a bound.
    """

    path: str
    uncorrelated: str = ""
    most: int | None = 1

    def below(self, step: str, *, lost: bool = False, bound: Any = 1) -> "_Place":
        """Return the place of a schema in this one's; `lost` means that old values cannot be correlated there."""
        uncorrelated = self.uncorrelated or (self.path if lost else "")
        most = None if self.most is None or bound is None else min(self.most * max(int(bound), 0), MOST)
        return _Place(f"{self.path}.{step}", uncorrelated, most)


_Errors = tuple[list[FieldError], list[FieldError]]


def _definition_errors(
    schema: Schema, place: _Place, costs: list[RuleCost], with_rules: set[int], *, is_root: bool = False
) -> _Errors:
    """Return the errors of what rules are made of, and, where there are none in a schema, those of its expressions."""
    wrong: list[FieldError] = []
    unusable: list[FieldError] = []
    for inner, inner_place in _inner_schemas(schema, place, with_rules):
        found = _definition_errors(inner, inner_place, costs, with_rules)
        wrong += found[0]
        unusable += found[1]
    rules = schema.get(RULES) or ()
    for position, rule in enumerate(rules):
        here = f"{place.path}.{RULES}[{position}]"
        wrong += [*_rule_errors(rule, here), *_field_path_errors(rule, schema, here)]
    if rules and not wrong:
        of = declared(schema, is_root=is_root or bool(schema.get(EMBEDDED)))
        if of is None:
            unusable.append(FieldError(f"{place.path}.{RULES}", "InternalError", f"Internal error: {_NO_TYPE}"))
        else:
            scope = Scope.over(of)
            for position, rule in enumerate(rules):
                unusable += _expression_errors(rule, scope, f"{place.path}.{RULES}[{position}]", place, costs)
    return wrong, unusable


def _inner_schemas(schema: Schema, place: _Place, with_rules: set[int]) -> Iterator[tuple[Schema, _Place]]:
    for name, inner in (schema.get("properties") or {}).items():
        if id(inner) in with_rules:
            yield inner, place.below(f"properties[{name}]")
    if isinstance(other := schema.get("additionalProperties"), Mapping) and id(other) in with_rules:
        yield other, place.below("additionalProperties", bound=schema.get("maxProperties"))
    if isinstance(items := schema.get("items"), Mapping) and id(items) in with_rules:
        is_lost = schema.get(LIST_TYPE) != "map"
        yield items, place.below("items", lost=is_lost, bound=schema.get("maxItems"))


def _total_refusals(costs: list[RuleCost], path: str) -> list[FieldError]:
    """Return the errors when all expressions of a schema are too costly together."""
    what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    refusal = _cost_refusal(what, min(sum(one.cost for one in costs), MOST), _TOTAL_LIMIT)
    if not refusal:
        return []
    costly = [one for one in costs if one.cost >= _TOTAL_LIMIT // 100]
    most = sorted(costly, key=lambda one: one.cost, reverse=True)[:_NAMED]
    return [*(forbidden(one.path, _CONTRIBUTED) for one in most), forbidden(path, refusal)]


def _cost_refusal(what: str, cost: int, limit: int = _LIMIT) -> str:
    """Return why an estimate is refused, `""` where it is within the limit."""
    factor = cost / limit
    if factor <= 1:
        return ""
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {shown} {_HINT}"


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
    wrong = {
        "must be non-empty if specified": not field.strip(),
        "must not contain line breaks": re.search(r"[\n\r]", field) is not None,
        "must be a valid path": not _normalized(schema, field),
    }
    return [invalid(f"{path}.fieldPath", field, words) for words, is_so in wrong.items() if is_so]


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
    rule: Rule, scope: Scope, path: str, place: _Place, costs: list[RuleCost]
) -> Iterator[FieldError]:
    is_old_optional, uses_old = bool(rule.get("optionalOldSelf")), False
    try:
        compiled = compile_rule(rule["rule"], scope, is_old_optional=is_old_optional)
    except CompilationError as error:
        said = str(error)
        yield _unusable(
            f"{path}.rule", rule, said if said.startswith(("compilation", "program")) else f"cel expression {said}"
        )
    else:
        uses_old = compiled.uses_old
        most = REQUEST_BYTES // (scope.of.least_bytes + 1) if place.most is None else place.most
        yield from _costs(f"{path}.rule", "estimated rule cost", min(compiled.cost * most, MOST), costs)
        if rule.get("messageExpression"):
            yield from _message_errors(rule, scope, path, costs)
    if not uses_old:
        if rule.get("optionalOldSelf") is not None:
            words = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{path}.optionalOldSelf", rule["optionalOldSelf"], words)
    elif place.uncorrelated:
        words = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {place.uncorrelated}"
        yield invalid(f"{path}.rule", rule["rule"], words)


def _message_errors(rule: Rule, scope: Scope, path: str, costs: list[RuleCost]) -> Iterator[FieldError]:
    here = f"{path}.messageExpression"
    try:
        message = compile_message(rule["messageExpression"], scope, is_old_optional=bool(rule.get("optionalOldSelf")))
    except CompilationError as error:
        yield _unusable(here, rule, f"messageExpression {error}")
    else:
        yield from _costs(here, "estimated messageExpression cost", message.cost, costs)


def _costs(path: str, what: str, cost: int, costs: list[RuleCost]) -> Iterator[FieldError]:
    costs.append(RuleCost(path, cost))
    if refusal := _cost_refusal(what, cost):
        yield forbidden(path, refusal)


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
    return invalid_whole(path, f"{encode_json(shown).decode()}: {why}")


class Findings(NamedTuple):
    """What the rules of a schema find in a value.

    Attributes:
        errors: The errors.
        ratcheted: Those of unchanged values, which are no errors: upstream warns of them.
    """

    errors: list[FieldError]
    ratcheted: list[FieldError]


class _Run(NamedTuple):
    """One validation of a value by the rules of a schema."""

    errors: list[FieldError]
    ratcheted: list[FieldError]
    budget: Budget | Tally

    def end(self, path: str, value: str, words: str) -> NoReturn:
        """Add the error of an evaluation after which there are no others."""
        self.errors.append(invalid(path or ROOT, value, words))
        raise _EndError


class _EndError(Exception):
    """No further rules are evaluated."""


class _CompiledRule(NamedTuple):
    """A rule of a schema, compiled."""

    program: Expression
    message: Expression | None
    rule: Rule
    field: str
    type: str

    def failure(self, value: Any, seen: Any, path: str, old: tuple[Any] | None, run: _Run) -> FieldError | None:
        """Return the error of a value that breaks the rule; one that has no result by it is added to the run.

        Args:
            value: The value.
            seen: The value for CEL.
            path: Its path.
            old: The old one, None for none.
            run: The validation.

        Raises:
            _EndError: The evaluation cost too much.
        """
        words = (self.rule.get("message") or self.rule["rule"]).strip()
        try:
            if self.program.evaluate(seen, old, run.budget) is True:
                return None
        except OutOfBudgetError:
            run.end(path, self.type, _OUT_OF_BUDGET)
        except CostExceededError as error:
            run.end(path, self.type, f"'{error}': {_TOO_COSTLY}: {words}")
        except EvaluationError as error:
            mismatch = str(error).startswith("no such overload")
            detail = f"'{error}': {_MISMATCH}: {words}" if mismatch else f"{error} evaluating rule: {words}"
            run.errors.append(invalid(path or ROOT, self.type, detail))
            return None
        separator = "." if path and self.field and not self.field.startswith("[") else ""
        where = f"{path}{separator}{self.field}"
        return self._refusal(where or ROOT, value, self._detail(seen, old, where, run))

    def _detail(self, seen: Any, old: tuple[Any] | None, path: str, run: _Run) -> str:
        if self.message is not None:
            try:
                text = str(self.message.evaluate(seen, old, run.budget)).strip()
                if text and "\n" not in text and len(text.encode()) <= _LONGEST_MESSAGE:
                    return text
            except OutOfBudgetError:
                run.end(path, self.type, _MESSAGE_OUT_OF_BUDGET)
            except CostExceededError:
                source = json.dumps(self.rule["messageExpression"], ensure_ascii=False)
                run.end(path, self.type, f"{_TOO_COSTLY.removesuffix('rule')}messageExpression: {source}")
            except EvaluationError:
                # The message, or the rule, is shown then.
                pass
        return (self.rule.get("message") or "").strip() or f"failed rule: {self.rule['rule'].strip()}"

    def _refusal(self, path: str, value: Any, detail: str) -> FieldError:
        match self.rule.get("reason"):
            case "FieldValueForbidden":
                return forbidden(path, detail)
            case "FieldValueRequired":
                return required(path, detail)
            case "FieldValueDuplicate":
                is_shown = not isinstance(value, dict | list)
                return duplicate(path, value) if is_shown else FieldError(path, _DUPLICATE, "Duplicate value")
        return invalid_whole(path, detail) if isinstance(value, dict | list) else invalid(path, value, detail)


def rule_errors(schema: Schema, value: Any) -> list[FieldError]:
    """Return the errors of a value by the rules of a schema, which compile; without an old value."""
    check = compile_rules(schema, is_root=False)
    return [] if check is None else check(value, ABSENT).errors


def compile_rules(schema: Schema, *, is_root: bool = True) -> RuleCheck | None:
    """Return the check of the rules in a schema; None where there are none.

    Args:
        schema: The schema.
        is_root: Whether its values are whole objects.
    """
    look = _compile_rules(schema, _with_rules(schema), is_root=is_root)
    if look is None:
        return None

    def check(value: Any, old: Any) -> Findings:
        size = size_of(value, None if old is ABSENT else old)
        with suppress(UnmeteredError):
            tally = Tally(size)
            found = _findings(look, value, old, tally)
            tally.judge()
            return found
        with suppress(UnmeteredError):
            return _findings(look, value, old, Budget(_BUDGET, size))
        return _findings(look, value, old, Budget(_BUDGET, size, is_metered=True))

    return check


def _findings(look: _Check, value: Any, old: Any, budget: Budget | Tally) -> Findings:
    run = _Run([], [], budget)
    with suppress(_EndError):
        look(value, "", old, False, run)
    return Findings(run.errors, run.ratcheted)


def _compile_rules(schema: Any, with_rules: set[int], *, is_root: bool = False) -> _Check | None:
    if id(schema) not in with_rules:
        return None
    own = _own_check(schema, is_root=is_root or bool(schema.get(EMBEDDED)))
    descend = _descent(schema, with_rules)

    def check(value: Any, path: str, old: Any, unchanged: bool, run: _Run) -> None:
        if value is None:
            return
        # What is in an unchanged value is unchanged.
        unchanged = unchanged or (old is not ABSENT and same_json(old, value))
        own(value, path, old, unchanged, run)
        descend(value, path, old, unchanged, run)

    return check


def _compiled(rule: Rule, scope: Scope, schema: Schema) -> _CompiledRule:
    is_old_optional, message = bool(rule.get("optionalOldSelf")), None
    if rule.get("messageExpression"):
        message = compile_message(rule["messageExpression"], scope, is_old_optional=is_old_optional)
        # Upstream evaluates messages with `oldSelf` as a plain value, so that such a message always fails.
        if message.uses_old and is_old_optional:
            message = None
    return _CompiledRule(
        compile_rule(rule["rule"], scope, is_old_optional=is_old_optional),
        message,
        rule,
        _normalized(schema, rule.get("fieldPath") or ""),
        schema.get("type") or "",
    )


def _own_check(schema: Schema, *, is_root: bool) -> _Check:
    """Return the check of a value by the rules of its own schema, which are compiled for the first one."""

    @cache
    def rules() -> list[_CompiledRule]:
        of = declared(schema, is_root=is_root) if schema.get(RULES) else None
        scope = None if of is None else Scope.over(of)
        return [] if scope is None else [_compiled(rule, scope, schema) for rule in schema[RULES]]

    @cache
    def bound() -> Bound:
        """Return what a round of any rule or message costs at most."""
        expressions = [part.program for one in rules() for part in (one.program, one.message) if part is not None]
        return reduce(Bound.union, (one.bound for one in expressions))

    @cache
    def convert() -> Callable[[Any], Any] | None:
        return converter(schema)

    def check(value: Any, path: str, old: Any, unchanged: bool, run: _Run) -> None:
        if not (compiled := rules()):
            return
        if run.budget.is_spent:
            run.end(path, schema.get("type") or "", _OUT_OF_BUDGET)
        run.budget.expect(2 * len(compiled), bound())
        converted = convert()
        seen = value if converted is None else converted(value)
        had = None if old is ABSENT or old is None else (old if converted is None else converted(old),)
        for one in compiled:
            if one.program.uses_old and had is None and not one.rule.get("optionalOldSelf"):
                continue
            error = one.failure(value, seen, path, had, run)
            if error is not None:
                (run.ratcheted if unchanged and not one.program.uses_old else run.errors).append(error)

    return check


def _descent(schema: Schema, with_rules: set[int]) -> _Check:
    """Return the check of the fields, entries and items of a value."""
    fields = {
        name: made
        for name, one in (schema.get("properties") or {}).items()
        if (made := _compile_rules(one, with_rules))
    }
    check_other = _compile_rules(schema.get("additionalProperties"), with_rules)
    check_item = _compile_rules(schema.get("items"), with_rules)

    def check(value: Any, path: str, old: Any, unchanged: bool, run: _Run) -> None:
        if isinstance(value, list) and check_item is not None:
            before = correlation(schema, old)
            for position, one in enumerate(value):
                check_item(one, f"{path}[{position}]", before(one), unchanged, run)
        elif isinstance(value, dict):
            earlier = old if isinstance(old, dict) else {}
            for name, one in value.items():
                if (check_field := fields.get(name)) is not None:
                    check_field(one, f"{path}.{name}" if path else name, earlier.get(name, ABSENT), unchanged, run)
                elif check_other is not None:
                    check_other(one, f"{path}[{name}]", earlier.get(name, ABSENT), unchanged, run)

    return check
