"""Controllers found through the entry-point group `kcr.controllers`, and their options.

A plugin is a function `setup(manager, options)`. The annotation of `options` is a frozen struct of the plugin's
own; each of its fields is read from the environment as `KCR_` and its name in capitals, and some are given by the
command line. A plugin without options is `setup(manager)`.
"""

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, get_type_hints

import click
import msgspec

from kcr.app.faults import import_fault
from kcr.errors import ConfigError
from kcr.manager import Manager

GROUP = "kcr.controllers"

Setup = Callable[..., object]


def find_plugins(names: tuple[str, ...], installed: Mapping[str, EntryPoint] | None = None) -> dict[str, Setup]:
    """Import the plugins of these names.

    Args:
        names: As the user wrote them. `module:setup` names a function that is not installed as a plugin; its module is
            looked for in the working directory as well.
        installed: The entry points to choose from; None means those installed.

    Returns:
        The setup functions by what errors call them, such as `controller 'job'`.

    Raises:
        click.UsageError: There is no plugin of this name.
        ConfigError: A plugin cannot be imported.
    """
    known = {point.name: point for point in entry_points(group=GROUP)} if installed is None else installed
    for name in names:
        if ":" in name:
            # `sys.path` begins with the folder of the command `kcr` and lacks the working directory.
            if os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            known = {**known, name: EntryPoint(name, name, GROUP)}
        elif name not in known:
            listed = ", ".join(sorted(known)) or "none is installed"
            raise click.UsageError(f"no controller is named {name!r}: known are {listed}, or name it module:setup")
    return {f"controller {name!r}": _load(known[name]) for name in names}


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
        what = "a class" if isinstance(setup, type) else "no function"
        raise ConfigError(f"controller {point.name!r}: {point.value} is {what}: name its function setup(manager)")
    return setup  # type: ignore[no-any-return]  # what an entry point loads is not typed


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
    for field in msgspec.structs.fields(kind):
        variable = f"KCR_{field.name.upper()}"
        if given.get(field.name) is not None:
            values[field.name] = given[field.name]
        elif environ.get(variable):
            values[field.name] = _converted(environ[variable], field.type, variable)
            read.append(variable)
        elif field.required:
            raise click.UsageError(f"{variable} is not set, and the controller needs a value")
    try:
        return kind(**values)
    except ValueError as error:
        remedy = f": change {', '.join(read)}" if read else ""
        raise click.UsageError(f"the controller refuses its options: {error}{remedy}") from error


def _converted(text: str, wanted: Any, variable: str) -> object:
    try:
        return msgspec.convert(text.strip(), wanted, strict=False)
    except msgspec.ValidationError as error:
        # "Expected `float`, got `str`": that a variable is text, the user knows.
        fault = str(error).partition(", got")[0].replace("`", "").lower()
        # Without the value, which may be a secret of a user's plugin.
        raise click.UsageError(f"{variable}: {fault}") from None


def attach(setups: Mapping[str, Setup], manager: Manager, environ: Mapping[str, str], **given: object) -> None:
    """Call each setup function with the manager and its options.

    Args:
        setups: The functions, by what errors call them.
        manager: What they add controllers to.
        environ: The environment that options are read from.
        given: Values of the command line by field name; they come before the environment.

    Raises:
        click.UsageError: A value does not fit its option.
        ConfigError: A setup is not made as the module's docstring says.
    """
    for name, setup in setups.items():
        arguments: list[object] = [manager]
        parameters = tuple(inspect.signature(setup).parameters)
        if len(parameters) > 1:
            kind = get_type_hints(setup).get(parameters[1])
            if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
                raise ConfigError(f"{name}: the options of its setup are no struct: annotate them with one")
            arguments.append(read_options(kind, environ, given))
        result = setup(*arguments)
        if inspect.iscoroutine(result):
            result.close()
            raise ConfigError(
                f"{name}: its setup is an async function: write `def setup(manager)`, and await in a component that "
                "is given to manager.add"
            )
