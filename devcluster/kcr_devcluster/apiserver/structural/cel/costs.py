"""How often an expression may be evaluated, and the bodies of its macros: rules that could take too long are refused.

Upstream estimates the cost of every operation. This module counts only factors, namely the items of lists and
maps that macros iterate over, and operations without a bound: appending to a text of unknown length. So an estimate is
never above upstream's, and upstream refuses every rule that is refused here.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go, estimateMaxArrayItemsFromMinSize;
pkg/apis/cel/config.go; kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/
{validation,cel_validation}.go, getCostErrorMessage.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kcr_devcluster.apiserver.structural.shapes import Schema

_LIMIT, _TOTAL_LIMIT = 10_000_000, 100_000_000
# So many of the most costly expressions are named.
_NAMED = 4
_CONTRIBUTED = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
_REQUEST_BYTES = 3 * 1024 * 1024
# The least bytes that a value takes in a request, by its type.
_LEAST = {"boolean": 4, "integer": 1, "number": 1, "string": 2, "array": 2}
_HINT = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


def most_items(schema: Schema) -> int:
    """Return how many items a list or a map can have, in a request of the largest size if nothing else limits it."""
    if schema.get("type") == "array":
        bound, inner, overhead = schema.get("maxItems"), schema.get("items"), 1
    else:
        bound, inner, overhead = schema.get("maxProperties"), schema.get("additionalProperties"), 6
    if bound is not None:
        return int(bound)
    return (_REQUEST_BYTES - 2) // (_least_bytes(inner if isinstance(inner, Mapping) else {}) + overhead)


def _least_bytes(schema: Schema) -> int:
    if schema.get("type") != "object":
        return _LEAST.get(schema.get("type") or "", 1)
    fields, needed = schema.get("properties") or {}, schema.get("required") or ()
    return 2 + sum(len(name) + 4 + _least_bytes(fields[name]) for name in needed if name in fields)


def cardinality(schema: Schema, bounds: tuple[Schema, ...]) -> int:
    """Return how many values of a schema an object can have.

    Args:
        schema: The schema.
        bounds: The lists and maps that it lies in.
    """
    count = 1
    for one in bounds:
        if one.get("maxItems") is None and one.get("maxProperties") is None:
            return _REQUEST_BYTES // (_least_bytes(schema) + 1)
        count *= most_items(one)
    return count


class RuleCost(NamedTuple):
    """The estimated cost of an expression, and its path."""

    path: str
    cost: int


def total_refusals(costs: Sequence[RuleCost], path: str) -> list[tuple[str, str]]:
    """Return the paths and messages of the errors when all expressions of a schema are too costly together.

    Args:
        costs: The estimates.
        path: The path of the schema.
    """
    what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    refusal = cost_refusal(what, sum(one.cost for one in costs), _TOTAL_LIMIT)
    if not refusal:
        return []
    most = sorted((one for one in costs if one.cost > 1), key=lambda one: one.cost, reverse=True)[:_NAMED]
    return [*((one.path, _CONTRIBUTED) for one in most), (path, refusal)]


def cost_refusal(what: str, cost: int, limit: int = _LIMIT) -> str:
    """Return why an estimate is refused, `""` where it is within the limit.

    Args:
        what: The name of the estimate, such as `estimated rule cost`.
        cost: The estimate.
        limit: The limit.
    """
    factor = cost / limit
    if factor <= 1:
        return ""
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {shown} {_HINT}"
