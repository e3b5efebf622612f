"""The Common Expression Language: expressions are compiled and evaluated by Google's library, loaded with the first.

The library knows the types of scalars, lists and maps; objects with fields are maps of anything to it. Times and
durations cannot lie inside of other values there: where an expression names such a field of `self`, it gets a variable.

Source: kubernetes/staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/{compilation,validation}.go.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import msgspec

from kcr_devcluster.apiserver.structural.cel.analysis import analyse, error_at
from kcr_devcluster.apiserver.structural.cel.library import (
    FOR_EVALUATION,
    LIBRARIES,
    OPTIONAL_VERSION,
    STRINGS_VERSION,
    kubernetes_functions,
    library_type,
    map_functions,
)
from kcr_devcluster.apiserver.structural.cel.values import escape, temporal, type_of
from kcr_devcluster.apiserver.structural.shapes import Schema

LIBRARY = "cel-expr-python"
OVER_BUDGET = "operation cancelled: actual cost limit exceeded"
# Texts and comments, in which nothing is named.
_NO_CODE = re.compile(
    r"""//[^\n]*|[rR]?("""
    + r'"""(?:\\.|[^\\])*?"""'
    + r"|'''(?:\\.|[^\\])*?'''"
    + r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
)
_OLD = re.compile(r"\boldSelf\b")
_SELECTED = re.compile(r"\.\s*\w+")
_LINE = re.compile(r"<input>:(\d+):")
# The library's error messages, and cel-go's. A test has the exact messages of both.
_ERRORS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r'Key not found in map : "?(.*?)"?'), r"no such key: \1"),
    (re.compile(r'No value with name "(?:.*\.)?(.*)" found in Activation'), r"no such key: \1"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"No matching overloads found.*", re.DOTALL), "no such overload"),
    (re.compile(r"'.*' not supported between instances of .*|unsupported operand type.*"), "no such overload"),
    (re.compile(r"Applying SELECT to non-message type"), "no such overload"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"(.*)", re.DOTALL), r"\1"),
)
# The library needs bindings for an optional `oldSelf`; expressions do not have them.
_UNDECLARED = "undeclared reference to '{}' (in container '')"
_BIND = re.compile(r"\bcel\s*\.\s*bind\s*\(")
_MIXED_NUMBERS = re.compile(
    r"found no matching overload for '_[<>]=?_' applied to '\((?:int|uint|double), (?:int|uint|double)\)'"
)
_OPEN_LISTS = re.compile(r"found no matching overload for '(?:_[!=]=_|_\+_|@in)' applied to '\(.*\blist\(.*\)'")
_OF_LISTS = re.compile(r"\.(?:distinct|reverse|slice|sort|sortBy|flatten)\(")
_WITH_OPTIONAL = "cel.bind(oldSelf, hasOldSelf__ ? optional.of(oldSelf__) : optional.none(),\n{}\n)"


class CompilationError(Exception):
    """An expression that does not compile; the message is cel-go's."""


class EvaluationError(Exception):
    """An expression that has no value for an object; the message is cel-go's."""


class Scope(NamedTuple):
    """The variables that an expression may name.

    Attributes:
        schema: The schema of `self` and `oldSelf`.
        optional_old: Whether `oldSelf` is an optional value.
        is_root: Whether they are whole objects, with a kind and metadata.
    """

    schema: Schema
    optional_old: bool = False
    is_root: bool = False


class Program(NamedTuple):
    """A compiled expression.

    Attributes:
        evaluate: Returns the value for `self` and, in a tuple of one, `oldSelf`; raises `EvaluationError`.
        uses_old: Whether the expression names `oldSelf`.
    """

    evaluate: Callable[[Any, tuple[Any] | None], Any]
    uses_old: bool


@cache
def is_available() -> bool:
    """Return whether the library is installed."""
    return find_spec("cel_expr_python") is not None


def uses_old(expression: str) -> bool:
    """Return whether an expression names `oldSelf`."""
    return _OLD.search(_SELECTED.sub("", _code(expression))) is not None


def _code(expression: str) -> str:
    """Return an expression with blanks in place of its texts and comments."""
    return _NO_CODE.sub(lambda found: " " * len(found[0]), expression)


def compile_expression(expression: str, scope: Scope, wanted: str) -> Program:
    """Compile an expression.

    Args:
        expression: The expression.
        scope: The variables that it may name.
        wanted: `bool` or `string`, the type of its value.

    Raises:
        CompilationError: It is no expression, or has another type.
    """
    if (bind := _BIND.search(_code(expression))) is not None:
        raise CompilationError(f"compilation failed: {error_at(expression, bind.start(), _UNDECLARED.format('cel'))}")
    text, offset = expression, 0
    if scope.optional_old and uses_old(expression):
        text, offset = _WITH_OPTIONAL.format(expression), 1
    moments = _moments(scope.schema)
    text = _substituted(text, moments)
    variables = tuple(sorted((variable, kind) for variable, kind in moments.values()))
    program = _compile(_environment(type_of(scope.schema), variables), text, offset)
    if "transformMap" in text:
        program = _environment(type_of(scope.schema), variables, with_maps=True).deserialize(program.serialize())
    if program.return_type().name().lower() not in (wanted, "dyn"):
        article = "a bool" if wanted == "bool" else "a string"
        raise CompilationError(f"must evaluate to {article}")
    names = tuple((name, variable) for name, (variable, _) in moments.items() if variable in text)
    return Program(_evaluator(program, scope, names), uses_old(expression))


def compile_search(pattern: str) -> Callable[[str], bool]:
    """Return the search of a regular expression by RE2, in linear time.

    Raises:
        CompilationError: RE2 refuses the pattern, or it needs too much memory.
    """
    text = f"self.matches({msgspec.json.encode(pattern).decode()})"
    program = _compile(_environment("string", ()), text, 0)
    return lambda text: program.eval(data={"self": text}).value() is True


def check_types(expression: str, scope: Scope) -> int:
    """Refuse an expression that compiles, and whose fields are not there or have types that do not fit.

    Returns:
        How often its macros may go round, for one value.

    Raises:
        CompilationError: It does.
    """
    try:
        program = _environment(type_of(scope.schema), ()).compile(expression)
    except RuntimeError:
        # It needs variables that this environment lacks: an optional `oldSelf`, or those for times.
        return 1
    known = {"self": scope.schema} if scope.optional_old else {"self": scope.schema, "oldSelf": scope.schema}
    found = analyse(program.serialize(), expression, known, is_root=scope.is_root)
    if found.errors:
        raise CompilationError(f"compilation failed: {chr(10).join(found.errors)}")
    return found.rounds


def _compile(environment: Any, text: str, offset: int) -> Any:
    try:
        return environment.compile(text)
    except RuntimeError as error:
        if is_fit(str(error), text):
            return environment.compile(text, disable_check=True)
        said = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        said = _LINE.sub(lambda found: f"<input>:{int(found[1]) - offset}:", said)
        raise CompilationError(f"compilation failed: {said}") from None


def is_fit(said: str, text: str) -> bool:
    """Return whether only the library's checker refuses an expression, which can be evaluated without the check.

    The checker does not compare numbers of different types. To it, a field of an object has any type, and a function of
    lists, called on such a field, returns a list of the first type that the function has.
    """
    count = said.count("ERROR: ")
    if not count:
        # It is nested too deeply.
        return False
    return count == len(_MIXED_NUMBERS.findall(said)) or (
        count == len(_OPEN_LISTS.findall(said)) and _OF_LISTS.search(text) is not None
    )


def _evaluator(
    program: Any, scope: Scope, moments: tuple[tuple[str, str], ...]
) -> Callable[[Any, tuple[Any] | None], Any]:
    def evaluate(value: Any, old: tuple[Any] | None) -> Any:
        data = {"self": value}
        if scope.optional_old:
            data |= {"hasOldSelf__": old is not None, "oldSelf__": None if old is None else old[0]}
        elif old is not None:
            data["oldSelf"] = old[0]
        for name, variable in moments:
            root, *path = name.split(".")
            if (found := temporal(_at(data.get(root), path))) is not None:
                data[variable] = found
        try:
            result = program.eval(data=data)
        except RuntimeError as error:
            # The library limits the number of iterations, as cel-go limits their cost.
            raise EvaluationError(OVER_BUDGET if "budget exceeded" in str(error) else str(error)) from None
        if result.type().name() == "ERROR":
            raise EvaluationError(in_words_of_cel_go(str(result.value())))
        return result.value()

    return evaluate


def _at(value: Any, path: Sequence[str]) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def in_words_of_cel_go(said: str) -> str:
    """Return the message that cel-go has for an error of the library."""
    text = said.partition(": ")[2] if re.match(r"[A-Z_]+: ", said) else said
    return next(found.expand(words) for pattern, words in _ERRORS if (found := pattern.fullmatch(text)))


def _moments(schema: Schema) -> dict[str, tuple[str, str]]:
    """Return the fields with times and durations, as expressions name them: the variable of each, and its type."""
    return {
        f"{root}.{path}": (f"{root}__{path.replace('.', '__')}", kind)
        for root in ("self", "oldSelf")
        for path, kind in _temporal_fields(schema)
    }


def _temporal_fields(schema: Schema) -> Iterator[tuple[str, str]]:
    for name, inner in (schema.get("properties") or {}).items():
        kind = type_of(inner)
        if kind in ("timestamp", "duration"):
            yield escape(name), kind
        elif kind == "dyn":
            yield from ((f"{escape(name)}.{path}", found) for path, found in _temporal_fields(inner))


def _substituted(text: str, moments: Mapping[str, tuple[str, str]]) -> str:
    """Return an expression with variables in place of the fields that it reads; the argument of `has` stays a field."""
    if not moments:
        return text
    names = "|".join(re.escape(name) for name in sorted(moments, key=len, reverse=True))
    pattern = re.compile(rf"{_NO_CODE.pattern}|(\bhas\(\s*)?(?<![\w.])({names})(?![\w(])")

    def variable(found: re.Match[str]) -> str:
        *_, has, name = found.groups()
        return found[0] if has or name is None else moments[name][0]

    return pattern.sub(variable, text)


@lru_cache(256)
def _environment(self_type: str, moments: tuple[tuple[str, str], ...], *, with_maps: bool = False) -> Any:
    """Return the environment that compiles expressions, or, with the functions of maps, evaluates compiled ones."""
    from cel_expr_python import cel  # noqa: PLC0415  # loaded with the first expression
    from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings  # noqa: PLC0415

    variables: Mapping[str, Any] = {
        "self": library_type(self_type), "oldSelf": library_type(self_type), "oldSelf__": library_type(self_type),
        "hasOldSelf__": cel.Type.BOOL, **{name: library_type(kind) for name, kind in moments},
    }  # fmt: skip
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(FOR_EVALUATION if with_maps else LIBRARIES),
        variables=variables,
        extensions=[
            ext_optional.ExtOptional(OPTIONAL_VERSION), ext_strings.ExtStrings(STRINGS_VERSION),
            ext_bindings.ExtBindings(), kubernetes_functions(), *([map_functions()] if with_maps else ()),
        ],
    )  # fmt: skip
