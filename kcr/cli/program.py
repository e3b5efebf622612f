"""`kcr.run`: controllers as a program, with the command line of `kcr run`."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, get_type_hints

import msgspec

from kcr.app.fields import fields_of
from kcr.app.options import ProgramOptions
from kcr.app.plugins import Setup
from kcr.cli.run import run_program

P = ParamSpec("P")


class _Keywords(ProgramOptions, frozen=True, kw_only=True):
    """The keywords of `kcr.run`."""

    args: Sequence[str] | None = None


def _with_keywords(
    kind: Callable[P, _Keywords],
) -> Callable[[Callable[[Setup, Mapping[str, Any]], None]], Callable[Concatenate[Setup, P], None]]:
    """Return a decorator that makes the fields of a struct the keywords of a function.

    Type checkers and editors take names and types from the struct; `help` and the reference from the signature.
    """

    def decorate(function: Callable[[Setup, Mapping[str, Any]], None]) -> Callable[Concatenate[Setup, P], None]:
        @wraps(function)
        def call(setup: Setup, /, *args: P.args, **given: P.kwargs) -> None:
            function(setup, msgspec.structs.asdict(kind(*args, **given)))

        types, first = get_type_hints(_Keywords), inspect.Parameter("setup", inspect.Parameter.POSITIONAL_ONLY)
        keywords = (
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=types[one.name])
            for one in fields_of(_Keywords)
        )
        made = inspect.Signature((first, *keywords), return_annotation=None)
        call.__signature__ = made  # type: ignore[attr-defined]  # `inspect` looks for it
        return call

    return decorate


@_with_keywords(_Keywords)
def run(setup: Setup, keywords: Mapping[str, Any]) -> None:
    """Run controllers as a program, until SIGTERM or SIGINT; what cannot be used is one line and exit code 1 or 2.

    Before the controllers run, the program checks that the server answers, serves every kind that they watch, and
    allows to list and watch it.

    The program has the options of `kcr run`, but those of kcr's own controllers (`--kube-api-qps`, …, and `--help`,
    which shows the docstring of `setup`), and reads the same variables (`KCR_KUBE_API_QPS`, …). Each is a keyword here
    as well: `kcr.run(setup, kube_api_qps=50)`. An option takes precedence over a variable, and a variable over a
    keyword.

    A program with options of its own parses them first, and passes the arguments that are left, or none:
    `kcr.run(setup, args=[])`. The variables are read all the same.

    Args:
        setup: Adds the controllers to a manager: `setup(manager)`, or `setup(manager, options)`, where the annotation
            of `options` is a struct whose fields are read from `KCR_` and their names.
        keywords: The options of `kcr run` by name, and `args`: the arguments to read them from; None for those of the
            command line.
    """
    values = dict(keywords)
    run_program(setup, values.pop("args"), values)
