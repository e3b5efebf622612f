"""Command-line options that several commands share."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from kcr.api.durations import parse_duration
from kcr.app.fields import options
from kcr.app.options import PluginOptions, ProgramOptions
from kcr.cli.completers import complete_controllers, complete_namespaces, complete_objects

F = TypeVar("F", bound=Callable[..., Any])


def plugin_options(*names: str, **given: Any) -> Callable[[F], F]:
    """Return a decorator that adds options of plugins, with shell completion; see `kcr.app.fields.options`."""
    return options(PluginOptions, *names, complete={"controllers": complete_controllers}, **given)


def program_options(*names: str, **given: Any) -> Callable[[F], F]:
    """Return a decorator that adds options of programs, with shell completion; see `kcr.app.fields.options`."""
    return options(ProgramOptions, *names, complete={"namespace": complete_namespaces}, **given)


def connection_options(command: F) -> F:
    """Add `--kubeconfig`, `--context`, `--exec-plugins` and `--namespace`."""
    return program_options("kubeconfig", "context", "exec_plugins", "namespace")(command)


_in_context = program_options(
    "kubeconfig", "context", "exec_plugins", "namespace", words={"namespace": "the context's"}
)


def _parsed(ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> Any:
    from kcr.cli.target import parse_one  # noqa: PLC0415  # a help needs no client

    return parse_one(texts)


object_argument: Callable[[F], F] = click.argument(
    "name", nargs=-1, required=True, metavar="KIND/NAME", callback=_parsed, shell_complete=complete_objects
)


def object_options(command: F) -> F:
    """Add `--kubeconfig`, `--context`, `--exec-plugins` and `--namespace`, which is the context's by default."""
    everywhere = click.option(
        "-A", "--all-namespaces", is_flag=True, hidden=True, expose_value=False, allow_from_autoenv=False,
        callback=_not_everywhere,
    )  # fmt: skip
    return _in_context(everywhere(command))


def fleet_options(command: F) -> F:
    """Add `--kubeconfig`, `--context`, `--exec-plugins`, `--namespace`, and `-A` for the objects of all namespaces."""
    everywhere = click.option(
        "-A", "--all-namespaces", "everywhere", is_flag=True, allow_from_autoenv=False, help="In all namespaces."
    )
    return _in_context(everywhere(command))


def color_option(command: F) -> F:
    """Add `--color`; the variable NO_COLOR leaves colours out as well (https://no-color.org)."""
    return click.option(
        "--color", type=click.Choice(["auto", "always", "never"]), default="auto", show_default=True, is_eager=True,
        expose_value=False, allow_from_autoenv=False, callback=_set_color, help="Colours; by default on a terminal.",
    )(command)  # fmt: skip


def _set_color(ctx: click.Context, parameter: click.Parameter, when: str) -> None:
    ctx.color = False if when == "auto" and os.environ.get("NO_COLOR") else {"always": True, "never": False}.get(when)


def selector_option(words: str) -> Callable[[F], F]:
    """Return a decorator that adds `-l`, with a text for the help."""
    return click.option("-l", "--selector", metavar="LABELS", default="", allow_from_autoenv=False, help=words)


def _not_everywhere(ctx: click.Context, parameter: click.Parameter, given: bool) -> None:
    """Refuse `-A` as `kubectl get job/pi -A` does: a name is one in each namespace."""
    if given:
        raise click.UsageError("an object cannot be found by name in all namespaces: name its namespace with -n")


def optional_seconds(ctx: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Read a duration, such as `1m30s`, as seconds; None when there is none.

    Raises:
        click.BadParameter: The text is not a duration above zero.
    """
    if text is None:
        return None
    try:
        seconds = parse_duration(text) / 1e9
    except ValueError as error:
        raise click.BadParameter(f"{error}; write it as 15s or 1m30s") from error
    if seconds <= 0:
        raise click.BadParameter(f"{text} is not above zero")
    return seconds
