"""Options that are written once: as fields of a frozen struct.

From a field come the option of the command line, its variable, the keyword of `kcr.run`, the check of the value, and
the row of the reference:

```python
kube_api_burst: Annotated[int, Meta(ge=1), "Requests in a burst, under a limit.", Flag("N")] = 100
```

is `--kube-api-burst N` and `KCR_KUBE_API_BURST`. Of the annotations, a text is the description, and msgspec's `Meta`
has the bounds. A function reads the value in place of msgspec: it raises ValueError with a message that names the value
and the remedy. Structs of plugins are read in the same way, and need no annotation.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

import click
import msgspec
from click.core import ParameterSource
from click.shell_completion import CompletionItem
from msgspec import Meta

from kcr.annotations import BOUNDS, check_of, is_number, words_of
from kcr.api.bindaddress import BindAddress
from kcr.keywords import Flag

F = TypeVar("F", bound=Callable[..., Any])
Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_NOUNS: Mapping[Any, str] = {int: "a whole number", float: "a number", bool: "true or false"}
_TRUTHS = dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True) | dict.fromkeys(
    ("0", "f", "false", "n", "no", "off"), False
)
# Kinds of completion in a shell by the metavar of an option.
PATHS = {"DIR": "dir", "FILE": "file", "FOLDER": "dir"}


class OptionField(NamedTuple):
    """A field of a struct of options.

    Attributes:
        name: Its name.
        kind: Its type, with annotations.
        bare: Its type without them and without None.
        default: Its default; `msgspec.NODEFAULT` where it needs a value.
        help: Its description.
        flag: How it is shown.
        parse: Reads a value; None leaves that to msgspec.
        range: Its bounds as the help shows them, such as `x>=1`.
        bounds: The same in words, such as `at least 1`.
        expected: The expected value, such as `a whole number of at least 1`; empty when msgspec's message is better.
    """

    name: str
    kind: Any
    bare: Any
    default: Any
    help: str
    flag: Flag
    parse: Callable[[Any], Any] | None
    range: str
    bounds: str
    expected: str

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that it may have; empty for any."""
        return get_args(self.bare) if get_origin(self.bare) is Literal else ()

    @property
    def option(self) -> str:
        """The option without its value, such as `--kube-api-qps`."""
        return f"--{self.name.replace('_', '-')}"

    def read(self, given: object, shown: str) -> Any:
        """Return the value that is meant by a text, or by a value of another type.

        Args:
            given: The user's value.
            shown: Its name in an error.

        Raises:
            ValueError: The field cannot have this value; the message names it, and the expected one.
        """
        is_checked = self.bare is str or not isinstance(given, str)
        if is_checked and (wrong := check_of(self.kind, self.name).fault(given)) is not None:
            raise ValueError(f"{shown} is not {self.expected}" if self.expected else f"{shown}: {wrong.remedy}")
        if self.parse is not None:
            return self.parse(given)
        if isinstance(given, str) and self.bare is not str:
            word = given.strip().lower()
            given = next((one for one in self.choices if one.lower() == word), given.strip())
            given = _TRUTHS.get(word, given) if self.bare is bool else given
        try:
            made = msgspec.convert(given, self.kind, strict=False)
        except msgspec.ValidationError as error:
            # "Expected `float`, got `str`": that a variable is text, the user knows.
            fault = f"does not fit: {error}".partition(", got")[0].replace("`", "")
            raise ValueError(f"{shown} {f'is not {self.expected}' if self.expected else fault}") from None
        if self.bare is float and made is not None and not is_number(made):
            raise ValueError(f"{shown} is not {self.expected}")
        return made


def fields_of(kind: type[msgspec.Struct]) -> tuple[OptionField, ...]:
    """Return the fields of a struct of options, in order."""
    return tuple(_field(one) for one in msgspec.structs.fields(kind))


def _field(info: msgspec.structs.FieldInfo) -> OptionField:
    bare, metadata = _split(info.type)
    flag = next((one for one in metadata if isinstance(one, Flag)), Flag())
    metas = [one for one in metadata if isinstance(one, Meta)]
    parse = next((one for one in metadata if callable(one)), None)
    signs = {name: sign for name, sign, _ in BOUNDS}
    told = [(name, bound) for one in metas for name in signs if (bound := getattr(one, name)) is not None]
    shown, said = ", ".join(f"x{signs[name]}{bound}" for name, bound in told), words_of(told)
    if [name for name, _ in told] == ["ge", "le"]:
        shown = f"{told[0][1]}<=x<={told[1][1]}"
    noun = f"one of {', '.join(get_args(bare))}" if get_origin(bare) is Literal else _NOUNS.get(bare, "")
    return OptionField(
        info.name, info.type, bare, msgspec.NODEFAULT if info.required else _default(info),
        help=next((one for one in metadata if isinstance(one, str)), ""), flag=flag, parse=parse,
        range=shown, bounds=said.removeprefix("of "), expected=noun and f"{noun} {said}".strip(),
    )  # fmt: skip


def _default(info: msgspec.structs.FieldInfo) -> Any:
    return info.default if info.default is not msgspec.NODEFAULT else info.default_factory()


def _split(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    if get_origin(kind) is Annotated:
        bare, metadata = _split(kind.__origin__)
        return bare, (*kind.__metadata__, *metadata)
    others = [one for one in get_args(kind) if one is not NoneType]
    return _split(others[0]) if NoneType in get_args(kind) and len(others) == 1 else (kind, ())


def text_of(value: object) -> object:
    """Return a value as the command line takes it, where that differs."""
    match value:
        case timedelta():
            return f"{value.total_seconds():g}s"
        case BindAddress():
            return str(value)
        case tuple() | frozenset():
            return ",".join(value)
    return value


class _FieldType(click.ParamType):  # type: ignore[type-arg]  # generic in new releases only
    """The type of an option, from its field."""

    def __init__(self, field: OptionField) -> None:
        self.name = field.name
        self.field = field

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a text."""
        try:
            return self.field.read(value, repr(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the choices that begin so, or that a path is wanted."""
        if self.field.flag.metavar in PATHS:
            return [CompletionItem(incomplete, type=PATHS[self.field.flag.metavar])]
        return [CompletionItem(one) for one in self.field.choices if one.lower().startswith(incomplete.lower())]


class _TruthType(_FieldType, click.types.BoolParamType):
    """The type of an option without a value."""


class _Option(click.Option):
    """An option whose help shows the bounds of its field."""

    def get_help_extra(self, ctx: click.Context) -> click.types.OptionHelpExtra:
        extra = super().get_help_extra(ctx)
        if isinstance(self.type, _FieldType) and self.type.field.range:
            extra["range"] = self.type.field.range
        return extra


def options(
    kind: type[msgspec.Struct], *names: str, prefix: str = "KCR_", words: Mapping[str, str] = {},
    complete: Mapping[str, Completion] = {}, **defaults: object,
) -> Callable[[F], F]:  # fmt: skip
    """Return a decorator that adds the options of a struct to a command, in the order of its fields.

    Args:
        kind: The struct.
        names: The fields to take; none for all.
        prefix: The prefix of their variables.
        words: Defaults as the help shows them, by field, where the struct says something else.
        complete: Functions that complete values in a shell, by field.
        defaults: Defaults by field, where they are not the struct's.
    """

    def decorate(command: F) -> F:
        for field in reversed(fields_of(kind)):
            if not names or field.name in names:
                shown = words.get(field.name, field.flag.default)
                default = defaults.get(field.name, field.default)
                command = _option(field, prefix, text_of(default), shown, complete.get(field.name))(command)
        return command

    return decorate


def _option(
    field: OptionField, prefix: str, default: object, shown: str, complete: Completion | None
) -> Callable[[F], F]:
    flag, is_truth = field.flag, field.bare is bool
    spelling = f"{field.option}/--no-{field.option[2:]}" if flag.negation else field.option
    return click.option(
        *filter(None, (flag.short, spelling)), field.name, cls=_Option, default=default, help=field.help,
        type=_TruthType(field) if is_truth else _FieldType(field), is_flag=is_truth,
        metavar=None if is_truth else flag.metavar or f"[{'|'.join(field.choices)}]",
        envvar=f"{prefix}{field.name.upper()}", show_envvar=True, show_default=shown or default not in (None, ""),
        shell_complete=complete,
    )  # fmt: skip


def given_as(ctx: click.Context, name: str) -> Callable[[str], str]:
    """Return the spelling of field names as given by the user: as options, variables or keywords.

    Args:
        ctx: The context of the command.
        name: The field.
    """
    source, options = ctx.get_parameter_source(name), {one.name: one for one in ctx.command.params}
    if source is ParameterSource.DEFAULT:
        return str
    if source is ParameterSource.ENVIRONMENT:
        return lambda other: str(options[other].envvar or f"{ctx.auto_envvar_prefix}_{other.upper()}")
    return lambda other: options[other].opts[-1]
