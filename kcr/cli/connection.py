"""How commands about objects run: quietly, until they end or a signal ends them, connected to a cluster."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeVar

from kcr.api.meta import Key, Resource
from kcr.app.logs import configure_logs
from kcr.app.process import run_to_end
from kcr.client import Client, ClusterConfig, HttpTransport, load_config
from kcr.client.cluster_config import explain_failure
from kcr.errors import ApiError, ConfigError, NotFoundError, TransportError

R = TypeVar("R", bound=Resource)

# Among so many objects a name is compared, and is alike from this ratio on.
_MOST_NAMES, _LIKENESS = 500, 0.75
# As of a shell whose program SIGINT has ended.
_INTERRUPTED = 130


def run_quietly(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a command, and return its exit code: 130 when a signal ended it.

    Args:
        main: The command. An error that it raises ends it with one line, so the client logs none.
    """
    configure_logs(None, "critical")
    code = run_to_end(main)
    return _INTERRUPTED if code is None else code


class Connection(NamedTuple):
    """A cluster that a command is connected to.

    Attributes:
        client: Talks to its API server.
        namespace: The namespace to work in.
        config: How the cluster is reached.
    """

    client: Client
    namespace: str
    config: ClusterConfig


@asynccontextmanager
async def connected(values: Mapping[str, Any]) -> AsyncIterator[Connection]:
    """Connect to the cluster of the options.

    Args:
        values: `kubeconfig`, `context`, `exec_plugins` and `namespace`, as `options.object_options` adds them.

    Raises:
        ConfigError: The server cannot be used; the message has the cause and the remedy.
    """
    config = load_config(values["kubeconfig"], values["context"], exec_plugins=values["exec_plugins"])
    async with HttpTransport(config) as transport:
        try:
            yield Connection(Client(transport), values["namespace"] or config.namespace, config)
        except NotFoundError as error:
            raise ConfigError(error.message) from error
        except (ApiError, TransportError) as error:
            raise ConfigError(explain_failure(error, config)) from error


async def find(client: Client, kind: type[R], key: Key) -> R:
    """Return an object that the user has named.

    Raises:
        ConfigError: There is none; see `unfound`.
    """
    try:
        return await client.get(kind, key)
    except NotFoundError as error:
        raise await unfound(client, kind, key, error) from error


async def unfound(client: Client, kind: type[Resource], key: Key, error: NotFoundError) -> ConfigError:
    """Return the error line for a named object that does not exist: where to look, and names that are spelled alike."""
    listed = f"kubectl get {kind.resource.plural}"
    hint = f"name its namespace with -n, or see `{listed} -A`" if kind.resource.namespaced else f"see `{listed}`"
    near = await near_objects(client, kind, key)
    return ConfigError(f"{error.message}: {f'is it {near}? Or ' if near else ''}{hint}")


async def near_objects(client: Client, kind: type[Resource], key: Key) -> str:
    """Return the names of a kind's objects that are spelled like a wrong one, joined by `or`; empty for none."""
    try:
        _, found = await client.list_page(kind, key.namespace, limit=_MOST_NAMES)
    except (ApiError, TransportError):
        return ""
    return " or ".join(get_close_matches(key.name, [one.metadata.name for one in found], 2, _LIKENESS))
