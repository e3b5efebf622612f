"""Controllers found through the entry-point group `kcr.controllers`, and their options.

A plugin is a function `setup(manager, options)`. The annotation of `options` is a frozen struct of the plugin's
own; each of its fields is read from the environment as `KCR_` and its name in capitals, and some are given by the
command line. A plugin without options is `setup(manager)`.
"""

import inspect
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, get_type_hints

import click
import msgspec

from kcr.app.faults import YOUR_BUG, import_fault, place_of_user, unexpected
from kcr.app.fields import fields_of, given_as
from kcr.app.options import DEFAULT_CONTROLLERS, PluginOptions
from kcr.client.explainers import Explainer, explainers_of
from kcr.errors import ConfigError, KcrError
from kcr.log import get_logger
from kcr.manager import Manager

GROUP = "kcr.controllers"
# In a list of controllers: those that the command runs without one.
DEFAULT = "*"

Setup = Callable[..., Any]

_SHAPE = "name a function that adds controllers to a manager: `def setup(manager)`, or with a struct of its options"
# No options: variables of containers beside a Service called kcr or kcr-metrics, and of containers on `kcr dev`.
_NO_OPTION = re.compile(
    r"KCR_((\w+_)?(SERVICE_(HOST|PORT)\w*|PORT(_\d+_(TCP|UDP|SCTP)\w*)?)|MOUNT_\w+|TERMINATION_LOG)"
)
_PREFIX = "KCR_"
# The variables of all commands and of kcr's own controllers, none of which is imported for it: made of their options by
# `python -m tools.completions`.
VARIABLES = Path(__file__).with_name("variables.txt")
# How much of a name has to be right for the nearest to be proposed.
_LIKENESS = 0.75


def choose_plugins(
    given: tuple[str, ...], default: tuple[str, ...], *, none_of_kcr: bool = False, adds_own: bool = True,
    installed: Mapping[str, EntryPoint] | None = None,
) -> tuple[str, ...]:  # fmt: skip
    """Return the names of the plugins that a list of `--controllers` chooses.

    As with kube-controller-manager, `*` stands for the default and `-NAME` leaves one of it out. A list that names none
    of kcr's own controllers and no `*` adds its entries to the default.

    Args:
        given: The entries of the list.
        default: The controllers of the command without a list.
        none_of_kcr: Whether the default is left out, as with `--no-controllers`.
        adds_own: Whether a user's own controllers are added to the default; else they alone are chosen.
        installed: The entry points to choose from; None means those installed.

    Raises:
        click.UsageError: An entry that is left out is unknown or named as well.

    Source: kubernetes/staging/src/k8s.io/controller-manager/app/helper.go, IsControllerEnabled.
    """
    known = _installed() if installed is None else installed
    left_out = {name[1:]: None for name in given if name.startswith("-")}
    named = [name for name in given if name != DEFAULT and not name.startswith("-")]
    of_kcr = [name for name in named if name in known and known[name].value.startswith("kcr.")]
    for name in left_out:
        if name not in known:
            raise click.UsageError(f"-{name}: no controller is named {name!r}: known are {_list(known)}")
        if name in named:
            raise click.UsageError(f"{_spelled()} names {name!r}, and -{name} leaves it out: remove one of the two")
    if none_of_kcr and of_kcr:
        text = f"{_spelled()} names {of_kcr[0]!r}, and --no-controllers leaves it out: remove one of the two"
        raise click.UsageError(text)
    has_default = DEFAULT in given or not (of_kcr if adds_own else named)
    chosen = dict.fromkeys((*(default if has_default and not none_of_kcr else ()), *of_kcr, *named))
    return tuple(name for name in chosen if name not in left_out)


def choose_to_run(options: PluginOptions, *, adds_own: bool = True) -> tuple[str, ...]:
    """Return the names of the plugins that `kcr run` runs, see `choose_plugins`.

    Args:
        options: The list, and whether the default is left out.
        adds_own: As for `choose_plugins`.

    Raises:
        click.UsageError: An entry of the list cannot be used, or none is left.
    """
    none = options.no_controllers
    chosen = choose_plugins(options.controllers, DEFAULT_CONTROLLERS, none_of_kcr=none, adds_own=adds_own)
    if not chosen:
        raise click.UsageError("no controllers are left to run: name some with --controllers")
    return chosen


def find_plugins(names: tuple[str, ...], installed: Mapping[str, EntryPoint] | None = None) -> dict[str, Setup]:
    """Import the plugins of these names.

    Args:
        names: As the user wrote them. `module:setup` names a function that is not installed as a plugin; its module is
            searched in the working directory as well.
        installed: The entry points to choose from; None means those installed.

    Returns:
        The setup functions by name.

    Raises:
        click.UsageError: There is no plugin of this name, or it is none.
        ConfigError: A plugin cannot be imported.
    """
    known = _installed() if installed is None else installed
    for name in names:
        if ":" in name:
            # `sys.path` begins with the folder of the command `kcr` and lacks the working directory.
            if os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            if EntryPoint.pattern.match(name) is None:
                raise click.UsageError(f"{name!r} names no controller: write module:setup, as in an import")
            known = {**known, name: EntryPoint(name, name, GROUP)}
        elif name not in known:
            raise click.UsageError(
                f"no controller is named {name!r}: known are {_list(known)}, or name it module:setup"
            )
    return {name: _load(known[name]) for name in names}


def find_explainers(
    names: tuple[str, ...], warn: Callable[[str], object], installed: Mapping[str, EntryPoint] | None = None
) -> tuple[Explainer, ...]:
    """Return the explainers of the installed plugins, and of others.

    Args:
        names: As for `choose_plugins`; the installed ones need not be named, and none is left out.
        warn: Called with the reason for each installed plugin that cannot be imported.
        installed: The entry points to choose from; None means those installed.

    Raises:
        click.UsageError: There is no plugin of this name, or it is none.
        ConfigError: A plugin that is named cannot be imported.
    """
    known = _installed() if installed is None else installed
    setups = find_plugins(tuple(name for name in names if name != DEFAULT and not name.startswith("-")), known)
    for name in known.keys() - setups.keys():
        try:
            setups[name] = _load(known[name])
        except ConfigError as error:
            warn(str(error))
    return tuple(one for name in sorted(setups) for one in explainers_of(setups[name]))


def called(name: str) -> str:
    """Return the name of a setup function in errors: `controller 'job'`; `the program` without a name."""
    return f"controller {name!r}" if name else "the program"


def _spelled() -> str:
    ctx = click.get_current_context(silent=True)
    return given_as(ctx, "controllers")("controllers") if ctx is not None else "--controllers"


def _list(known: Mapping[str, EntryPoint]) -> str:
    return ", ".join(sorted(known)) or "none is installed"


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _load(point: EntryPoint) -> Setup:
    try:
        setup = point.load()
    except Exception as error:
        # Whatever a module may raise while it is imported: the user needs its name, not our stack.
        # One that was named `module:setup` is called by that alone.
        where = "" if point.name == point.value else f" from {point.value}"
        hint = (
            "reinstall it, or see whether a package or file of yours stands in its way"
            if where
            else "name it module:setup, as in an import; the folder you are in is searched first"
        )
        fault = import_fault(error, point.module, hint)
        raise ConfigError(f"controller {point.name!r} cannot be imported{where}: {fault}") from error
    if not callable(setup) or isinstance(setup, type):
        what = "a class" if isinstance(setup, type) else "not a function"
        raise ConfigError(f"controller {point.name!r}: {point.value} is {what}: name its function setup(manager)")
    return setup  # type: ignore[no-any-return]  # entry points are not typed


def read_options(kind: type[Any], environ: Mapping[str, str], given: Mapping[str, object]) -> Any:
    """Build a plugin's options.

    Args:
        kind: The struct of the options.
        environ: The environment; an empty variable counts as none.
        given: Values of the command line by field name; None and names that are no field are passed over.

    Raises:
        click.UsageError: A variable has a value its field cannot take, or a field has none and needs one.
    """
    values: dict[str, object] = {}
    read = []
    for field in fields_of(kind):
        variable = f"{_PREFIX}{field.name.upper()}"
        if given.get(field.name) is not None:
            values[field.name] = given[field.name]
        elif environ.get(variable):
            try:
                # Without the value, which may be a secret of a user's plugin.
                values[field.name] = field.read(environ[variable], "its value")
            except ValueError as error:
                raise click.UsageError(f"{variable}: {error}") from None
            read.append(variable)
        elif field.default is msgspec.NODEFAULT:
            raise click.UsageError(f"{variable} is not set, and the controller needs a value")
    try:
        return kind(**values)
    except ValueError as error:
        remedy = f": change {', '.join(read)}" if read else ""
        raise click.UsageError(f"the controller refuses its options: {error}{remedy}") from error


def attach(setups: Mapping[str, Setup], manager: Manager, environ: Mapping[str, str], **given: object) -> None:
    """Call each setup function with the manager and its options; the controllers that it adds have its name.

    Args:
        setups: The functions by name, as `--controllers` takes it; empty for that of a program of one's own.
        manager: The manager to which they add controllers.
        environ: The environment that options are read from.
        given: Values of the command line by field name; they come before the environment.

    Raises:
        click.UsageError: A value does not fit its option.
        ConfigError: A setup is not made as the module's docstring says.
    """
    for name, setup in setups.items():
        kind = options_type(name, setup)
        with manager.adding_for(name):
            result = _call(name, setup, [manager] if kind is None else [manager, read_options(kind, environ, given)])
        if inspect.iscoroutine(result):
            result.close()
            remedy = "write `def setup(manager)`, and await in a component that is given to manager.add"
            raise ConfigError(f"{called(name)}: its setup is an async function: {remedy}")
    # `kcr dev --no-controllers` has none.
    if setups and manager.is_empty:
        names = " and ".join(map(called, setups))
        remedy = "call manager.add_controller(…), add_webhook(…) or add(…) in it"
        raise ConfigError(f"{names}: setup adds nothing to the manager: {remedy}")


def options_type(name: str, setup: Setup) -> type[msgspec.Struct] | None:
    """Return the struct of a setup's options, None where it takes the manager alone.

    Raises:
        ConfigError: It cannot be called with a manager, or with a manager and options.
    """
    try:
        parameters = tuple(inspect.signature(setup).parameters.values())
    except ValueError as error:
        raise ConfigError(f"{called(name)}: {error}: {_SHAPE}") from error
    placed = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = [one for one in parameters if one.default is one.empty and one.kind is not one.VAR_KEYWORD]
    if not any(one in placed or one.kind is one.VAR_POSITIONAL for one in parameters):
        raise ConfigError(f"{called(name)}: it takes no manager: {_SHAPE}")
    beyond = [one.name for one in needed if one not in placed[:2] and one.kind is not one.VAR_POSITIONAL]
    if beyond:
        raise ConfigError(f"{called(name)}: it needs {', '.join(beyond)} as well, which nothing gives it: {_SHAPE}")
    if len(placed) < 2:
        return None
    try:
        kind = get_type_hints(setup).get(placed[1].name)
        if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            raise ConfigError(f"{called(name)}: the options of its setup are not a struct: annotate them with one")
        msgspec.structs.fields(kind)
    except NameError as error:
        raise ConfigError(
            f"{called(name)}: {error}: import in its module what the annotations of its setup name"
        ) from error
    return kind


def _call(name: str, setup: Setup, arguments: list[object]) -> object:
    try:
        return setup(*arguments)
    except (KcrError, click.UsageError):
        raise
    except Exception as error:
        top = str(getattr(setup, "__module__", "")).partition(".")[0]
        # An error in the user's code is shown with its place there, and one of kcr's own plugins is a bug of kcr.
        if top == "kcr" or place_of_user(error.__traceback__):
            raise
        get_logger().debug("setup failed", exc_info=error)
        # A function of Python is none at all; one of an installed package has a bug.
        remedy = _SHAPE if top in sys.stdlib_module_names else YOUR_BUG
        raise ConfigError(f"{called(name)}: {unexpected(error)}: {remedy}") from error


def variables_of(setups: Mapping[str, Setup]) -> Iterator[str]:
    """Yield the variables that the options of plugins are read from."""
    for name, setup in setups.items():
        kind = options_type(name, setup)
        yield from () if kind is None else (f"{_PREFIX}{field.name.upper()}" for field in fields_of(kind))


def unknown_variables(environ: Mapping[str, str], known: Collection[str]) -> dict[str, str]:
    """Return the variables that begin with `KCR_` and that no option has, and the nearest that one has.

    Returns:
        By variable the nearest name, empty where none is near.
    """
    names = sorted(one for one in environ if one.startswith(_PREFIX) and one not in known)
    # Without the common prefix, which would make them alike.
    rests = {one.removeprefix(_PREFIX): one for one in known}
    found = {}
    for name in names:
        if not _NO_OPTION.fullmatch(name):
            near = get_close_matches(name.removeprefix(_PREFIX), rests, 1, _LIKENESS)
            found[name] = rests[near[0]] if near else ""
    return found


def warn_of_unknown_variables(setups: Mapping[str, Setup], warn: Callable[[str], object]) -> None:
    """Warn of variables that begin with `KCR_` and that no option has; called by the command that reads options.

    Args:
        setups: The plugins of the command, whose options have variables as well.
        warn: Says a warning.
    """
    ctx = click.get_current_context()
    known = {*variables_of_options(ctx.command, ctx.auto_envvar_prefix), *variables_of(setups)}
    if not unknown_variables(os.environ, known):
        return
    # They may be for another command, or for a plugin that does not run now: neither is imported to find out.
    known |= {*VARIABLES.read_text(encoding="utf-8").split()}
    # Variables of another package's command or plugin begin with its name; others cause a warning.
    points = (point for group in (GROUP, "kcr.commands") for point in entry_points(group=group))
    foreign = (point.name for point in points if not point.value.startswith(("kcr.", "kcr_devcluster.")))
    others = tuple(f"{_PREFIX}{name.upper().replace('-', '_')}_" for name in foreign)
    for variable, nearest in unknown_variables(os.environ, known).items():
        if variable.startswith(others):
            continue
        hint = f"is it {nearest}?" if nearest else "see --help for those that are read"
        warn(f"no option has the variable {variable}: {hint}")


def variables_of_options(command: click.Command, prefix: str | None) -> Iterator[str]:
    """Yield the variables of a command's options, and of the commands below it."""
    prefix = command.context_settings.get("auto_envvar_prefix", prefix)
    for option in command.params:
        if isinstance(option.envvar, str):
            yield option.envvar
        elif prefix and option.name and isinstance(option, click.Option) and option.allow_from_autoenv:
            # Arguments have no variables.
            yield f"{prefix}_{option.name.upper()}"
    for one in command.commands.values() if isinstance(command, click.Group) else ():
        yield from variables_of_options(one, prefix and f"{prefix}_{(one.name or '').upper()}")
