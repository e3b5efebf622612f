"""Which objects a command is about, and the cluster that has them."""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import click

from kcr.api.batch import CronJob, Job
from kcr.api.meta import Key, Resource
from kcr.app.startup import explain_failure
from kcr.client import Client, HttpTransport, load_config
from kcr.errors import ApiError, ConfigError, NotFoundError, TransportError

# The names that kubectl takes for the kinds of kcr's own controllers.
_NAMES: Mapping[str, type[Resource]] = {
    name: kind
    for kind, names in ((Job, ("job", "jobs")), (CronJob, ("cronjob", "cronjobs", "cj")))
    for name in (*names, f"{names[0]}.batch", f"{names[1]}.batch")
}
# Source: apimachinery/pkg/util/validation/validation.go, IsDNS1123Subdomain; that a part is too long the server says.
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


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


def parse_jobs(ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[ObjectName, ...]:
    """Read the names of Jobs, as `job/NAME`.

    Raises:
        click.BadParameter: A text names no Job.
    """
    return tuple(dict.fromkeys(parse_job(ctx, parameter, text) for text in texts))


def parse_job(ctx: click.Context, parameter: click.Parameter, text: str) -> ObjectName:
    """Read the name of one Job, as `job/NAME`.

    Raises:
        click.BadParameter: The text names no Job.
    """
    found = parse_object(text)
    if found.kind is not Job:
        raise click.BadParameter(f"{text!r} names no Job: write job/NAME")
    return found


def parse_object(text: str) -> ObjectName:
    """Read the name of a Job or CronJob, as `job/NAME` or `cronjob/NAME`.

    Raises:
        click.BadParameter: The text names neither.
    """
    kind, _, name = text.partition("/")
    if kind.lower() not in _NAMES or not name or "/" in name:
        raise click.BadParameter(f"{text!r} names no Job or CronJob: write job/NAME or cronjob/NAME")
    if not _OBJECT_NAME.fullmatch(name):
        raise click.BadParameter(f"{name!r} is no name of an object: it has lower-case letters, digits, '-' and '.'")
    return ObjectName(_NAMES[kind.lower()], name)


@asynccontextmanager
async def connected(values: Mapping[str, Any]) -> AsyncIterator[tuple[Client, str]]:
    """Connect to the cluster of the options, and yield a client and the namespace to work in.

    Args:
        values: `kubeconfig`, `context` and `namespace`, as `options.object_options` adds them.

    Raises:
        ConfigError: The server cannot be used, or has no such object; the message has the cause and the remedy.
    """
    config = load_config(values["kubeconfig"], values["context"])
    async with HttpTransport(config) as transport:
        try:
            yield Client(transport), values["namespace"] or config.namespace
        except NotFoundError as error:
            raise ConfigError(f"{error.message}: name its namespace with -n, or see `kubectl get jobs -A`") from error
        except (ApiError, TransportError) as error:
            raise ConfigError(explain_failure(error, config.server, config.origin)) from error


def keys_of(names: tuple[ObjectName, ...], namespace: str) -> dict[Key, ObjectName]:
    """Return the objects by key, in the order given."""
    return {Key(namespace, one.name): one for one in names}
