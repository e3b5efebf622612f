"""Expressions over the values of a schema, such as the rules of a definition.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/compilation.go.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kcr_devcluster.apiserver.cel.checker import Checked, Environment, check, inner_nodes
from kcr_devcluster.apiserver.cel.costs import Estimator
from kcr_devcluster.apiserver.cel.declared import Declared, DeclaredTypes
from kcr_devcluster.apiserver.cel.literals import check_literals
from kcr_devcluster.apiserver.cel.metering import Budget, Metered, Tally, compile_program
from kcr_devcluster.apiserver.cel.parser import parse
from kcr_devcluster.apiserver.cel.syntax import CompilationError, Ident, Node, SyntaxIssue, shown
from kcr_devcluster.apiserver.cel.types import BOOL, STRING, CelType, optional_of
from kcr_devcluster.apiserver.cel.values import NONE, Optional

SELF, OLD = "self", "oldSelf"


class Scope(NamedTuple):
    """What the rules of a schema may name.

    Attributes:
        of: The declared type of `self` and `oldSelf`.
        environment: With `oldSelf` as a value.
        optional: With `oldSelf` as an optional value.
        types: The types of the objects.
    """

    of: Declared
    environment: Environment
    optional: Environment
    types: DeclaredTypes

    @classmethod
    def over(cls, of: Declared) -> "Scope":
        """Return the scope of the rules of a schema, given its declared type."""
        types = DeclaredTypes({SELF: of})
        with_old = Environment({SELF: of.type, OLD: of.type}, types)
        return cls(of, with_old, with_old._replace(variables={SELF: of.type, OLD: optional_of(of.type)}), types)


class Rule(NamedTuple):
    """A compiled expression.

    Attributes:
        program: Its program.
        cost: What an evaluation may cost at most.
        uses_old: Whether it names `oldSelf`.
        is_old_optional: Whether `oldSelf` is an optional value.
    """

    program: Metered
    cost: int
    uses_old: bool
    is_old_optional: bool

    def evaluate(self, value: Any, old: tuple[Any] | None, budget: Budget | Tally) -> Any:
        """Return the expression's value.

        Args:
            value: `self`.
            old: `oldSelf` in a tuple, None without it.
            budget: What it may cost.

        Raises:
            EvaluationError: It has none.
            CostExceededError: It takes too long.
            OutOfBudgetError: It takes too long together with others.
            UnmeteredError: It may do so.
        """
        before = None if old is None else old[0]
        if self.is_old_optional:
            before = NONE if old is None else Optional(True, before)
        return budget.evaluate(self.program, (value, before))


def compile_rule(text: str, scope: Scope, *, wanted: CelType = BOOL, is_old_optional: bool = False) -> Rule:
    """Return an expression over the values of a schema.

    Args:
        text: The expression.
        scope: What it may name.
        wanted: The type of its value.
        is_old_optional: Whether `oldSelf` is an optional value.

    Raises:
        CompilationError: It is no expression, or has another type.
    """
    try:
        checked = compiled(text, scope.optional if is_old_optional else scope.environment)
    except CompilationError as error:
        raise CompilationError(f"compilation failed: {error}") from None
    if checked.result != wanted:
        raise CompilationError(f"must evaluate to {'a bool' if wanted == BOOL else 'a string'}")
    cost = Estimator(checked, scope.of).cost(checked.root)
    program = compile_program(checked, scope.types)
    return Rule(program, cost.most, names_variable(checked, OLD), is_old_optional)


def compiled(text: str, environment: Environment) -> Checked:
    """Return an expression whose types and literals are checked.

    Args:
        text: The expression.
        environment: What it may name.

    Raises:
        CompilationError: It is no expression, or its types do not fit.
    """
    try:
        checked = check(parse(text), environment)
        check_literals(checked)
    except RecursionError:
        words = "expression recursion limit exceeded: 250"
        raise CompilationError(shown(text, [SyntaxIssue(0, words)])) from None
    return checked


def names_variable(checked: Checked, name: str) -> bool:
    """Return whether an expression names a variable."""
    return any(isinstance(node, Ident) and node.name == name for node in _all_nodes(checked.root))


def _all_nodes(node: Node) -> Iterator[Node]:
    yield node
    for inner in inner_nodes(node):
        yield from _all_nodes(inner)


def compile_message(text: str, scope: Scope, *, is_old_optional: bool) -> Rule:
    """Return an expression whose value is a message.

    Args:
        text: The expression.
        scope: What it may name.
        is_old_optional: Whether `oldSelf` is an optional value.

    Raises:
        CompilationError: It is no expression, or has another type.
    """
    return compile_rule(text, scope, wanted=STRING, is_old_optional=is_old_optional)
