"""Keywords that are written once: as the fields of a frozen struct.

```python
@Keywords(ControllerOptions)
def add(self, options: ControllerOptions) -> None: ...
```

is called as `add(workers=3)`, and has the options as one value to hand on. Type checkers and editors take names, types
and defaults from the struct; `help` and the reference take them from the signature. A text among the annotations of a
field describes it.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import (
    Annotated,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeVar,
    get_origin,
    get_type_hints,
    overload,
)

import msgspec

from kcr.arguments import called, check_of_call, refuse, refuse_unknown

# pytest shows the call, not these functions.
__tracebackhide__ = True
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class Flag(NamedTuple):
    """How an option is shown and spelled where its field does not say so.

    Attributes:
        metavar: Its value, as the help names it; empty for choices and truths.
        default: The default in words, where the value itself says little.
        short: Another spelling, such as `-n`.
        negation: Whether a truth has the option `--no-…` as well.
        guide: The place in docs/guide that says more, such as `observe.md#traces`.
    """

    metavar: str = ""
    default: str = ""
    short: str = ""
    negation: bool = False
    guide: str = ""


class Keywords(Generic[P, S]):
    """A decorator that makes the fields of a struct, a function's last argument, keywords of the function."""

    def __init__(self, kind: Callable[P, S]) -> None:
        """Make the decorator.

        Args:
            kind: The struct; its fields are keyword-only and have defaults.
        """
        self._kind: Any = kind

    @overload
    def __call__(self, function: Callable[[A, S], R], /) -> Callable[Concatenate[A, P], R]: ...

    @overload
    def __call__(self, function: Callable[[A, B, S], R], /) -> Callable[Concatenate[A, B, P], R]: ...

    @overload
    def __call__(self, function: Callable[[A, B, C, S], R], /) -> Callable[Concatenate[A, B, C, P], R]: ...

    def __call__(self, function: Callable[..., Any], /) -> Callable[..., Any]:
        """Return the function with keywords."""
        kind = self._kind

        @wraps(function)
        def call(*arguments: Any, **given: Any) -> Any:
            if len(arguments) != len(names) or names.keys() & given.keys():
                placed = " and ".join(name for name in names if name != "self")
                refuse(f"{called(function)}: give it {placed} by place, options by name")
            check_of_call(function)(arguments, {})
            refuse_unknown(f"{called(function)}: no option", given, known)
            return function(*arguments, kind(**given))

        known, names = kind.__struct_fields__, dict.fromkeys([*inspect.signature(function).parameters][:-1])

        *leading, _ = inspect.signature(function).parameters.values()
        types = get_type_hints(kind)
        keywords = (
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=one.default_factory() if one.default is msgspec.NODEFAULT else one.default,
                annotation=types[one.name],
            )
            for one in msgspec.structs.fields(kind)
        )
        made = inspect.signature(function).replace(parameters=(*map(_bare, leading), *keywords))
        call.__signature__ = made  # type: ignore[attr-defined]  # `inspect` reads it
        return call


def _bare(parameter: inspect.Parameter) -> inspect.Parameter:
    hint = parameter.annotation
    return parameter.replace(annotation=hint.__origin__) if get_origin(hint) is Annotated else parameter
