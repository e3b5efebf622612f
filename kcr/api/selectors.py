"""Label selectors: which labels match, and the text form that queries use."""

from collections.abc import Mapping

from kcr.api.meta import Object


class Requirement(Object):
    """One expression of a selector. Operators: `In`, `NotIn`, `Exists`, `DoesNotExist`."""

    key: str
    operator: str
    values: tuple[str, ...] | None = None


class LabelSelector(Object):
    """All labels and all expressions must hold. One without either matches everything."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Return whether labels satisfy a selector.

    Raises:
        ValueError: An expression has an operator that does not exist.
    """
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    return all(_holds(requirement, labels) for requirement in selector.match_expressions)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement.key), requirement.values or ()
    match requirement.operator:
        case "In":
            return value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case unknown:
            raise ValueError(f"{unknown!r} is not a valid label selector operator")


def text(selector: LabelSelector) -> str:
    """Return the form used in queries and printed by kubectl, such as `app=web,tier in (a,b)`."""
    terms = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    for requirement in selector.match_expressions:
        values = ",".join(sorted(requirement.values or ()))
        forms = {
            "In": f"{requirement.key} in ({values})", "NotIn": f"{requirement.key} notin ({values})",
            "Exists": requirement.key, "DoesNotExist": f"!{requirement.key}",
        }  # fmt: skip
        terms.append(forms[requirement.operator])
    return ",".join(terms)
