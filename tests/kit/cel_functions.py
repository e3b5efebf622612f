"""Calls of the functions of expressions with values, as the evaluator makes them."""

from typing import Any

from kcr_devcluster.apiserver.cel.libraries import functions
from kcr_devcluster.apiserver.cel.values import EvaluationError, Optional, type_name


def call(name: str, *arguments: Any) -> Any:
    """Return what a function answers: a value, or the text of its error after `error: `.

    Args:
        name: The function's name.
        arguments: Its arguments, the receiver first.
    """
    for overload in functions(with_patches=True)[name]:
        if len(overload.parameters) == len(arguments) and all(map(_fits, arguments, overload.parameters)):
            try:
                return overload.call(*arguments)
            except EvaluationError as error:
                return f"error: {error}"
    raise AssertionError(f"{name} has no overload for {arguments}")


def _fits(value: Any, wanted: str) -> bool:
    kind, _, inner = wanted.partition("(")
    if len(wanted) == 1 or wanted == "dyn":
        return True
    return kind == type_name(value) and (kind != "list" or not value or _fits(value[0], inner[:-1]))


def same(one: Any, other: Any) -> bool:
    """Return whether two answers are the same, in their types as well; to this, NaN is itself, and zero has a sign.

    Args:
        one: An answer.
        other: Another.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, Optional):
        return one.has_value == other.has_value and same(one.content, other.content)
    return repr(one) == repr(other)
