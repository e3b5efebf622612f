"""Comprehensions: what the macros `all`, `exists`, `map` and `filter` become, and any other one."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.cel.steps import NO_OVERLOAD, Frame, Step, attempt, pay
from kcr_devcluster.apiserver.cel.syntax import Call, Comprehension, Constant, Ident, ListLiteral, Node
from kcr_devcluster.apiserver.cel.values import EvaluationError, type_name

_GO_TYPES: Mapping[str, str] = {
    "int": "Int", "uint": "Uint", "double": "Double", "bool": "Bool", "string": "String", "bytes": "Bytes",
    "null_type": "Null", "timestamp": "Timestamp", "duration": "Duration",
}  # fmt: skip


class Rounds(NamedTuple):
    """What a comprehension goes over.

    Attributes:
        over: The step of the list or map.
        first: The slot of the variable.
        second: The slot of a second variable, 0 for none.
        cost: What a round costs at least.
    """

    over: Step
    first: int
    second: int
    cost: int

    def values(self, frame: Frame) -> Any:
        """Return the list or map, after its rounds were paid."""
        found = self.over(frame)
        if not isinstance(found, list | dict):
            kind = type_name(found)
            raise EvaluationError(f"got 'types.{_GO_TYPES.get(kind, kind)}', expected iterable type")
        return found

    def pairs(self, found: Any) -> Any:
        """Return the values of two variables for each round."""
        return enumerate(found) if isinstance(found, list) else list(found.items())

    def items(self, frame: Frame) -> Any:
        """Yield once a round, after its variables are set."""
        found = self.values(frame)
        first, second, cost = self.first, self.second, self.cost
        if second:
            for one, other in self.pairs(found):
                pay(frame, cost)
                frame[first], frame[second] = one, other
                yield
        else:
            for one in found if isinstance(found, list) else list(found):
                pay(frame, cost)
                frame[first] = one
                yield


def _is_named(node: Node, name: str) -> bool:
    return isinstance(node, Ident) and node.name == name


def all_or_exists(node: Comprehension) -> tuple[Node, bool] | None:
    """Return the predicate of `all` or `exists`, and which of its values decides; None for other comprehensions."""
    if not isinstance(node.start, Constant) or not isinstance(node.start.value, bool):
        return None
    step, decides = node.step, not node.start.value
    if not isinstance(step, Call) or step.function != ("_||_" if decides else "_&&_"):
        return None
    if not _is_named(node.result, node.accumulator) or not _is_named(step.arguments[0], node.accumulator):
        return None
    return step.arguments[1], decides


def decided(rounds: Rounds, predicate: Step, *, decides: bool) -> Step:
    """Return the function of `all` or `exists`.

    Args:
        rounds: What they go over.
        predicate: What is asked of each value.
        decides: Which answer is that for all of them.
    """

    def run(frame: Frame) -> bool:
        failed = None
        for _ in rounds.items(frame):
            try:
                found = predicate(frame)
            except EvaluationError as error:
                failed = failed or error
                continue
            if found is decides:
                return bool(decides)
            if found is not (not decides):
                failed = failed or EvaluationError(NO_OVERLOAD)
        if failed is not None:
            raise failed
        return not decides

    return run


def collected(node: Comprehension) -> tuple[Node | None, Node] | None:
    """Return the condition, None without one, and the item of `map` or `filter`; None for other comprehensions."""
    is_endless = isinstance(node.condition, Constant) and node.condition.value is True
    is_empty = isinstance(node.start, ListLiteral) and not node.start.items
    if not (is_endless and is_empty and _is_named(node.result, node.accumulator)):
        return None
    condition, step = None, node.step
    if isinstance(step, Call) and step.function == "_?_:_":
        condition, step, other = step.arguments
        if not _is_named(other, node.accumulator):
            return None
    if not isinstance(step, Call) or step.function != "_+_" or not _is_named(step.arguments[0], node.accumulator):
        return None
    added = step.arguments[1]
    if not isinstance(added, ListLiteral) or len(added.items) != 1 or added.optional:
        return None
    return condition, added.items[0]


def collection(rounds: Rounds, condition: Step | None, body: Step) -> Step:
    """Return the function of `map` or `filter`.

    Args:
        rounds: What they go over.
        condition: Which values are taken, None for all.
        body: What is made of a value.
    """
    if condition is None:
        return lambda frame: [body(frame) for _ in rounds.items(frame)]

    def run(frame: Frame) -> list[Any]:
        found = []
        for _ in rounds.items(frame):
            held = condition(frame)
            if held is True:
                found.append(body(frame))
            elif held is not False:
                raise EvaluationError(NO_OVERLOAD)
        return found

    return run


def general(rounds: Rounds, accumulator: int, start: Step, steps: tuple[Step, Step, Step]) -> Step:
    """Return the function of any comprehension.

    Args:
        rounds: What it goes over.
        accumulator: The slot of the accumulator.
        start: What that is at first.
        steps: The condition, what a round makes of the accumulator, and the result.
    """
    condition, step, result = steps

    def run(frame: Frame) -> Any:
        frame[accumulator] = attempt(start, frame)
        for _ in rounds.items(frame):
            if condition(frame) is False:
                break
            frame[accumulator] = attempt(step, frame)
        return result(frame)

    return run
