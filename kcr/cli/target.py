"""Which objects a command is about."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

from kcr.api.batch import CronJob, Job
from kcr.api.meta import Resource
from kcr.api.resources import is_object_name
from kcr.api.unstructured import unstructured
from kcr.client import Client
from kcr.client.discovery import all_served_kinds, find_kind, near_names
from kcr.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

# The names that kubectl takes for the kinds of kcr's own controllers.
_NAMES: Mapping[str, type[Resource]] = {
    name: kind
    for kind, names in ((Job, ("job", "jobs")), (CronJob, ("cronjob", "cronjobs", "cj")))
    for name in (*names, f"{names[0]}.batch", f"{names[1]}.batch")
}
# Such as that of a Role. Characters with a meaning in paths and field selectors are in no name.
# Source: apimachinery/pkg/api/validation/path/name.go, IsValidPathSegmentName.
_PATH_SEGMENT = re.compile(r"(?!\.\.?$)[^/%,=\\\s]+")


class ObjectName(NamedTuple):
    """An object as a command line names it: `job/pi`.

    Attributes:
        kind: Its kind.
        name: Its name.
    """

    kind: type[Resource]
    name: str

    def __str__(self) -> str:
        """Return the name as kubectl prints it: `job.batch/pi`."""
        group = f".{self.kind.resource.group}" if self.kind.resource.group else ""
        return f"{self.kind.resource.kind.lower()}{group}/{self.name}"


class UnresolvedName(NamedTuple):
    """An object of a kind that only the server knows, as a command line names it: `websites.example.dev/shop`.

    Attributes:
        kind: The text that names its kind.
        name: Its name.
    """

    kind: str
    name: str


def parse_jobs(ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[ObjectName, ...]:
    """Read the names of Jobs, as `job/NAME`, or as `job NAME NAME`; `job` alone is none, as in `job --all`.

    Raises:
        click.UsageError: A text names no Job.
    """
    if texts in (("job",), ("jobs",)):
        return ()
    return tuple(dict.fromkeys(_parse(Job, text) for text in _with_kinds(texts)))


def named(kind: type[Resource], complete: Completer) -> Callable[[F], F]:
    """Return a decorator that adds the argument for the name of one object, as `job/NAME` or `job NAME`."""
    name = kind.resource.kind.lower()
    return click.argument(
        name, nargs=-1, required=True, metavar=f"{name}/NAME", shell_complete=complete,
        callback=lambda ctx, parameter, texts: _parse(kind, _single(texts)),
    )  # fmt: skip


def parse_one(texts: Sequence[str]) -> ObjectName | UnresolvedName:
    """Read the name of one object, as `KIND/NAME` or `KIND NAME`.

    Raises:
        click.UsageError: The text names none, or several.
    """
    return parse_object(_single(texts))


def _with_kinds(texts: Sequence[str]) -> Sequence[str]:
    """Return names as `KIND/NAME`, also where their kind comes once before them, as with kubectl: `job pi test`."""
    kind, *names = texts or ("",)
    return [f"{kind}/{name}" for name in names] if names and not any("/" in text for text in texts) else texts


def _single(texts: Sequence[str]) -> str:
    text, *others = _with_kinds(texts)
    if others:
        raise click.UsageError(f"{' '.join(texts)!r} names {len(others) + 1} objects: name one")
    return text


def _parse(wanted: type[Resource], text: str) -> ObjectName:
    kind, _, name = text.partition("/")
    if _NAMES.get(kind.lower()) is not wanted or not name or "/" in name:
        # Not of the parameter, whose name would repeat the advice.
        bare = "/" not in text and text.lower() not in _NAMES and is_object_name(text)
        own = wanted.resource.kind
        raise click.UsageError(f"{text!r} names no {own}: write {own.lower()}/{text if bare else 'NAME'}")
    return ObjectName(wanted, _checked(name, is_valid=is_object_name(name)))


def parse_object(text: str) -> ObjectName | UnresolvedName:
    """Read the name of an object, as `KIND/NAME`; that of a Job or CronJob needs no server.

    Raises:
        click.UsageError: The text names none.
    """
    kind, _, name = text.partition("/")
    if not kind or not name or "/" in name:
        bare = "/" not in text and text.lower() not in _NAMES and is_object_name(text)
        raise click.UsageError(f"{text!r} names no object: write KIND/NAME, such as job/{text if bare else 'pi'}")
    if kind.lower() in _NAMES:
        return ObjectName(_NAMES[kind.lower()], _checked(name, is_valid=is_object_name(name)))
    return UnresolvedName(kind, _checked(name, is_valid=_PATH_SEGMENT.fullmatch(name) is not None))


def _checked(name: str, *, is_valid: bool) -> str:
    if not is_valid:
        raise click.UsageError(f"{name!r} is not a name of an object: it has lower-case letters, digits, '-' and '.'")
    return name


async def resolved(client: Client, name: ObjectName | UnresolvedName) -> ObjectName:
    """Return an object's name with its kind, as the server has it.

    Raises:
        ConfigError: The server has no such kind; the message names those that are spelled alike.
    """
    if isinstance(name, ObjectName):
        return name
    kinds = await all_served_kinds(client)
    found = find_kind(kinds, name.kind)
    if found is not None:
        place = found.resource
        made = unstructured(place.api_version, place.kind, plural=place.plural, namespaced=place.namespaced)
        return ObjectName(made, name.name)
    near = near_names(kinds, name.kind)
    hint = f"is it {' or '.join(near)}?" if near else "see `kubectl api-resources`"
    raise ConfigError(f"the server has no kind {name.kind!r}: {hint}")
