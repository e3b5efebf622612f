"""How often an expression may be evaluated, and the bodies of its macros: rules that could take too long are refused.

Upstream estimates the cost of every operation. Here only what multiplies is counted, the items of lists and maps that
macros go through; so an estimate is never above upstream's, and what is refused here is refused there.

Source: kubernetes/staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go, estimateMaxArrayItemsFromMinSize;
pkg/apis/cel/config.go; kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation/
{validation,cel_validation}.go, getCostErrorMessage.
"""

from collections.abc import Mapping

from kcr.apiserver.structural.shapes import Schema

_LIMIT = 10_000_000
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


def cost_refusal(what: str, cost: int) -> str:
    """Return why an expression is refused, `""` where it is cheap enough.

    Args:
        what: What the cost is of, `rule` or `messageExpression`.
        cost: The estimate.
    """
    factor = cost / _LIMIT
    if factor <= 1:
        return ""
    shown = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"estimated {what} cost exceeds budget by factor of {shown} {_HINT}"
